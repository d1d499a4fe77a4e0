"""Fits of overlap against width over stored analyses: what enters, what is left out and why."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gramian.analyses import Status
from gramian.errors import GeometryError, InvalidParameter, NotFound
from gramian.families import family_of
from gramian.geometry.scaling import OverlapFit, OverlapPoint, fit_overlap_exponent
from gramian.scaling_answers import SOURCE, estimate_answer, slope_answer
from gramian.specs import EmbeddingSpec
from gramian.storage.matrices import MatrixFilter
from gramian.storage.models import ModelFilter
from gramian.storage.tables import AnalysisRow, MatrixRow
from gramian.storage.unit_of_work import UnitOfWork
from service.schemas.common import Role
from service.schemas.scaling import (
    MAX_ANALYSES,
    FittedOverlap,
    LeftOut,
    OverlapAnswer,
    OverlapFamily,
    OverlapQuery,
    OverlapRequest,
)

FAMILY_LABEL = "family"


@dataclass(frozen=True)
class Entry:
    """A matrix that enters the fit."""

    analysis: AnalysisRow
    matrix: MatrixRow
    family: str


def fit_overlaps(uow: UnitOfWork, asked: OverlapRequest) -> OverlapAnswer:
    """ln m₂ against ln d over the matrices that were asked for."""
    rows = _matching(uow, asked.query) if asked.query else _named(uow, asked.analyses or [])
    entries, left_out = select_entries(rows, asked.role)
    points = [OverlapPoint(e.family, e.matrix.dim, e.matrix.cosine_mean_square) for e in entries]
    try:
        fit = fit_overlap_exponent(points)
    except GeometryError as error:
        pointer = "/analyses" if asked.analyses else "/query"
        raise InvalidParameter(pointer, _too_few(error.message, left_out), hint=_hint(left_out)) from error
    return _answer(entries, left_out, fit)


def select_entries(rows: Sequence[AnalysisRow], role: Role) -> tuple[list[Entry], list[LeftOut]]:
    """One matrix of the role from each analysis, unless there is a reason against it."""
    entries: list[Entry] = []
    left_out: list[LeftOut] = []
    seen: dict[str, str] = {}
    for row in rows:
        reason = next(((code, words) for code, rule in ANALYSIS_RULES if (words := rule(row))), None)
        matrix = None if reason else _of_role(row, role)
        if reason is None and matrix is None:
            reason = ("role", f"it has no {role.replace('_', ' ')}")
        if matrix is not None:
            if matrix.rows_used <= matrix.dim:
                reason = ("rows", f"{matrix.rows_used} rows in {matrix.dim} dimensions need not overlap: m₂ may be 0")
            elif first := seen.get(matrix.digest):
                reason = ("same_content", f"the matrix is the same bytes as that of {first}")
        if reason is None and matrix is not None:
            seen[matrix.digest] = row.id
            entries.append(Entry(row, matrix, _family(row)))
        elif reason is not None:
            code, words = reason
            left_out.append(LeftOut(analysis_id=row.id, model_id=row.model_id, code=code, reason=words))
    return entries, left_out


#: Codes, and the reason to leave a whole analysis out if there is one.
ANALYSIS_RULES: Sequence[tuple[str, Callable[[AnalysisRow], str | None]]] = (
    ("kind", lambda row: None if row.kind == "embedding" else f"it is of kind {row.kind}"),
    ("status", lambda row: None if row.status == Status.SUCCEEDED else f"it is {row.status}"),
    (
        "method_version",
        lambda row: (
            None
            if row.method_version == EmbeddingSpec.method_version
            else f"measured by method {row.method_version}, now it is {EmbeddingSpec.method_version}: analyse it again"
        ),
    ),
    (
        "rows_excluded",
        lambda row: f"{' and '.join(row.excluded)} were left out of it, and not of others" if row.excluded else None,
    ),
)


def _of_role(row: AnalysisRow, role: Role) -> MatrixRow | None:
    found = next((matrix for matrix in row.matrices if matrix.role == role), None)
    tied = (row.tying or {}).get("finding") == "tied"
    return found or (row.matrices[0] if tied and row.matrices else None)


def _family(row: AnalysisRow) -> str:
    label = next((label.value for label in row.labels if label.name == FAMILY_LABEL), None)
    return label or (family_of(row.model_id) if row.model_id else "unnamed")


def _named(uow: UnitOfWork, ids: Sequence[str]) -> Sequence[AnalysisRow]:
    found = {row.id: row for row in uow.matrices.of(ids)}
    if missing := next((name for name in ids if name not in found), None):
        raise NotFound("analysis", missing, hint="GET /v1/analyses lists the analyses there are")
    return [found[name] for name in dict.fromkeys(ids)]


def _matching(uow: UnitOfWork, query: OverlapQuery) -> Sequence[AnalysisRow]:
    label = None
    if query.label:
        name, colon, value = query.label.partition(":")
        label = (name, value if colon else None)
    numbers = ModelFilter(epsilon_class=query.epsilon_class, min_dim=query.min_dim, max_dim=query.max_dim, text=query.q)
    wanted = MatrixFilter(numbers=numbers, model_id=query.model_id, label=label)
    rows = uow.matrices.find(wanted, limit=MAX_ANALYSES + 1)
    if len(rows) > MAX_ANALYSES:
        raise InvalidParameter(
            "/query", f"more than {MAX_ANALYSES} analyses match", hint="narrow it by label, class or dimension"
        )
    return rows


def _too_few(message: str, left_out: Sequence[LeftOut]) -> str:
    if not left_out:
        return message
    reasons = "; ".join(f"{item.analysis_id}: {item.reason}" for item in left_out[:5])
    return f"{message}; {len(left_out)} left out ({reasons})"


def _hint(left_out: Sequence[LeftOut]) -> str:
    if any(item.code == "role" for item in left_out):
        return 'models without an output head are fitted with "role": "input_embedding"'
    return "analyse models of three widths or more"


def _answer(entries: Sequence[Entry], left_out: list[LeftOut], fit: OverlapFit) -> OverlapAnswer:
    points = [
        FittedOverlap(
            analysis_id=entry.analysis.id,
            model_id=entry.analysis.model_id,
            family=entry.family,
            role=entry.matrix.role,
            rows_used=entry.matrix.rows_used,
            dim=entry.matrix.dim,
            mean_squared_overlap=entry.matrix.cosine_mean_square,
            overlap_times_dim=entry.matrix.overlap_times_dim,
            residual=float(residual),
        )
        for entry, residual in zip(entries, fit.overall.residuals, strict=True)
    ]
    families = [
        OverlapFamily(
            name=name,
            points=sum(entry.family == name for entry in entries),
            slope=slope_answer(found.slope) if found else None,
        )
        for name, found in fit.families.items()
    ]
    warnings = []
    if len(families) > 1:
        warnings.append(
            {
                "code": "mixed_families",
                "message": "1/d is a law of models that are alike but for width: trust the families more than the "
                "slope over all",
            }
        )
    return OverlapAnswer(
        slope=slope_answer(fit.overall.slope),
        log_prefactor=estimate_answer(fit.overall.log_prefactor),
        families=families,
        points=points,
        left_out=left_out,
        warnings=warnings,
        source=f"{SOURCE}, §4",
    )
