"""Alembic's entry: runs on the connection that `gramian.storage.schema` hands over."""

from alembic import context

from gramian.storage.tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
