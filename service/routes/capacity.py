"""Capacity calculators, answered at once: as JSON, as a table (`.csv`) and as a picture (`.svg`)."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from gramian.answers import capacity_answer, design_answer, sensitivity_answer
from gramian.errors import InvalidParameter
from gramian.geometry.capacity import Form, dimension_for, epsilon_for, vocabulary_directions
from gramian.geometry.capacity import log10_directions as capacity_log10
from gramian.geometry.sensitivity import Axis
from service.authorization import READ
from service.capacity_views import capacity_svg, curve_csv, curve_svg, flat_csv
from service.problems import responses
from service.representations import CsvResponse, SvgResponse
from service.schemas.capacity import (
    CapacityAnswer,
    DesignAnswer,
    DimensionAnswer,
    EpsilonAnswer,
    SensitivityAnswer,
)

Dim = Annotated[int, Query(ge=1, le=2**53, description="dimensions d of the space")]
AcceptedEpsilon = Annotated[float, Query(ge=-1, le=1, description="accepted deviation from orthogonality, a cosine")]
Directions = Annotated[float | None, Query(ge=1, le=1.7e308, description="number of directions k")]
LogDirections = Annotated[float | None, Query(ge=0, le=1e6, description="log10 of k, for numbers beyond 1e308")]
ChosenForm = Annotated[Form, Query(description="which relation between k, d and ε")]

router = APIRouter(prefix="/v1/capacity", tags=["calculators"], responses=responses(422), dependencies=[READ])


def vocabulary(
    vocabulary: Annotated[int | None, Query(ge=0, le=2**53, description="rows V of the vocabulary")] = None,
    tied: Annotated[
        bool | None, Query(description="whether input and output embedding are one matrix: V directions, else 2V")
    ] = None,
) -> int | None:
    """Directions that the vocabulary takes up."""
    if vocabulary is None:
        if tied is not None:
            raise InvalidParameter("/tied", "tying says nothing without the vocabulary's size", hint="add vocabulary=")
        return None
    return vocabulary_directions(vocabulary, tied=bool(tied))


def capacity_of(
    dim: Dim,
    epsilon: AcceptedEpsilon,
    used: Annotated[int | None, Depends(vocabulary)],
    epsilon_standard_error: Annotated[float | None, Query(ge=0, le=1)] = None,
) -> CapacityAnswer:
    answer = capacity_answer(dim, epsilon, epsilon_se=epsilon_standard_error, vocabulary=used)
    return CapacityAnswer(dim=dim, epsilon=epsilon, **answer)


def sensitivity_of(
    dim: Dim,
    epsilon: AcceptedEpsilon,
    over: Annotated[Axis, Query(description="what runs; the other stays")] = "epsilon",
    start: Annotated[float | None, Query(description="half the point's own value where not given")] = None,
    stop: Annotated[float | None, Query(description="twice the point's own value where not given")] = None,
    points: Annotated[int, Query(ge=2, le=201)] = 101,
    form: ChosenForm = "fitted",
) -> SensitivityAnswer:
    answer = sensitivity_answer(dim, epsilon, over=over, start=start, stop=stop, points=points, form=form)
    return SensitivityAnswer(**answer)


def design_of(
    epsilon: AcceptedEpsilon,
    used: Annotated[int | None, Depends(vocabulary)],
    directions: Directions = None,
    log10_directions: LogDirections = None,
    multiple: Annotated[int, Query(ge=1, le=2**20, description="round the dimension up to a multiple of this")] = 64,
    form: ChosenForm = "fitted",
) -> DesignAnswer:
    answer = design_answer(
        epsilon, directions, log10_directions=log10_directions, multiple=multiple, form=form, vocabulary=used
    )
    return DesignAnswer(**answer)


CapacityDep = Annotated[CapacityAnswer, Depends(capacity_of)]
SensitivityDep = Annotated[SensitivityAnswer, Depends(sensitivity_of)]
DesignDep = Annotated[DesignAnswer, Depends(design_of)]


@router.get("")
def get_capacity(answer: CapacityDep) -> CapacityAnswer:
    """Directions that a space offers at ε: the published estimate, what is proven beside it, and the headroom."""
    return answer


@router.get(".csv", response_class=CsvResponse)
def get_capacity_csv(answer: CapacityDep) -> CsvResponse:
    """The same as one row of a table."""
    return CsvResponse(flat_csv(answer))


@router.get(".svg", response_class=SvgResponse)
def get_capacity_svg(answer: CapacityDep) -> SvgResponse:
    """The estimate between what certainly exists and what cannot, drawn on one scale."""
    return SvgResponse(capacity_svg(answer))


@router.get("/epsilon")
def get_epsilon(
    dim: Dim, directions: Directions = None, log10_directions: LogDirections = None, form: ChosenForm = "fitted"
) -> EpsilonAnswer:
    """The least ε at which `dim` dimensions offer k directions."""
    epsilon = epsilon_for(dim, directions, log10_directions=log10_directions, form=form)
    return EpsilonAnswer(dim=dim, directions=directions, log10_directions=log10_directions, form=form, epsilon=epsilon)


@router.get("/dimension")
def get_dimension(
    epsilon: AcceptedEpsilon,
    directions: Directions = None,
    log10_directions: LogDirections = None,
    form: ChosenForm = "fitted",
) -> DimensionAnswer:
    """The smallest dimension that offers k directions at ε."""
    dim = dimension_for(epsilon, directions, log10_directions=log10_directions, form=form)
    return DimensionAnswer(
        epsilon=epsilon,
        directions=directions,
        log10_directions=log10_directions,
        form=form,
        dimension=dim,
        log10_directions_there=capacity_log10(dim, epsilon, form),
    )


@router.get("/sensitivity")
def get_sensitivity(answer: SensitivityDep) -> SensitivityAnswer:
    """How the number of directions answers to ε, or to the dimension: a curve and its elasticities."""
    return answer


@router.get("/sensitivity.csv", response_class=CsvResponse)
def get_sensitivity_csv(answer: SensitivityDep) -> CsvResponse:
    """The curve, a row a point."""
    return CsvResponse(curve_csv(answer))


@router.get("/sensitivity.svg", response_class=SvgResponse)
def get_sensitivity_svg(answer: SensitivityDep) -> SvgResponse:
    """The curve between what certainly exists and what cannot."""
    return SvgResponse(curve_svg(answer))


@router.get("/design")
def get_design(answer: DesignDep) -> DesignAnswer:
    """The smallest dimension, rounded up to a multiple, that offers k directions at ε, and what is there at it."""
    return answer


@router.get("/design.csv", response_class=CsvResponse)
def get_design_csv(answer: DesignDep) -> CsvResponse:
    """The same as one row of a table."""
    return CsvResponse(flat_csv(answer))


@router.get("/design.svg", response_class=SvgResponse)
def get_design_svg(answer: DesignDep) -> SvgResponse:
    """Directions by dimension at this ε, with the target and the dimension that meets it."""
    curve = SensitivityAnswer(
        **sensitivity_answer(answer.dimension, answer.epsilon, over="dim", form=answer.form),
    )
    target = answer.log10_directions_there - answer.spare_log10
    return SvgResponse(curve_svg(curve, target_log10=target, dim=answer.dimension))
