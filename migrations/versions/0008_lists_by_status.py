"""an index for lists of one status

Revision ID: 0008
Revises: 0007
"""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_analyses_status_created_at", "analyses", ["status", "created_at", "id"])


def downgrade() -> None:
    op.drop_index("ix_analyses_status_created_at", table_name="analyses")
