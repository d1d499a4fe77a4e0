"""Watches in SQL: made, changed, looked up for a model, and told of its revisions."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import and_, func, or_, select, update
from sqlalchemy.orm import Session

from gramian.analyses import Status, new_id
from gramian.errors import Conflict, NotFound
from gramian.pushes import Push
from gramian.storage.inserting import insert
from gramian.storage.paging import Order, Page, fetch_page
from gramian.storage.tables import AnalysisRow
from gramian.storage.watch_tables import WatchedRevisionRow, WatchRow
from gramian.watches import ANY, covers

MOST_WATCHES = 200  # of a project


class WatchRepository:
    def __init__(self, session: Session) -> None:
        self.session = session

    def create(self, **values: Any) -> WatchRow:
        count = self.session.scalar(select(func.count()).select_from(WatchRow)) or 0
        if count >= MOST_WATCHES:
            raise Conflict(
                f"the project has {count} watches, the most there can be", hint="delete one, or use a pattern: org/*"
            )
        row = WatchRow(id=new_id("wat"), created_at=datetime.now(UTC), **values)
        self.session.add(row)
        self.session.flush()
        return row

    def get(self, id: str) -> WatchRow:
        row = self.session.get(WatchRow, id) if "\x00" not in id else None
        if row is None:
            raise NotFound("watch", id, hint="GET /v1/watches lists them")
        return row

    def list(self) -> Sequence[WatchRow]:
        """All of the project, the newest first."""
        return self.session.scalars(select(WatchRow).order_by(WatchRow.created_at.desc(), WatchRow.id.desc())).all()

    def change(self, row: WatchRow, values: Mapping[str, Any]) -> WatchRow:
        for name, value in values.items():
            setattr(row, name, value)
        self.session.flush()
        return row

    def delete(self, row: WatchRow) -> None:
        """Watch no more; what was analysed stays."""
        self.session.delete(row)
        self.session.flush()

    def covering(self, model_id: str, branch: str) -> Sequence[WatchRow]:
        """Those that follow this branch of the model."""
        named = or_(WatchRow.model_id == model_id, WatchRow.model_id.contains(ANY, autoescape=True))
        query = select(WatchRow).where(WatchRow.revision == branch, named).order_by(WatchRow.id)
        return [row for row in self.session.scalars(query) if covers(row.model_id, model_id)]

    # -- revisions --

    def enrol(self, watch: WatchRow, push: Push) -> WatchedRevisionRow | None:
        """Note a revision, once; None if the watch has met it."""
        values = {
            "id": new_id("wrv"),
            "watch_id": watch.id,
            "model_id": push.model_id,
            "commit": push.commit,
            "previous": push.previous,
            "created_at": datetime.now(UTC),
        }
        inserted = self.session.scalar(
            insert(self.session, WatchedRevisionRow)
            .values(values)
            .on_conflict_do_nothing(index_elements=["watch_id", "model_id", "commit"])
            .returning(WatchedRevisionRow.id)
        )
        return self.session.get_one(WatchedRevisionRow, inserted) if inserted else None

    def renew(self, watch: WatchRow, push: Push, analysis: AnalysisRow) -> None:
        """Let an analysis stand for a revision whose own failed, was cancelled or is gone."""
        lost = AnalysisRow.status.in_([Status.FAILED, Status.CANCELLED])
        ended = select(AnalysisRow.id).where(AnalysisRow.id == WatchedRevisionRow.analysis_id, lost)
        self.session.execute(
            update(WatchedRevisionRow)
            .where(
                WatchedRevisionRow.watch_id == watch.id,
                WatchedRevisionRow.model_id == push.model_id,
                WatchedRevisionRow.commit == push.commit,
                or_(WatchedRevisionRow.analysis_id.is_(None), ended.exists()),
            )
            .values(analysis_id=analysis.id, settled_at=None)
            .execution_options(synchronize_session=False)
        )

    def revision(self, watch: WatchRow, model_id: str, commit: str) -> WatchedRevisionRow | None:
        query = select(WatchedRevisionRow).where(
            and_(
                WatchedRevisionRow.watch_id == watch.id,
                WatchedRevisionRow.model_id == model_id,
                WatchedRevisionRow.commit == commit,
            )
        )
        return self.session.scalars(query).one_or_none()

    def revisions(self, watch: WatchRow, *, cursor: str | None, limit: int) -> Page:
        """What the watch met, the newest first."""
        query = select(WatchedRevisionRow).where(WatchedRevisionRow.watch_id == watch.id)
        order = Order("-id", WatchedRevisionRow.id, WatchedRevisionRow.id)
        return fetch_page(self.session, query, order=order, cursor=cursor, limit=limit)
