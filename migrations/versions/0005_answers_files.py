"""answers of other kinds than embeddings, and the files that come with them

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("analyses", sa.Column("answer", sa.JSON(none_as_null=True), nullable=True))
    op.create_table(
        "analysis_files",
        sa.Column("analysis_id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["analysis_id"], ["analyses.id"], name=op.f("fk_analysis_files_analysis_id_analyses"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("analysis_id", "name", name=op.f("pk_analysis_files")),
    )
    op.create_index("ix_analysis_files_sha256", "analysis_files", ["sha256"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_analysis_files_sha256", table_name="analysis_files")
    op.drop_table("analysis_files")
    op.drop_column("analyses", "answer")
