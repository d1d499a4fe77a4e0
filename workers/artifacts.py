"""Files that runs made and no analysis has.

A run writes its files before the transaction that ends it. One that loses its claim in between, or its process, leaves
files that no row refers to. Those of a run that is about to end look the same for a moment: only old ones are swept.
"""

from sqlalchemy import Engine

from gramian.projects import EVERY
from gramian.settings import Settings
from gramian.storage.blobs import artifact_store
from gramian.storage.unit_of_work import UnitOfWork

UNCLAIMED_SECONDS = 3600.0  # the end of a run waits two minutes at most for a database that is away
AT_ONCE = 500


def sweep_artifacts(engine: Engine, settings: Settings, *, unclaimed_seconds: float = UNCLAIMED_SECONDS) -> None:
    """Remove half-written files, and whole ones that no analysis has."""
    store = artifact_store(settings)
    store.sweep(older_than=unclaimed_seconds)
    digests = store.digests(older_than=unclaimed_seconds)
    for start in range(0, len(digests), AT_ONCE):
        some = digests[start : start + AT_ONCE]
        with UnitOfWork(engine, project=EVERY, writes=False) as uow:
            used = uow.files.used(some)
        for digest in set(some) - used:
            store.delete(digest)
