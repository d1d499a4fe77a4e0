"""The schema, up and down, on both databases."""

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine, inspect

from gramian.storage import schema
from gramian.storage.tables import Base


def test_migrations_build_exactly_the_tables_that_the_code_declares(empty_engine: Engine) -> None:
    schema.upgrade(empty_engine)
    with empty_engine.connect() as connection:
        differences = compare_metadata(
            MigrationContext.configure(connection, opts={"compare_type": True}), Base.metadata
        )
    assert differences == []
    assert schema.is_current(empty_engine)


def test_migrations_go_all_the_way_down_and_up_again(empty_engine: Engine) -> None:
    schema.upgrade(empty_engine)
    schema.downgrade(empty_engine, "base")
    assert set(inspect(empty_engine).get_table_names()) <= {"alembic_version"}
    assert not schema.is_current(empty_engine)
    schema.upgrade(empty_engine)
    assert schema.is_current(empty_engine)


def test_both_databases_get_the_same_columns_and_indexes(postgres, tmp_path) -> None:
    from gramian.storage.engine import open_engine

    shapes = []
    for url in (f"sqlite:///{tmp_path / 'a.db'}", postgres.create_database()):
        engine = open_engine(url)
        schema.upgrade(engine)
        found = inspect(engine)
        shapes.append(
            {
                table: (
                    [(column["name"], column["nullable"]) for column in found.get_columns(table)],
                    sorted((index["name"], bool(index["unique"])) for index in found.get_indexes(table)),
                )
                for table in Base.metadata.tables
            }
        )
        engine.dispose()
    assert shapes[0] == shapes[1]
