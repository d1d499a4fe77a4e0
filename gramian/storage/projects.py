"""Projects in SQL."""

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from gramian.analyses import new_id
from gramian.errors import Conflict, NotFound
from gramian.storage.inserting import insert
from gramian.storage.tables import ProjectRow


class ProjectRepository:
    def __init__(self, session: Session) -> None:
        self.session = session

    def create(self, name: str) -> ProjectRow:
        """A new project, or Conflict if the name is taken."""
        values = {"id": new_id("prj"), "name": name, "created_at": datetime.now(UTC)}
        added = insert(self.session, ProjectRow).values(values).on_conflict_do_nothing().returning(ProjectRow.id)
        found = self.session.execute(added).scalar()
        if found is None:
            raise Conflict(f"there is a project {name!r} already", hint="GET /v1/projects lists them")
        return self.get(found)

    def get(self, id: str) -> ProjectRow:
        row = self.session.get(ProjectRow, id)
        if row is None:
            raise NotFound("project", id, hint="GET /v1/projects lists them")
        return row

    def named(self, name: str) -> ProjectRow:
        row = self.session.scalars(select(ProjectRow).where(ProjectRow.name == name)).one_or_none()
        if row is None:
            raise NotFound("project", name, hint="GET /v1/projects lists them, `gramian projects create` makes one")
        return row

    def list(self) -> Sequence[ProjectRow]:
        """All projects, by name."""
        return self.session.scalars(select(ProjectRow).order_by(ProjectRow.name)).all()
