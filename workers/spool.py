"""Where runs put the tensors that they fetch."""

import shutil
import time
from pathlib import Path

from gramian.settings import Settings


def spool_folder(settings: Settings) -> Path:
    return settings.data_dir / "spool"


def sweep_spool(settings: Settings) -> None:
    """Remove what killed runs have fetched: folders older than any run may be."""
    oldest = time.time() - settings.job_timeout_seconds - 60
    for folder in spool_folder(settings).glob("*"):
        if folder.stat().st_mtime < oldest:
            shutil.rmtree(folder, ignore_errors=True)
