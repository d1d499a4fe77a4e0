"""who did what; limits of keys, and whose work and uploads count towards them

Revision ID: 0013
Revises: 0012
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

LIMITS = ("requests_per_minute", "queued_jobs", "upload_bytes_per_day")


def upgrade() -> None:
    op.create_table(
        "audit_entries",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("actor", sa.String(length=40), nullable=False),
        sa.Column("action", sa.String(length=40), nullable=False),
        sa.Column("subject", sa.String(length=64), nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.Column("project_id", sa.String(length=40), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_entries")),
    )
    op.create_index("ix_audit_entries_at", "audit_entries", ["project_id", "at", "id"])
    op.create_index("ix_audit_entries_subject", "audit_entries", ["project_id", "subject"])
    for name in LIMITS:
        op.add_column("api_keys", sa.Column(name, sa.BigInteger(), nullable=True))
    op.add_column("analyses", sa.Column("key_id", sa.String(length=40), nullable=True))
    op.create_index(
        "ix_analyses_unfinished_key_id",
        "analyses",
        ["key_id"],
        postgresql_where=sa.text("status IN ('queued', 'running')"),
        sqlite_where=sa.text("status IN ('queued', 'running')"),
    )
    op.add_column("uploads", sa.Column("key_id", sa.String(length=40), nullable=True))
    op.create_index("ix_uploads_key_id_created_at", "uploads", ["key_id", "created_at"])


def downgrade() -> None:
    op.drop_index("ix_uploads_key_id_created_at", "uploads")
    op.drop_column("uploads", "key_id")
    op.drop_index("ix_analyses_unfinished_key_id", "analyses")
    op.drop_column("analyses", "key_id")
    for name in LIMITS:
        op.drop_column("api_keys", name)
    op.drop_table("audit_entries")
