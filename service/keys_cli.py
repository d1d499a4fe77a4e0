"""`gramian keys`: access keys made and ended at the database, for whoever runs the service."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gramian.errors import GramianError
from gramian.keys import Scope
from gramian.settings import Settings
from gramian.storage import schema
from gramian.storage.engine import open_engine
from gramian.storage.unit_of_work import UnitOfWork

app = typer.Typer(help="Access keys: make, list, rotate, revoke.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(help="The key's id, as `gramian keys list` shows it.")]


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Whom or what the key is for.")],
    scope: Annotated[Scope, typer.Option(help="write includes read, admin includes both.")] = Scope.READ,
    days: Annotated[float | None, typer.Option(min=0.01, max=3650, help="Lifetime; unset: without end.")] = None,
) -> None:
    """Make a key and print it, once: only its digest is stored."""
    with _transaction() as uow:
        row, secret = uow.keys.create(name, scope, lifetime=timedelta(days=days) if days else None)
    _tell(f"{row.id} ({scope}) for {name}; the key is shown only now:")
    typer.echo(secret.text)


@app.command(name="list")
def list_keys() -> None:
    """All keys, without their secrets."""
    with _transaction() as uow:
        rows = uow.keys.list()
    now = datetime.now(UTC)
    table = Table()
    for heading in ("id", "name", "scope", "key", "state", "last used"):
        table.add_column(heading, no_wrap=heading == "id")
    for row in rows:
        ended = "revoked" if row.revoked_at else "expired"
        until = f"live until {row.expires_at:%Y-%m-%d %H:%M}" if row.expires_at else "live"
        used = f"{row.last_used_at:%Y-%m-%d %H:%M}" if row.last_used_at else "never"
        table.add_row(row.id, row.name, row.scope, f"{row.shown}…", until if row.is_live(now) else ended, used)
    Console().print(table)


@app.command()
def rotate(
    key_id: Id, overlap_hours: Annotated[float, typer.Option(min=0, help="How long the old key still lives.")] = 24
) -> None:
    """Make a successor of a key and print it; the old one ends after the overlap."""
    with _transaction() as uow:
        row, secret = uow.keys.rotate(key_id, overlap=timedelta(hours=overlap_hours))
    _tell(f"{row.id} replaces {key_id}, which ends in {overlap_hours:g} h; the key is shown only now:")
    typer.echo(secret.text)


@app.command()
def revoke(key_id: Id) -> None:
    """End a key at once."""
    with _transaction() as uow:
        uow.keys.revoke(key_id)
    _tell(f"{key_id} is revoked")


@contextmanager
def _transaction() -> Iterator[UnitOfWork]:
    settings = Settings()
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    engine = open_engine(settings.sqlalchemy_url)
    try:
        schema.upgrade(engine)
        with UnitOfWork(engine) as uow:
            yield uow
    except GramianError as error:
        _tell(f"gramian: {error.message}" + (f"; {error.hint}" if error.hint else ""))
        raise typer.Exit(1) from None
    finally:
        engine.dispose()


def _tell(words: str) -> None:
    typer.echo(words, err=True)  # the secret alone goes to standard output
