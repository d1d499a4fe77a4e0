"""Which service owns a data folder, and how settings reach the processes that belong to it."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gramian.settings import Settings

FILE = "serve.json"


class ServiceRunning(Exception):
    """Another service owns the data folder."""

    def __init__(self, data_dir: Path, url: str | None) -> None:
        super().__init__(f"a service already runs on {data_dir}" + (f": {url}" if url else ""))
        self.url = url


@contextmanager
def owned(data_dir: Path, *, shareable: bool) -> Iterator[bool]:
    """Hold a lock on the file that tells others where the service listens; whether it is this one that may tell.

    One service a data folder, unless it is `shareable`: then the first that came tells.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    with (data_dir / FILE).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not shareable:
                raise ServiceRunning(data_dir, running_service(data_dir)) from None
            yield False
            return
        file.truncate(0)
        yield True
        file.truncate(0)


def announce(data_dir: Path, url: str) -> None:
    """Tell where the service listens."""
    (data_dir / FILE).write_text(json.dumps({"url": url, "pid": os.getpid()}))


def running_service(data_dir: Path) -> str | None:
    """The address of the service that owns the data folder, if one runs."""
    try:
        with (data_dir / FILE).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        try:
            url = json.loads((data_dir / FILE).read_text())["url"]
        except (ValueError, KeyError):
            return None  # it is still starting
        return str(url)
    except OSError:
        return None
    return None


#: Settings that are not shown when a model of them is printed.
SECRETS = ("secret_key", "hub_webhook_secret", "generic_hook_secret")


def environment(settings: Settings) -> dict[str, str]:
    """The settings as a child process reads them."""
    values = settings.model_dump(exclude_none=True, exclude={"hf_token", "hf_endpoint", *SECRETS})
    found = {f"GRAMIAN_{name.upper()}": str(value) for name, value in values.items()}
    found["HF_ENDPOINT"] = settings.hf_endpoint
    for name in SECRETS:
        secret = getattr(settings, name)
        if secret:
            found[f"GRAMIAN_{name.upper()}"] = secret.get_secret_value()
    if settings.hub_token:
        found["HF_TOKEN"] = settings.hub_token
    return os.environ | found


def worker_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment with what a worker wants of its libraries, unless the operator has chosen otherwise.

    Blocks of rows come and go by the thousand: glibc would return each to the kernel and fault it in again. Ranges of
    rows are measured by threads of our own: NumPy's BLAS should not start more inside each.
    """
    wanted = {
        "MALLOC_MMAP_THRESHOLD_": str(256 * 1024**2),
        "MALLOC_TRIM_THRESHOLD_": str(512 * 1024**2),
        "OPENBLAS_NUM_THREADS": "1",
    }
    return wanted | dict(environ)
