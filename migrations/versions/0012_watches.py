"""watches, and the revisions that they met

Revision ID: 0012
Revises: 0011
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "watches",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("model_id", sa.Text(), nullable=False),
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("question", sa.JSON(), nullable=False),
        sa.Column("epsilon_shift", sa.Double(), nullable=True),
        sa.Column("class_change", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("project_id", sa.String(length=40), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_watches")),
    )
    op.create_index("ix_watches_created_at", "watches", ["project_id", "created_at", "id"])
    op.create_table(
        "watched_revisions",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("watch_id", sa.String(length=40), nullable=False),
        sa.Column("model_id", sa.Text(), nullable=False),
        sa.Column("commit", sa.String(length=64), nullable=False),
        sa.Column("previous", sa.String(length=64), nullable=True),
        sa.Column("analysis_id", sa.String(length=40), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("settled_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["watch_id"], ["watches.id"], name=op.f("fk_watched_revisions_watch_id_watches"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["analysis_id"],
            ["analyses.id"],
            name=op.f("fk_watched_revisions_analysis_id_analyses"),
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_watched_revisions")),
    )
    op.create_index("uq_watched_revisions_commit", "watched_revisions", ["watch_id", "model_id", "commit"], unique=True)
    op.create_index(op.f("ix_watched_revisions_analysis_id"), "watched_revisions", ["analysis_id"])
    op.create_index("ix_watched_revisions_watch_id_model_id_id", "watched_revisions", ["watch_id", "model_id", "id"])


def downgrade() -> None:
    op.drop_table("watched_revisions")
    op.drop_table("watches")
