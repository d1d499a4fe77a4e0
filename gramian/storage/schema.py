"""The database's version: bring it to the newest, or say how far it is."""

from importlib.util import find_spec
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, text

MIGRATION_LOCK = 0x6772616D  # any constant: one migration at a time on PostgreSQL


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Run the migrations up to `revision`; several processes may ask at once."""
    _run(engine, command.upgrade, revision)


def downgrade(engine: Engine, revision: str) -> None:
    """Run the migrations down to `revision` (`base` is an empty database)."""
    _run(engine, command.downgrade, revision)


def is_current(engine: Engine) -> bool:
    """Whether the database has every migration that this code knows."""
    with engine.connect() as connection:
        found = MigrationContext.configure(connection).get_current_heads()
    return set(found) == set(ScriptDirectory.from_config(_config()).get_heads())


def _run(engine: Engine, action, revision: str) -> None:  # type: ignore[no-untyped-def]
    config = _config()
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": MIGRATION_LOCK})
        config.attributes["connection"] = connection
        action(config, revision)


def _config() -> Config:
    spec = find_spec("migrations")
    assert spec is not None and spec.origin is not None, "the migrations package is part of the installation"  # noqa: S101, PT018
    config = Config()
    config.set_main_option("script_location", str(Path(spec.origin).parent).replace("%", "%%"))
    return config
