"""what was seen of pairs of rows, and of the alignment of both embeddings

Revision ID: 0004
Revises: 0003
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def of_pairs() -> list[sa.Column[Any]]:
    return [
        sa.Column("pair_mode", sa.String(length=10), nullable=True),
        sa.Column("pairs_seen", sa.BigInteger(), nullable=True),
        sa.Column("cosine_min", sa.Double(), nullable=True),
        sa.Column("cosine_max", sa.Double(), nullable=True),
        sa.Column("cosine_mean_abs", sa.Double(), nullable=True),
    ]


def upgrade() -> None:
    op.add_column("analyses", sa.Column("alignment", sa.JSON(), nullable=True))
    for column in of_pairs():
        op.add_column("matrices", column)


def downgrade() -> None:
    for column in of_pairs():
        op.drop_column("matrices", column.name)
    op.drop_column("analyses", "alignment")
