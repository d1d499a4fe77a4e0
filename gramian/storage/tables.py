"""The tables. Scalars are columns, so that sorting, filtering and comparing are plain SQL."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Text,
    TypeDecorator,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from gramian.limits import LIMITS


class UtcDateTime(TypeDecorator[datetime]):
    """Aware UTC in Python; `timestamptz` on PostgreSQL, ISO text on SQLite."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        return value.astimezone(UTC) if value else None

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        return value if value is None or value.tzinfo else value.replace(tzinfo=UTC)


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(column_0_label)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012
        float: Double,
        datetime: UtcDateTime,
        dict[str, Any]: JSON,
        list[Any]: JSON,
    }


class ProjectOwned:
    """What belongs to a project. A unit of work that is limited to one finds no row of another: see its session.

    New rows get the project of the unit of work that adds them.
    """

    project_id: Mapped[str] = mapped_column(String(40))


class ProjectRow(Base):
    """A name space. Rows refer to it without a foreign key: SQLite could not add one to a table that has rows."""

    __tablename__ = "projects"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    name: Mapped[str] = mapped_column(String(63))
    created_at: Mapped[datetime]

    __table_args__ = (Index("uq_projects_name", "name", unique=True),)


class AnalysisRow(ProjectOwned, Base):
    """One question, its state, and what its answer rests on."""

    __tablename__ = "analyses"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    kind: Mapped[str] = mapped_column(String(20))
    status: Mapped[str] = mapped_column(String(20))
    spec: Mapped[dict[str, Any]]
    identity: Mapped[dict[str, Any]]  # what the source was resolved to when it was accepted
    dedupe_key: Mapped[str] = mapped_column(String(64))
    model_id: Mapped[str | None] = mapped_column(Text)
    revision: Mapped[str | None] = mapped_column(Text)
    commit: Mapped[str | None] = mapped_column(String(64))
    upload_id: Mapped[str | None] = mapped_column(ForeignKey("uploads.id"), index=True)
    digest: Mapped[str | None] = mapped_column(String(80))

    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]

    # dispatch: see jobs in docs/architecture.md; times are seconds by the database's clock
    fence: Mapped[int] = mapped_column(default=0)
    deliveries: Mapped[int] = mapped_column(default=0)
    lease_until: Mapped[float | None]
    pushed_at: Mapped[float | None]
    due_at: Mapped[float | None]  # a failed attempt is not tried again before
    failures: Mapped[int] = mapped_column(default=0)  # transient errors; crashes show in `deliveries`
    callers: Mapped[int] = mapped_column(default=1)  # who still wants the answer: the last one's cancel counts

    priority: Mapped[str] = mapped_column(String(20), default="interactive")
    required_device: Mapped[str | None] = mapped_column(String(10))
    request_id: Mapped[str | None] = mapped_column(String(100))  # of the request that asked first
    key_id: Mapped[str | None] = mapped_column(String(40))  # whose quota it counts for

    events: Mapped[int] = mapped_column(default=1)  # how many there are, and so the number of the latest
    stage: Mapped[str | None] = mapped_column(String(40))
    fraction: Mapped[float | None]
    message: Mapped[str | None] = mapped_column(Text)
    done: Mapped[int | None] = mapped_column(BigInteger)
    total: Mapped[int | None] = mapped_column(BigInteger)
    unit: Mapped[str | None] = mapped_column(String(20))
    seconds_left: Mapped[float | None]
    error: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))

    gramian_version: Mapped[str | None] = mapped_column(String(40))
    method_version: Mapped[str] = mapped_column(String(20))
    device: Mapped[str | None] = mapped_column(String(80))
    torch_version: Mapped[str | None] = mapped_column(String(40))
    seconds: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    bytes_fetched: Mapped[int | None] = mapped_column(BigInteger)
    tying: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    alignment: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    warnings: Mapped[list[Any] | None] = mapped_column(JSON(none_as_null=True))
    answer: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))  # of kinds without tables

    labels: Mapped[list["LabelRow"]] = relationship(
        lazy="selectin", cascade="all, delete-orphan", order_by="LabelRow.name"
    )
    matrices: Mapped[list["MatrixRow"]] = relationship(
        lazy="selectin", cascade="all, delete-orphan", order_by="MatrixRow.position"
    )

    @property
    def excluded(self) -> tuple[str, ...]:
        """The rows that the question leaves out, beside those without a direction."""
        return tuple((self.spec.get("rows") or {}).get("exclude", ()))

    __table_args__ = (
        Index(
            "uq_analyses_dedupe_key",
            "project_id",
            "dedupe_key",
            unique=True,
            postgresql_where=text("status IN ('queued', 'running', 'succeeded')"),
            sqlite_where=text("status IN ('queued', 'running', 'succeeded')"),
        ),
        Index(
            "ix_analyses_unfinished",
            "id",
            postgresql_where=text("status IN ('queued', 'running')"),
            sqlite_where=text("status IN ('queued', 'running')"),
        ),
        Index(
            "ix_analyses_unfinished_key_id",
            "key_id",
            postgresql_where=text("status IN ('queued', 'running')"),
            sqlite_where=text("status IN ('queued', 'running')"),
        ),
        Index("ix_analyses_created_at", "project_id", "created_at", "id"),
        Index("ix_analyses_status_created_at", "project_id", "status", "created_at", "id"),
        Index("ix_analyses_model_id_finished_at", "project_id", "model_id", "finished_at"),
    )


class EventRow(Base):
    """One thing that happened to an analysis; numbered from 1 without gaps."""

    __tablename__ = "analysis_events"

    analysis_id: Mapped[str] = mapped_column(ForeignKey("analyses.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    type: Mapped[str] = mapped_column(String(20))
    data: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]


class LabelRow(Base):
    """A name and a value that a caller hung on an analysis."""

    __tablename__ = "analysis_labels"

    analysis_id: Mapped[str] = mapped_column(ForeignKey("analyses.id", ondelete="CASCADE"), primary_key=True)
    name: Mapped[str] = mapped_column(String(100), primary_key=True)
    value: Mapped[str] = mapped_column(String(400))

    __table_args__ = (Index("ix_analysis_labels_name_value", "name", "value"),)


class FileRow(Base):
    """A file that an analysis made; its bytes lie among the artifacts under their digest."""

    __tablename__ = "analysis_files"

    analysis_id: Mapped[str] = mapped_column(ForeignKey("analyses.id", ondelete="CASCADE"), primary_key=True)
    name: Mapped[str] = mapped_column(String(100), primary_key=True)
    sha256: Mapped[str] = mapped_column(String(64), index=True)
    size: Mapped[int] = mapped_column(BigInteger)


class MatrixRow(Base):
    """The numbers of one analysed matrix."""

    __tablename__ = "matrices"

    analysis_id: Mapped[str] = mapped_column(ForeignKey("analyses.id", ondelete="CASCADE"), primary_key=True)
    role: Mapped[str] = mapped_column(String(20), primary_key=True)
    position: Mapped[int] = mapped_column(Integer)  # 0 is the one that stands for the model

    tensor: Mapped[str] = mapped_column(Text)
    dtype: Mapped[str] = mapped_column(String(20))
    digest: Mapped[str] = mapped_column(String(80))
    rows: Mapped[int] = mapped_column(BigInteger)
    dim: Mapped[int] = mapped_column(BigInteger)
    rows_used: Mapped[int] = mapped_column(BigInteger)
    rows_zero: Mapped[int] = mapped_column(BigInteger)
    rows_nonfinite: Mapped[int] = mapped_column(BigInteger)

    pairs: Mapped[int] = mapped_column(BigInteger)
    cosine_mean: Mapped[float]
    cosine_std: Mapped[float]
    cosine_mean_square: Mapped[float]
    cosine_mean_se: Mapped[float | None]
    cosine_std_se: Mapped[float | None]
    epsilon: Mapped[float]
    epsilon_se: Mapped[float | None]
    epsilon_random: Mapped[float]
    epsilon_excess: Mapped[float]
    epsilon_class: Mapped[str] = mapped_column(String(20))

    capacity_status: Mapped[str] = mapped_column(String(20))
    capacity_log10: Mapped[float | None]
    capacity_log10_low: Mapped[float | None]
    capacity_log10_high: Mapped[float | None]
    vocabulary_directions: Mapped[int] = mapped_column(BigInteger)

    pair_mode: Mapped[str | None] = mapped_column(
        String(10)
    )  # this and the next are null where no pairs were asked for
    pairs_seen: Mapped[int | None] = mapped_column(BigInteger)
    cosine_min: Mapped[float | None]
    cosine_max: Mapped[float | None]
    cosine_mean_abs: Mapped[float | None]

    norm_mean: Mapped[float]
    norm_std: Mapped[float]
    norm_min: Mapped[float]
    norm_max: Mapped[float]
    norm_median: Mapped[float]
    represented_fraction: Mapped[float]
    welch_floor: Mapped[float]
    overlap_times_dim: Mapped[float]
    effective_rank: Mapped[float]
    feature_dimensionality: Mapped[float]
    regime: Mapped[str] = mapped_column(String(20))

    details: Mapped[dict[str, Any]]  # lists: rows left out, most and least overlapping rows, the histogram

    @property
    def capacity_interval_log10(self) -> tuple[float, float] | None:
        if self.capacity_log10_low is None or self.capacity_log10_high is None:
            return None
        return self.capacity_log10_low, self.capacity_log10_high


class ToyCellRow(Base):
    """A cell of a toy-model sweep: how often it was begun, by whom, and what it showed once it was finished."""

    __tablename__ = "toy_cells"

    analysis_id: Mapped[str] = mapped_column(ForeignKey("analyses.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    attempts: Mapped[int] = mapped_column(Integer)  # how often it was begun; the latest alone may finish it
    fence: Mapped[int | None]  # of the run of the analysis that trains it; none while a helper does
    lease_until: Mapped[float | None]  # a helper's; one that has run out says that a helper failed
    result: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))


class IdempotencyRow(ProjectOwned, Base):
    """The first answer to a request that carried a key; each project has its own."""

    __tablename__ = "idempotency_keys"

    project_id: Mapped[str] = mapped_column(String(40), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    fingerprint: Mapped[str] = mapped_column(String(64))
    analysis_id: Mapped[str | None] = mapped_column(String(40))
    status: Mapped[int | None]
    body: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[float] = mapped_column(index=True)  # seconds by the database's clock


class UploadRow(ProjectOwned, Base):
    """A file that arrived over HTTP; its bytes lie in the blob store under their digest."""

    __tablename__ = "uploads"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    filename: Mapped[str] = mapped_column(Text)
    size: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str] = mapped_column(String(64), index=True)
    format: Mapped[str] = mapped_column(String(20))
    tensors: Mapped[list[Any]]
    created_at: Mapped[datetime]
    deleted_at: Mapped[datetime | None]
    key_id: Mapped[str | None] = mapped_column(String(40))  # whose quota it counts for

    __table_args__ = (Index("ix_uploads_key_id_created_at", "key_id", "created_at"),)


class KeyRow(ProjectOwned, Base):
    """An access key; what it permits, and since and until when."""

    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    name: Mapped[str] = mapped_column(String(100))
    scope: Mapped[str] = mapped_column(String(10))
    shown: Mapped[str] = mapped_column(String(20), index=True)  # the key's beginning
    sha256: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    requests_per_minute: Mapped[int | None] = mapped_column(BigInteger)  # this and the next: its own limits
    queued_jobs: Mapped[int | None] = mapped_column(BigInteger)
    upload_bytes_per_day: Mapped[int | None] = mapped_column(BigInteger)

    @property
    def limits(self) -> dict[str, int | None]:
        return {name: getattr(self, name) for name in LIMITS}

    def is_live(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)
