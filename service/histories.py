"""A model's revisions in a row: what the registry holds, put side by side, as numbers, table and picture."""

from collections.abc import Sequence

from gramian.geometry.capacity import HIGH_EPSILON, LOW_EPSILON
from gramian.storage.tables import AnalysisRow, MatrixRow
from service.charts import BLUE, GREY, Axis, Dots, Line, Mark, line_chart
from service.representations import csv_text
from service.schemas.history import History, HistoryPoint


def history(model_id: str, newest_first: Sequence[tuple[AnalysisRow, MatrixRow]], *, truncated: bool) -> History:
    """One point a commit: its latest analysis that asks what the model's latest one asks."""
    latest, matrix = newest_first[0]
    chosen: dict[str, tuple[AnalysisRow, MatrixRow]] = {}
    first: dict[str, AnalysisRow] = {}
    left_out = 0
    for analysis, row in newest_first:
        if (analysis.method_version, analysis.excluded) != (latest.method_version, latest.excluded):
            left_out += 1
            continue
        commit = analysis.commit or ""
        chosen.setdefault(commit, (analysis, row))
        first[commit] = analysis
    ordered = sorted(chosen, key=lambda commit: (first[commit].created_at, first[commit].id))
    points: list[HistoryPoint] = []
    for commit in ordered:
        points.append(_point(first[commit], *chosen[commit], before=points[-1] if points else None))
    return History(
        model_id=model_id,
        role=matrix.role,
        method_version=latest.method_version,
        rows_exclude=list(latest.excluded),
        items=points,
        left_out=left_out,
        truncated=truncated,
    )


def _point(first: AnalysisRow, analysis: AnalysisRow, row: MatrixRow, *, before: HistoryPoint | None) -> HistoryPoint:
    return HistoryPoint(
        commit=analysis.commit,
        revision=first.revision,
        at=first.created_at,
        analysis_id=analysis.id,
        epsilon=row.epsilon,
        standard_error=row.epsilon_se,
        epsilon_class=row.epsilon_class,
        shift=row.epsilon - before.epsilon if before else None,
        class_changed=before is not None and row.epsilon_class != before.epsilon_class,
        capacity_log10=row.capacity_log10,
        mean_squared_overlap=row.cosine_mean_square,
        overlap_times_dim=row.overlap_times_dim,
        effective_rank=row.effective_rank,
        represented_fraction=row.represented_fraction,
        rows_used=row.rows_used,
        dim=row.dim,
    )


def history_csv(found: History) -> str:
    """A row a commit."""
    names = list(HistoryPoint.model_fields)
    header = ["class" if name == "epsilon_class" else name for name in names]
    rows = [point.model_dump(mode="json") for point in found.items]
    return csv_text(header, [[row[name] for name in names] for row in rows])


def history_svg(found: History) -> str:
    """ε over the revisions, with standard errors and the borders of the classes that are near."""
    values = [point.epsilon for point in found.items]
    errors = [point.standard_error or 0.0 for point in found.items]
    low = min(value - error for value, error in zip(values, errors, strict=True))
    high = max(value + error for value, error in zip(values, errors, strict=True))
    margin = 0.15 * (high - low) or 0.1 * abs(high) or 0.01
    y = Axis("ε", low - margin, high + 2 * margin)  # room for the legend
    points = [(float(number), value) for number, value in enumerate(values, start=1)]
    borders = [Mark(f"ε = {at}", at, "y") for at in (LOW_EPSILON, HIGH_EPSILON) if y.low < at < y.high]
    ends = f"{found.items[0].commit[:8]} to {found.items[-1].commit[:8]}"
    return line_chart(
        f"ε of {found.model_id} over its revisions",
        f"{len(values)} commits, {ends}: from {values[0]:.4g} to {values[-1]:.4g}",
        x=Axis("commit, in the order in which they were analysed", 0.5, len(values) + 0.5),
        y=y,
        lines=[Line("", points, GREY)],
        marks=borders,
        dots=[Dots("ε ± standard error", points, BLUE, errors=errors)],
    )
