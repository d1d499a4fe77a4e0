"""Fits of packings: which enter, and what is answered."""

from collections.abc import Sequence
from typing import get_args

from gramian.analyses import Status
from gramian.errors import GeometryError, InvalidParameter, NotFound
from gramian.geometry.packing_fit import PackingFit, PackingForm, fit_packing
from gramian.geometry.published_packings import OPTIMISED, RANDOM
from gramian.storage.tables import AnalysisRow
from gramian.storage.unit_of_work import UnitOfWork
from service.schemas.common import Caveat
from service.schemas.packing_fits import FittedForm, LeftOutPacking, PackingFitAnswer, PackingFitRequest
from service.schemas.scaling import Covariance

Point = tuple[float, float, float]

SOURCE = "A. Guha, Representational Capacity, arXiv:2606.02765, §3; form `welch`: docs/packings.md"

RELATIONS: dict[PackingForm, str] = {
    "jl": "ε = √(C · ln k / d)",
    "ratio": "ε = √(C · ln(k/d) / d)",
    "fitted": "ε = √(C · ln(kᵃ/d)ᵇ / dᶜ)",
    "welch": "ε = √(w² + A · (1 + B/d) · ln(k/d)² / d), w the Welch bound",
}


def fit_packings(uow: UnitOfWork, asked: PackingFitRequest) -> PackingFitAnswer:
    """Every form that was asked for, or that the packings determine."""
    pointer = "/points" if asked.analyses is None else "/analyses"
    given, left_out, warnings = _points(uow, asked)
    points = [(k, d, epsilon) for k, d, epsilon in given if k > d or not asked.exclude_k_below_d]
    if not any(k > d for k, d, _ in points):
        raise InvalidParameter(
            pointer,
            f"none of the {len(points)} packings has more vectors than dimensions; up to d vectors ε is 0",
            hint="give packings [k, d, ε] with k > d",
        )
    forms: dict[PackingForm, FittedForm | None] = {}
    for form in asked.forms or get_args(PackingForm):
        try:
            forms[form] = _fitted(fit_packing(points, form, robust=asked.robust))
        except GeometryError as error:
            if asked.forms:
                raise InvalidParameter(pointer, error.message, hint=error.hint) from error
            forms[form] = None
            warnings.append(Caveat(code="not_determined", message=error.message))
    if not any(forms.values()):
        raise InvalidParameter(pointer, warnings[-1].message, hint="give more packings, of different k and d")
    return PackingFitAnswer(
        forms=forms,
        points=points,
        points_used=len(points),
        excluded_k_below_d=len(given) - len(points),
        robust=asked.robust,
        left_out=left_out,
        warnings=warnings,
        source=SOURCE,
    )


def _points(uow: UnitOfWork, asked: PackingFitRequest) -> tuple[Sequence[Point], list[LeftOutPacking], list[Caveat]]:
    match asked.points:
        case "published":
            return OPTIMISED, [], []
        case "published_random":
            return RANDOM, [], []
        case None:
            return _analysed(uow, asked.analyses or [])
    return asked.points, [], []


def _analysed(uow: UnitOfWork, ids: Sequence[str]) -> tuple[list[Point], list[LeftOutPacking], list[Caveat]]:
    found = {row.id: row for row in uow.matrices.of(ids)}
    points, methods = [], set()
    left_out, warnings = [], []
    for name in dict.fromkeys(ids):
        row = found.get(name)
        if row is None:
            raise NotFound("analysis", name, hint="GET /v1/analyses?kind=packing lists the packings there are")
        if reason := _reason_against(row):
            left_out.append(reason)
            continue
        answer = row.answer or {}
        points.append((answer["vectors"], answer["dim"], answer["epsilon"]))
        methods.add(answer["method"])
    if len(methods) > 1:
        words = f"packings by {' and '.join(sorted(methods))} follow different relations: fit each by itself"
        warnings.append(Caveat(code="mixed_methods", message=words))
    return points, left_out, warnings


def _reason_against(row: AnalysisRow) -> LeftOutPacking | None:
    if row.kind != "packing":
        return LeftOutPacking(analysis_id=row.id, code="kind", reason=f"it is of kind {row.kind}")
    if row.status != Status.SUCCEEDED or row.answer is None:
        return LeftOutPacking(analysis_id=row.id, code="status", reason=f"it is {row.status}")
    if row.answer["epsilon"] <= 0:
        return LeftOutPacking(analysis_id=row.id, code="orthogonal", reason="its ε is 0")
    return None


def _fitted(fit: PackingFit) -> FittedForm:
    return FittedForm(
        relation=RELATIONS[fit.form],
        constants=dict(fit.constants),
        standard_errors=dict(fit.standard_errors),
        covariance=Covariance(parameters=list(fit.constants), matrix=[list(row) for row in fit.covariance]),
        r2=fit.r2,
        mape=fit.mape,
        rmse=fit.rmse,
        nrmse=fit.nrmse,
        residuals=list(fit.residuals),
    )
