"""projects

Everything that was there belongs to the default project.

Revision ID: 0010
Revises: 0009
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

OWNED = ("analyses", "uploads", "api_keys")
ANSWERING = "status IN ('queued', 'running', 'succeeded')"


def upgrade() -> None:
    projects = op.create_table(
        "projects",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_projects")),
    )
    op.create_index("uq_projects_name", "projects", ["name"], unique=True)
    op.execute(projects.insert().values(id="default", name="default", created_at=sa.func.current_timestamp()))
    for table in OWNED:
        op.add_column(table, sa.Column("project_id", sa.String(length=40), nullable=False, server_default="default"))
    _index_analyses("project_id")
    op.rename_table("idempotency_keys", "idempotency_keys_before")
    op.drop_index("ix_idempotency_keys_created_at", table_name="idempotency_keys_before")
    _create_idempotency_keys("project_id")
    columns = "key, fingerprint, analysis_id, status, body, created_at"
    op.execute(
        f"INSERT INTO idempotency_keys (project_id, {columns}) SELECT 'default', {columns} FROM idempotency_keys_before"  # noqa: S608
    )
    op.drop_table("idempotency_keys_before")


def downgrade() -> None:
    """Projects become one; fails, and changes nothing, where two of them have an answer to the same question."""
    columns = "key, fingerprint, analysis_id, status, body, created_at"
    op.rename_table("idempotency_keys", "idempotency_keys_before")
    op.drop_index("ix_idempotency_keys_created_at", table_name="idempotency_keys_before")
    _create_idempotency_keys()
    op.execute(
        f"INSERT INTO idempotency_keys ({columns}) SELECT {columns} FROM idempotency_keys_before WHERE project_id = 'default'"  # noqa: S608, E501
    )
    op.drop_table("idempotency_keys_before")
    _index_analyses()
    for table in OWNED:
        op.drop_column(table, "project_id")
    op.drop_index("uq_projects_name", table_name="projects")
    op.drop_table("projects")


def _index_analyses(*first: str) -> None:
    """Make the indexes anew, each beginning with these columns."""
    lists = {
        "ix_analyses_created_at": ["created_at", "id"],
        "ix_analyses_status_created_at": ["status", "created_at", "id"],
        "ix_analyses_model_id_finished_at": ["model_id", "finished_at"],
    }
    for name, columns in lists.items():
        op.drop_index(name, table_name="analyses")
        op.create_index(name, "analyses", [*first, *columns])
    op.drop_index("uq_analyses_dedupe_key", table_name="analyses")
    where = sa.text(ANSWERING)
    op.create_index(
        "uq_analyses_dedupe_key",
        "analyses",
        [*first, "dedupe_key"],
        unique=True,
        postgresql_where=where,
        sqlite_where=where,
    )


def _create_idempotency_keys(*first: str) -> None:
    """The table with these columns before the key in its primary key."""
    name = "pk_idempotency_keys"
    if op.get_bind().dialect.name == "postgresql":  # the index of the renamed table's constraint has the name still
        op.execute(f"ALTER TABLE idempotency_keys_before RENAME CONSTRAINT {name} TO {name}_before")
    op.create_table(
        "idempotency_keys",
        *(sa.Column(column, sa.String(length=40), nullable=False) for column in first),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("analysis_id", sa.String(length=40), nullable=True),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("body", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint(*first, "key", name=op.f(name)),
    )
    op.create_index(op.f("ix_idempotency_keys_created_at"), "idempotency_keys", ["created_at"])
