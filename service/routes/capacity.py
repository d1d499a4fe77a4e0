"""Capacity calculators, answered at once."""

from typing import Annotated

from fastapi import APIRouter, Query

from gramian.answers import capacity_answer
from gramian.geometry.capacity import Form, dimension_for, epsilon_for
from gramian.geometry.capacity import log10_directions as capacity_log10
from service.problems import responses
from service.schemas.capacity import CapacityAnswer, DimensionAnswer, EpsilonAnswer

Dim = Annotated[int, Query(ge=1, le=2**53, description="dimensions d of the space")]
AcceptedEpsilon = Annotated[float, Query(ge=-1, le=1, description="accepted deviation from orthogonality, a cosine")]
Directions = Annotated[float | None, Query(ge=1, le=1.7e308, description="number of directions k")]
LogDirections = Annotated[float | None, Query(ge=0, le=1e6, description="log10 of k, for numbers beyond 1e308")]
ChosenForm = Annotated[Form, Query(description="which relation between k, d and ε")]

router = APIRouter(prefix="/v1/capacity", tags=["calculators"], responses=responses(422))


@router.get("")
def get_capacity(
    dim: Dim,
    epsilon: AcceptedEpsilon,
    epsilon_standard_error: Annotated[float | None, Query(ge=0, le=1)] = None,
) -> CapacityAnswer:
    """Directions that a space of `dim` dimensions offers at ε, by every form."""
    answer = capacity_answer(dim, epsilon, epsilon_se=epsilon_standard_error)
    return CapacityAnswer(dim=dim, epsilon=epsilon, **answer)


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
