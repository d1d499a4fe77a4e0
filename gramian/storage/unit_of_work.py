"""One transaction: opened once, committed once, with what must wait for the commit."""

import zlib
from collections.abc import Callable
from types import TracebackType
from typing import Self

from sqlalchemy import Engine, func, select

from gramian import projects
from gramian.storage.analyses import AnalysisRepository
from gramian.storage.audit import WITHOUT_KEY, AuditRepository
from gramian.storage.deliveries import DeliveryRepository
from gramian.storage.files import FileRepository
from gramian.storage.idempotency import IdempotencyRepository
from gramian.storage.jobs import JobRepository
from gramian.storage.keys import KeyRepository
from gramian.storage.matrices import MatrixRepository
from gramian.storage.models import ModelRepository
from gramian.storage.projects import ProjectRepository
from gramian.storage.session import open_session
from gramian.storage.toy_cells import ToyCellRepository
from gramian.storage.uploads import UploadRepository
from gramian.storage.watches import WatchRepository
from gramian.storage.webhooks import WebhookRepository


class UnitOfWork:
    """Repositories over one session. Leaving the block commits, an exception rolls back; nobody else commits.

    It sees one project, the default one unless another is named; `project=EVERY` sees all. `actor` is who is noted for
    what is done: a key's id, or a word for who has none.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        project: str | None = projects.DEFAULT,
        writes: bool = True,
        actor: str = WITHOUT_KEY,
    ) -> None:
        self.project = project
        self.actor = actor
        self._engine = engine.execution_options(writes=writes)
        self._after_commit: list[Callable[[], object]] = []

    def __enter__(self) -> Self:
        self.session = open_session(self._engine, self.project)
        self.session.info["actor"] = self.actor
        self.analyses = AnalysisRepository(self.session)
        self.audit = AuditRepository(self.session)
        self.deliveries = DeliveryRepository(self.session)
        self.files = FileRepository(self.session)
        self.idempotency = IdempotencyRepository(self.session)
        self.jobs = JobRepository(self.session)
        self.keys = KeyRepository(self.session)
        self.matrices = MatrixRepository(self.session)
        self.models = ModelRepository(self.session)
        self.projects = ProjectRepository(self.session)
        self.toy_cells = ToyCellRepository(self.session)
        self.uploads = UploadRepository(self.session)
        self.watches = WatchRepository(self.session)
        self.webhooks = WebhookRepository(self.session)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self.session:
            if kind is not None:
                self.session.rollback()
                return
            try:
                self.session.commit()
            except BaseException:
                self.session.rollback()  # without it, added rows count as stored, and adding them again does nothing
                raise
        for callback in self._after_commit:
            callback()

    def after_commit(self, callback: Callable[[], object]) -> None:
        """Run `callback` once the transaction is durable; never if it is rolled back."""
        self._after_commit.append(callback)

    def hold(self, name: str) -> None:
        """Let no other writer that holds `name` go on until this transaction ends."""
        if self._engine.dialect.name == "postgresql":  # SQLite admits one writer anyway
            self.session.execute(select(func.pg_advisory_xact_lock(zlib.crc32(name.encode()))))
