"""Fits over widths, and questions of width, answered at once."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from gramian.errors import GeometryError, InvalidParameter
from gramian.geometry.frequencies import ExponentialLaw, LinearLaw, PowerLaw
from gramian.geometry.scaling import CHINCHILLA_PARAMETERS_PER_WIDTH
from gramian.scaling_answers import (
    CHINCHILLA_EXPONENT,
    Frequencies,
    LawName,
    loss_fit_answer,
    loss_ratio_answer,
    region_answer,
    width_exponent_answer,
)
from service.authorization import READ
from service.dependencies import ReadingDep
from service.overlap_fits import fit_overlaps
from service.problems import responses
from service.representations import SvgResponse
from service.scaling_views import overlap_residuals_svg, scaling_residuals_svg
from service.schemas.scaling import (
    LossRatioAnswer,
    OverlapAnswer,
    OverlapRequest,
    RegionAnswer,
    ScalingFit,
    ScalingRequest,
    WidthExponent,
)

BODY_LIMIT_BYTES = 1024**2
MAX_FEATURES = 1_000_000

router = APIRouter(prefix="/v1", tags=["calculators"], responses=responses(422), dependencies=[READ])

# -- fits -----------------------------------------------------------------------------------------------------


def fitted_scaling(body: ScalingRequest) -> ScalingFit:
    try:
        return ScalingFit(**loss_fit_answer([series.series() for series in body.series]))
    except GeometryError as error:
        raise InvalidParameter("/series", error.message, hint=error.hint) from error


def fitted_overlap(body: OverlapRequest, uow: ReadingDep) -> OverlapAnswer:
    return fit_overlaps(uow, body)


ScalingFitDep = Annotated[ScalingFit, Depends(fitted_scaling)]
OverlapFitDep = Annotated[OverlapAnswer, Depends(fitted_overlap, scope="function")]


@router.post("/fits/scaling", max_body_size=BODY_LIMIT_BYTES, responses=responses(400, 413))
def fit_scaling(fit: ScalingFitDep) -> ScalingFit:
    """Fit L = A/m^α + B_s with one A and one α to all series: values, errors, covariance, residuals."""
    return fit


@router.post(
    "/fits/scaling.svg", response_class=SvgResponse, max_body_size=BODY_LIMIT_BYTES, responses=responses(400, 413)
)
def fit_scaling_svg(fit: ScalingFitDep) -> SvgResponse:
    """The residuals of the same fit."""
    return SvgResponse(scaling_residuals_svg(fit))


@router.post("/fits/overlap", max_body_size=BODY_LIMIT_BYTES, responses=responses(400, 404, 413))
def fit_overlap(fit: OverlapFitDep) -> OverlapAnswer:
    """Slope of ln m₂ against ln d over stored analyses, together and by family; isotropic rows have −1."""
    return fit


@router.post(
    "/fits/overlap.svg", response_class=SvgResponse, max_body_size=BODY_LIMIT_BYTES, responses=responses(400, 404, 413)
)
def fit_overlap_svg(fit: OverlapFitDep) -> SvgResponse:
    """The residuals of the same fit."""
    return SvgResponse(overlap_residuals_svg(fit))


# -- questions of width ---------------------------------------------------------------------------------------


def frequencies(
    law: Annotated[LawName, Query(description="how feature frequencies fall")] = "power",
    exponent: Annotated[float | None, Query(ge=0, le=10, description="of a power law, p ∝ rank^-exponent")] = None,
    scale: Annotated[float | None, Query(gt=0, le=1e12, description="of an exponential law, in ranks")] = None,
) -> Frequencies:
    """The frequency law that the parameters describe."""
    if exponent is not None and law != "power":
        raise InvalidParameter("/exponent", f"the {law} law has no exponent")
    if scale is not None and law != "exponential":
        raise InvalidParameter("/scale", f"the {law} law has no scale")
    if law == "power":
        if exponent is None:
            raise InvalidParameter("/exponent", "a power law needs its exponent", hint="&exponent=1 is Zipf's law")
        return Frequencies(law, PowerLaw(exponent))
    if law == "exponential":
        if scale is None:
            raise InvalidParameter("/scale", "an exponential law needs its scale", hint="&scale=1000")
        return Frequencies(law, ExponentialLaw(scale))
    return Frequencies(law, LinearLaw())


FrequenciesDep = Annotated[Frequencies, Depends(frequencies)]


@router.get("/scaling/width-exponent")
def get_width_exponent(
    parameter_exponent: Annotated[
        float, Query(ge=0, le=10, description="α_N of a loss that falls as N^-α_N with N parameters")
    ] = CHINCHILLA_EXPONENT,
    parameters_per_width: Annotated[
        float, Query(gt=0, le=10, description="N grows as this power of the width; 2.52 in the Chinchilla models")
    ] = CHINCHILLA_PARAMETERS_PER_WIDTH,
) -> WidthExponent:
    """The exponent in width that a loss exponent in parameters implies."""
    return WidthExponent(**width_exponent_answer(parameter_exponent, parameters_per_width))


@router.get("/scaling/loss-ratio")
def get_loss_ratio(
    before: Annotated[int, Query(alias="from", ge=1, le=2**53, description="width d before")],
    to: Annotated[int, Query(ge=1, le=2**53, description="width d after")],
    law: FrequenciesDep,
    features: Annotated[
        int | None, Query(ge=2, le=MAX_FEATURES, description="n; unset: infinitely many, for a power law")
    ] = None,
) -> LossRatioAnswer:
    """What a change of width leaves of the reducible loss, in either regime and as language models behaved."""
    try:
        return LossRatioAnswer(**loss_ratio_answer(before, to, law, features))
    except GeometryError as error:
        raise InvalidParameter("/features", error.message, hint=error.hint) from error


@router.get("/scaling/region")
def get_region(
    features: Annotated[int, Query(ge=2, le=MAX_FEATURES, description="n")],
    dim: Annotated[int, Query(ge=2, le=2**53, description="d")],
    law: FrequenciesDep,
) -> RegionAnswer:
    """Whether n features of such frequencies in d dimensions lie where loss and overlap fall as 1/d."""
    try:
        return RegionAnswer(**region_answer(features, dim, law))
    except GeometryError as error:
        raise InvalidParameter("/features", error.message, hint=error.hint) from error
