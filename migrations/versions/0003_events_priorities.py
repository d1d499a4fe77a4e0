"""events, progress in units, priorities and devices, request ids

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# What older analyses can tell: where they stand.
FIRST_EVENTS = """
INSERT INTO analysis_events (analysis_id, number, type, data, created_at)
SELECT id, 1, 'status', CAST('{"status": "' || status || '", "attempt": ' || fence || '}' AS JSON),
       COALESCE(finished_at, started_at, created_at)
FROM analyses
"""


def upgrade() -> None:
    op.add_column("analyses", sa.Column("priority", sa.String(length=20), nullable=False, server_default="interactive"))
    op.add_column("analyses", sa.Column("required_device", sa.String(length=10), nullable=True))
    op.add_column("analyses", sa.Column("request_id", sa.String(length=100), nullable=True))
    op.add_column("analyses", sa.Column("events", sa.Integer(), nullable=False, server_default="1"))
    op.add_column("analyses", sa.Column("done", sa.BigInteger(), nullable=True))
    op.add_column("analyses", sa.Column("total", sa.BigInteger(), nullable=True))
    op.add_column("analyses", sa.Column("unit", sa.String(length=20), nullable=True))
    op.add_column("analyses", sa.Column("seconds_left", sa.Double(), nullable=True))
    op.create_table(
        "analysis_events",
        sa.Column("analysis_id", sa.String(length=40), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("type", sa.String(length=20), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["analysis_id"],
            ["analyses.id"],
            name=op.f("fk_analysis_events_analysis_id_analyses"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("analysis_id", "number", name=op.f("pk_analysis_events")),
    )
    statement = FIRST_EVENTS
    if op.get_bind().dialect.name == "sqlite":
        statement = statement.replace("AS JSON", "AS TEXT")
    op.execute(statement)


def downgrade() -> None:
    op.drop_table("analysis_events")
    for column in ("seconds_left", "unit", "total", "done", "events", "request_id", "required_device", "priority"):
        op.drop_column("analyses", column)
