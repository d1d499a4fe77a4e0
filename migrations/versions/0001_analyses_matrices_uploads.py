"""analyses, matrices, uploads

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "uploads",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("filename", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("format", sa.String(length=20), nullable=False),
        sa.Column("tensors", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_uploads")),
    )
    op.create_index("ix_uploads_sha256", "uploads", ["sha256"], unique=False)

    op.create_table(
        "analyses",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("identity", sa.JSON(), nullable=False),
        sa.Column("dedupe_key", sa.String(length=64), nullable=False),
        sa.Column("model_id", sa.Text(), nullable=True),
        sa.Column("revision", sa.Text(), nullable=True),
        sa.Column("commit", sa.String(length=64), nullable=True),
        sa.Column("upload_id", sa.String(length=40), nullable=True),
        sa.Column("digest", sa.String(length=80), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("deliveries", sa.Integer(), nullable=False),
        sa.Column("lease_until", sa.Double(), nullable=True),
        sa.Column("pushed_at", sa.Double(), nullable=True),
        sa.Column("stage", sa.String(length=40), nullable=True),
        sa.Column("fraction", sa.Double(), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("error", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("gramian_version", sa.String(length=40), nullable=True),
        sa.Column("method_version", sa.String(length=20), nullable=False),
        sa.Column("device", sa.String(length=80), nullable=True),
        sa.Column("torch_version", sa.String(length=40), nullable=True),
        sa.Column("seconds", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("bytes_fetched", sa.BigInteger(), nullable=True),
        sa.Column("tying", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("warnings", sa.JSON(none_as_null=True), nullable=True),
        sa.ForeignKeyConstraint(["upload_id"], ["uploads.id"], name=op.f("fk_analyses_upload_id_uploads")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_analyses")),
    )
    op.create_index("ix_analyses_created_at", "analyses", ["created_at", "id"], unique=False)
    op.create_index("ix_analyses_model_id_finished_at", "analyses", ["model_id", "finished_at"], unique=False)
    op.create_index(
        "ix_analyses_unfinished",
        "analyses",
        ["id"],
        unique=False,
        postgresql_where=sa.text("status IN ('queued', 'running')"),
        sqlite_where=sa.text("status IN ('queued', 'running')"),
    )
    op.create_index("ix_analyses_upload_id", "analyses", ["upload_id"], unique=False)
    op.create_index(
        "uq_analyses_dedupe_key",
        "analyses",
        ["dedupe_key"],
        unique=True,
        postgresql_where=sa.text("status IN ('queued', 'running', 'succeeded')"),
        sqlite_where=sa.text("status IN ('queued', 'running', 'succeeded')"),
    )

    op.create_table(
        "analysis_labels",
        sa.Column("analysis_id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("value", sa.String(length=400), nullable=False),
        sa.ForeignKeyConstraint(
            ["analysis_id"], ["analyses.id"], name=op.f("fk_analysis_labels_analysis_id_analyses"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("analysis_id", "name", name=op.f("pk_analysis_labels")),
    )
    op.create_index("ix_analysis_labels_name_value", "analysis_labels", ["name", "value"], unique=False)

    op.create_table(
        "matrices",
        sa.Column("analysis_id", sa.String(length=40), nullable=False),
        sa.Column("role", sa.String(length=20), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("tensor", sa.Text(), nullable=False),
        sa.Column("dtype", sa.String(length=20), nullable=False),
        sa.Column("digest", sa.String(length=80), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("dim", sa.BigInteger(), nullable=False),
        sa.Column("rows_used", sa.BigInteger(), nullable=False),
        sa.Column("rows_zero", sa.BigInteger(), nullable=False),
        sa.Column("rows_nonfinite", sa.BigInteger(), nullable=False),
        sa.Column("pairs", sa.BigInteger(), nullable=False),
        sa.Column("cosine_mean", sa.Double(), nullable=False),
        sa.Column("cosine_std", sa.Double(), nullable=False),
        sa.Column("cosine_mean_square", sa.Double(), nullable=False),
        sa.Column("cosine_mean_se", sa.Double(), nullable=True),
        sa.Column("cosine_std_se", sa.Double(), nullable=True),
        sa.Column("epsilon", sa.Double(), nullable=False),
        sa.Column("epsilon_se", sa.Double(), nullable=True),
        sa.Column("epsilon_random", sa.Double(), nullable=False),
        sa.Column("epsilon_excess", sa.Double(), nullable=False),
        sa.Column("epsilon_class", sa.String(length=20), nullable=False),
        sa.Column("capacity_status", sa.String(length=20), nullable=False),
        sa.Column("capacity_log10", sa.Double(), nullable=True),
        sa.Column("capacity_log10_low", sa.Double(), nullable=True),
        sa.Column("capacity_log10_high", sa.Double(), nullable=True),
        sa.Column("vocabulary_directions", sa.BigInteger(), nullable=False),
        sa.Column("norm_mean", sa.Double(), nullable=False),
        sa.Column("norm_std", sa.Double(), nullable=False),
        sa.Column("norm_min", sa.Double(), nullable=False),
        sa.Column("norm_max", sa.Double(), nullable=False),
        sa.Column("norm_median", sa.Double(), nullable=False),
        sa.Column("represented_fraction", sa.Double(), nullable=False),
        sa.Column("welch_floor", sa.Double(), nullable=False),
        sa.Column("overlap_times_dim", sa.Double(), nullable=False),
        sa.Column("effective_rank", sa.Double(), nullable=False),
        sa.Column("feature_dimensionality", sa.Double(), nullable=False),
        sa.Column("regime", sa.String(length=20), nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["analysis_id"], ["analyses.id"], name=op.f("fk_matrices_analysis_id_analyses"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("analysis_id", "role", name=op.f("pk_matrices")),
    )


def downgrade() -> None:
    op.drop_table("matrices")
    op.drop_index("ix_analysis_labels_name_value", table_name="analysis_labels")

    op.drop_table("analysis_labels")
    op.drop_index("uq_analyses_dedupe_key", table_name="analyses")
    op.drop_index("ix_analyses_upload_id", table_name="analyses")
    op.drop_index("ix_analyses_unfinished", table_name="analyses")
    op.drop_index("ix_analyses_model_id_finished_at", table_name="analyses")
    op.drop_index("ix_analyses_created_at", table_name="analyses")

    op.drop_table("analyses")
    op.drop_index("ix_uploads_sha256", table_name="uploads")

    op.drop_table("uploads")
