"""`gramian keys` and `gramian projects`: who may do what and where, at the database, for whoever runs the service."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table

from gramian.errors import GramianError
from gramian.keys import Scope
from gramian.projects import DEFAULT, EVERY
from gramian.settings import Settings
from gramian.storage import schema
from gramian.storage.audit import COMMAND_LINE
from gramian.storage.engine import open_engine
from gramian.storage.unit_of_work import UnitOfWork
from service.schemas.projects import ProjectRequest

app = typer.Typer(help="Access keys: make, list, rotate, revoke.", no_args_is_help=True)
projects_app = typer.Typer(help="Projects, which see nothing of one another: make, list.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(help="The key's id, as `gramian keys list` shows it.")]


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Whom or what the key is for.")],
    scope: Annotated[Scope, typer.Option(help="Each includes those before it; operators look after projects.")] = (
        Scope.READ
    ),
    days: Annotated[float | None, typer.Option(min=0.01, max=3650, help="Lifetime; unset: without end.")] = None,
    project: Annotated[str, typer.Option(help="The project that it opens.")] = DEFAULT,
    requests_per_minute: Annotated[int | None, typer.Option(min=1, help="Its own rate limit.")] = None,
    queued_jobs: Annotated[int | None, typer.Option(min=1, help="Its own quota of unfinished analyses.")] = None,
    upload_bytes_per_day: Annotated[int | None, typer.Option(min=1, help="Its own quota of uploads.")] = None,
) -> None:
    """Make a key and print it, once: only its digest is stored."""
    with _transaction() as uow:
        lifetime = timedelta(days=days) if days else None
        limits = {
            "requests_per_minute": requests_per_minute,
            "queued_jobs": queued_jobs,
            "upload_bytes_per_day": upload_bytes_per_day,
        }
        project_id = uow.projects.named(project).id
        row, secret = uow.keys.create(name, scope, lifetime=lifetime, project_id=project_id, limits=limits)
        uow.audit.note("key.created", row.id, project_id=project_id, name=name, scope=scope)
    _tell(f"{row.id} ({scope} in {project}) for {name}; the key is shown only now:")
    typer.echo(secret.text)


@app.command(name="list")
def list_keys() -> None:
    """All keys of all projects, without their secrets."""
    with _transaction() as uow:
        rows = uow.keys.list()
        projects = {project.id: project.name for project in uow.projects.list()}
    now = datetime.now(UTC)
    table = Table()
    for heading in ("id", "project", "name", "scope", "key", "state", "last used"):
        table.add_column(heading, no_wrap=heading == "id")
    for row in rows:
        ended = "revoked" if row.revoked_at else "expired"
        until = f"live until {row.expires_at:%Y-%m-%d %H:%M}" if row.expires_at else "live"
        used = f"{row.last_used_at:%Y-%m-%d %H:%M}" if row.last_used_at else "never"
        state = until if row.is_live(now) else ended
        table.add_row(row.id, projects[row.project_id], row.name, row.scope, f"{row.shown}…", state, used)
    Console().print(table)


@app.command()
def rotate(
    key_id: Id, overlap_hours: Annotated[float, typer.Option(min=0, help="How long the old key still lives.")] = 24
) -> None:
    """Make a successor of a key and print it; the old one ends after the overlap."""
    with _transaction() as uow:
        row, secret = uow.keys.rotate(key_id, overlap=timedelta(hours=overlap_hours))
        uow.audit.note("key.rotated", key_id, project_id=row.project_id, successor=row.id)
    _tell(f"{row.id} replaces {key_id}, which ends in {overlap_hours:g} h; the key is shown only now:")
    typer.echo(secret.text)


@app.command()
def revoke(key_id: Id) -> None:
    """End a key at once."""
    with _transaction() as uow:
        row = uow.keys.revoke(key_id)
        uow.audit.note("key.revoked", key_id, project_id=row.project_id)
    _tell(f"{key_id} is revoked")


@projects_app.command(name="create")
def create_project(name: Annotated[str, typer.Argument(help="Small letters, digits and hyphens.")]) -> None:
    """Make a project; `gramian keys create --project` then makes its keys."""
    try:
        wanted = ProjectRequest(name=name)
    except ValidationError:
        raise typer.BadParameter("a name has 1 to 63 small letters, digits and hyphens") from None
    with _transaction() as uow:
        row = uow.projects.create(wanted.name)
        uow.audit.note("project.created", row.id, project_id=DEFAULT, name=row.name)
    _tell(f"project {name} is there; `gramian keys create NAME --project {name}` makes a key for it")


@projects_app.command(name="list")
def list_projects() -> None:
    """All projects, by name."""
    with _transaction() as uow:
        for row in uow.projects.list():
            typer.echo(row.name)


@contextmanager
def _transaction() -> Iterator[UnitOfWork]:
    settings = Settings()
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    engine = open_engine(settings.sqlalchemy_url)
    try:
        schema.upgrade(engine)
        with UnitOfWork(engine, project=EVERY, actor=COMMAND_LINE) as uow:
            yield uow
    except GramianError as error:
        _tell(f"gramian: {error.message}" + (f"; {error.hint}" if error.hint else ""))
        raise typer.Exit(1) from None
    finally:
        engine.dispose()


def _tell(words: str) -> None:
    typer.echo(words, err=True)  # the secret alone goes to standard output
