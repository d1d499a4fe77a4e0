"""cells of toy-model sweeps that several workers train side by side

Revision ID: 0009
Revises: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("toy_cells", sa.Column("fence", sa.Integer(), nullable=True))
    op.add_column("toy_cells", sa.Column("lease_until", sa.Double(), nullable=True))


def downgrade() -> None:
    op.drop_column("toy_cells", "lease_until")
    op.drop_column("toy_cells", "fence")
