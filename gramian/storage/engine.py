"""Engines for the two databases that are equals here: SQLite and PostgreSQL."""

from pathlib import Path
from typing import Any

from sqlalchemy import Double, Engine, create_engine, event, make_url
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

SQLITE_BUSY_SECONDS = 20  # writers queue behind one another; a commit with fsync takes milliseconds
IDLE_SECONDS = 20  # in the middle of a transaction: whoever is so silent is gone or stopped, and must hold no locks


class database_epoch(FunctionElement[float]):  # noqa: N801  (reads as the SQL function it is)
    """The database's own clock, in seconds since 1970: the one clock that all processes share."""

    type = Double()
    inherit_cache = True


@compiles(database_epoch, "sqlite")
def _sqlite_epoch(element: FunctionElement[float], compiler: SQLCompiler, **kw: Any) -> str:  # noqa: ARG001
    # unixepoch('subsec') is NULL before SQLite 3.42
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(database_epoch, "postgresql")
def _postgresql_epoch(element: FunctionElement[float], compiler: SQLCompiler, **kw: Any) -> str:  # noqa: ARG001
    return "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"


class database_started(FunctionElement[float]):  # noqa: N801
    """When the database server started, by its own clock; SQLite is never away."""

    type = Double()
    inherit_cache = True


@compiles(database_started, "sqlite")
def _sqlite_started(element: FunctionElement[float], compiler: SQLCompiler, **kw: Any) -> str:  # noqa: ARG001
    return "0.0"


@compiles(database_started, "postgresql")
def _postgresql_started(element: FunctionElement[float], compiler: SQLCompiler, **kw: Any) -> str:  # noqa: ARG001
    return "CAST(extract(epoch FROM pg_postmaster_start_time()) AS double precision)"


def open_engine(url: str) -> Engine:
    """An engine with the guarantees that the job rules rest on; creates the folder of a SQLite file.

    Its errors do not repeat the values of a statement, idempotency keys among them: they end in logs.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        if parsed.database:
            Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
        engine = create_engine(parsed, hide_parameters=True, connect_args={"timeout": SQLITE_BUSY_SECONDS})
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    engine = create_engine(parsed, hide_parameters=True, pool_pre_ping=True, pool_size=10, max_overflow=30)
    event.listen(engine, "connect", _prepare_postgresql)
    return engine


def _prepare_sqlite(connection: Any, record: Any) -> None:  # noqa: ARG001
    connection.isolation_level = None  # BEGIN is ours: the driver would begin too late, and never IMMEDIATE
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _prepare_postgresql(connection: Any, record: Any) -> None:  # noqa: ARG001
    # A process that is stopped, or a machine that is cut off, between two statements would keep its rows locked: nobody
    # could take its job over, and the reconcile loop that tried would stand still.
    with connection.cursor() as cursor:
        cursor.execute(f"SET idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'")
    connection.commit()


def _begin_sqlite(connection: Any) -> None:
    # A deferred transaction that reads first and writes later fails at once when another writer was faster.
    writes = connection.get_execution_options().get("writes", True)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
