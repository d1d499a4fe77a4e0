"""The `gramian` command."""

import json
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

import gramian
from gramian.settings import Settings
from service import access_cli

app = typer.Typer(
    help="How much room for features is left in a language model's latent space.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

app.add_typer(access_cli.app, name="keys")
app.add_typer(access_cli.projects_app, name="projects")

DataDir = Annotated[Path | None, typer.Option(help="Folder for database and files (GRAMIAN_DATA_DIR).")]
Pairs = Literal["none", "sampled", "exact"]


class Unwanted(StrEnum):
    """Rows that an analysis may leave out."""

    DUPLICATES = "duplicates"
    PADDING = "padding"
    UNTRAINED = "untrained"


def main() -> None:
    app()


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to bind (GRAMIAN_HOST).")] = None,
    port: Annotated[int | None, typer.Option(help="Port to bind, 0 for a free one (GRAMIAN_PORT).")] = None,
    data_dir: DataDir = None,
    worker: Annotated[bool, typer.Option(help="Run a worker beside the API.")] = True,
) -> None:
    """Run the service: the API, a worker, and a Valkey of its own unless GRAMIAN_REDIS_URL names one."""
    from gramian import logs
    from service import embedded, instance

    settings = _settings(host=host, port=port, data_dir=data_dir)
    logs.configure(settings.log_level, settings.log_format)
    try:
        embedded.serve(settings, worker=worker)
    except instance.ServiceRunning as error:
        _fail(f"{error}; stop it, or choose another --data-dir", code=3)
    except OSError as error:
        _fail(f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}", code=3)


@app.command()
def worker() -> None:
    """Run one worker (needs GRAMIAN_REDIS_URL and, in a cluster, GRAMIAN_DATABASE_URL)."""
    from service.instance import worker_environment

    os.execve(sys.executable, [sys.executable, "-m", "workers"], worker_environment(os.environ))  # noqa: S606


@app.command()
def migrate(
    revision: Annotated[str, typer.Option(help="Target; `base` empties the database.")] = "head",
    down: Annotated[bool, typer.Option("--down", help="Go back to an older revision.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Bring the database to the newest schema (safe to run at any time, by several at once)."""
    from gramian.storage import schema
    from gramian.storage.engine import open_engine

    engine = open_engine(_settings(data_dir=data_dir).sqlalchemy_url)
    (schema.downgrade if down else schema.upgrade)(engine, revision)
    engine.dispose()
    typer.echo(f"the database is at {revision}")


@app.command()
def sweep(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be deleted, and delete nothing.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Delete what is older than GRAMIAN_RETAIN_…_DAYS; workers do so by themselves every ten minutes."""
    from gramian.storage import retention, schema
    from gramian.storage.engine import open_engine

    settings = _settings(data_dir=data_dir)
    engine = open_engine(settings.sqlalchemy_url)
    if not schema.is_current(engine):
        _fail("the database has not this version's schema; run `gramian migrate`", code=3)
    swept = retention.sweep(engine, settings, dry_run=dry_run)
    engine.dispose()
    verb = "to delete" if dry_run else "deleted"
    typer.echo(
        f"{verb}: {swept.analyses} analyses, {swept.uploads} uploads, {swept.orphaned_blobs} files without an upload, "
        f"{swept.audit_entries} entries of the audit log"
    )


@app.command()
def analyze(
    source: Annotated[str, typer.Argument(help="A model id, a weight file, or a folder with a checkpoint.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the analysis as JSON.")] = False,
    url: Annotated[str | None, typer.Option(help="A running service (GRAMIAN_URL); unset: start one.")] = None,
    revision: Annotated[str, typer.Option(help="Branch, tag or commit of a model id.")] = "main",
    input_tensor: Annotated[str | None, typer.Option(help="Name of the input embedding.")] = None,
    output_tensor: Annotated[str | None, typer.Option(help="Name of the output embedding.")] = None,
    pairs: Annotated[
        Pairs, typer.Option(help="Look at the pairs themselves, for the histogram and extremes.")
    ] = "none",
    exclude: Annotated[
        list[Unwanted] | None, typer.Option(help="Leave these rows out of every number; may be repeated.")
    ] = None,
    token_names: Annotated[bool, typer.Option(help="Name the tokens of the rows that the result lists.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Analyse a model and print its numbers."""
    from service import client

    question = client.Question(
        source,
        revision=revision,
        input_tensor=input_tensor,
        output_tensor=output_tensor,
        pairs=pairs,
        exclude=tuple(exclude or ()),
        token_names=token_names,
    )
    settings = _settings(data_dir=data_dir)
    try:
        with client.service_for(question, url=url or os.environ.get("GRAMIAN_URL"), settings=settings) as session:
            analysis = session.analyse(question)
    except client.ClientError as error:
        _fail(str(error), code=error.exit_code)
    if as_json:
        typer.echo(json.dumps(analysis, indent=2, ensure_ascii=False))
    else:
        client.show(analysis, where=session.where(analysis))
    if analysis["status"] != "succeeded":
        raise typer.Exit(1)


@app.command()
def openapi() -> None:
    """Print the OpenAPI document."""
    from service.app import create_app

    typer.echo(json.dumps(create_app(Settings()).openapi(), indent=2, ensure_ascii=False))


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(gramian.__version__)


def _settings(**overrides: object) -> Settings:
    given = {name: value for name, value in overrides.items() if value is not None}
    return Settings(**given)  # type: ignore[arg-type]


def _fail(message: str, *, code: int) -> None:
    typer.echo(f"gramian: {message}", err=True)
    raise typer.Exit(code)
