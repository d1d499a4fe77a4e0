"""How a capacity is written down, in results and calculators alike: plain values, JSON without NaN or infinity."""

import math
from dataclasses import asdict
from typing import Any

from gramian.geometry.bounds import Brackets, brackets, position
from gramian.geometry.capacity import FORMS, Capacity, Form, capacity, headroom, log10_directions, log10_headroom
from gramian.geometry.design import design_for
from gramian.geometry.extrapolation import extrapolation
from gramian.geometry.our_form import our_estimate
from gramian.geometry.sensitivity import Axis, sensitivity_at, sensitivity_curve

CURVE_DEGREE = 3_000  # of the upper bound along a curve, a few milliseconds a point; beyond, the step to the next zero


def capacity_answer(
    dim: int, epsilon: float, *, epsilon_se: float | None = None, vocabulary: int | None = None
) -> dict[str, Any]:
    """The estimate and what is proven beside it, every form as it stands, and the reasons to read them with care.

    Forms are not lifted to d. `vocabulary` is the number of directions that the vocabulary takes up; the headroom is
    what the estimate leaves beside them.
    """
    found = capacity(dim, epsilon, epsilon_se=epsilon_se)
    proven = brackets(dim, epsilon)
    forms = {form: log10_directions(dim, min(epsilon, 1.0), form) for form in FORMS}
    headline = found.log10_directions
    at = sensitivity_at(dim, min(epsilon, 1.0))
    warnings = [caution._asdict() for caution in found.cautions]
    if math.isinf(proven.upper_log10):
        warnings.append({"code": "unbounded", "message": "at ε = 1 any number of directions is admitted: no bounds"})
    return {
        "status": found.status,
        "reason": _reason(found),
        "directions": found.directions,
        "log10_directions": headline,
        "interval_log10": found.interval_log10,
        "uncertainty": _uncertainty(found),
        "extrapolated": found.extrapolated,
        "extrapolation": _extrapolation(found),
        "elasticity": {"epsilon": at.epsilon_elasticity, "dim": at.dim_elasticity},
        "forms": {form: _count(log10) for form, log10 in forms.items()},
        "forms_log10": forms,
        "forms_below_dim": list(found.floored),
        "ours": _ours(dim, min(epsilon, 1.0)),
        "bounds": bounds_answer(proven),
        "position": None if headline is None else asdict(position(headline, proven)),
        "vocabulary_directions": vocabulary,
        "headroom": _headroom(found.directions, vocabulary),
        "log10_headroom": None if headline is None or vocabulary is None else log10_headroom(headline, vocabulary),
        "warnings": warnings,
    }


def matrix_capacity(dim: int, epsilon: float, *, epsilon_se: float | None, vocabulary: int) -> dict[str, Any]:
    """The same for a measured matrix, whose row stores the vocabulary's directions in a column of their own."""
    answer = capacity_answer(dim, epsilon, epsilon_se=epsilon_se, vocabulary=vocabulary)
    del answer["vocabulary_directions"]
    return answer


def bounds_answer(proven: Brackets) -> dict[str, Any]:
    """The brackets as log₁₀, null where ε = 1 leaves none; which of them it is that exists; the explicit set."""
    forms = proven.forms
    return {
        "random_log10": _finite(proven.random_log10),
        "greedy_log10": _finite(proven.greedy_log10),
        "constructed_log10": proven.constructed_log10,
        "exists_log10": _finite(proven.exists_log10),
        "exists_by": proven.exists_by,
        "upper_log10": _finite(proven.upper_log10),
        "upper_lines_log10": _finite(proven.upper_lines_log10),
        "upper_by": proven.upper_by,
        "construction": None
        if forms is None
        else {"m": forms.m, "h": forms.h, "terms": forms.terms, "coherence": forms.coherence},
    }


def sensitivity_answer(
    dim: int,
    epsilon: float,
    *,
    over: Axis = "epsilon",
    start: float | None = None,
    stop: float | None = None,
    points: int = 101,
    form: Form = "fitted",
) -> dict[str, Any]:
    """The curve around a point, with the elasticities, and what is proven along it."""
    at = sensitivity_at(dim, epsilon, form)
    curve = sensitivity_curve(dim, epsilon, over=over, start=start, stop=stop, points=points, form=form)
    along = [brackets(point.dim, point.epsilon, largest_degree=CURVE_DEGREE) for point in curve]
    return {
        "dim": dim,
        "epsilon": epsilon,
        "form": form,
        "over": over,
        "log10_directions": at.log10_directions,
        "elasticity": {"epsilon": at.epsilon_elasticity, "dim": at.dim_elasticity},
        "points": [
            asdict(point)
            | {
                "exists_log10": _finite(proven.exists_log10),
                "upper_log10": _finite(proven.upper_log10),
                "upper_lines_log10": _finite(proven.upper_lines_log10),
            }
            for point, proven in zip(curve, along, strict=True)
        ],
    }


def design_answer(
    epsilon: float,
    directions: float | None = None,
    *,
    log10_directions: float | None = None,
    multiple: int = 64,
    form: Form = "fitted",
    vocabulary: int | None = None,
) -> dict[str, Any]:
    """The dimension for a target, and what is there at it."""
    found = design_for(epsilon, directions, log10_directions=log10_directions, multiple=multiple, form=form)
    offered = found.log10_directions
    far = extrapolation(found.dim, epsilon, offered)
    return {
        "epsilon": epsilon,
        "directions": directions,
        "log10_directions": log10_directions,
        "form": form,
        "multiple": multiple,
        "smallest_dimension": found.smallest_dim,
        "dimension": found.dim,
        "log10_directions_there": offered,
        "spare_log10": found.spare_log10,
        "bounds": bounds_answer(found.brackets),
        "position": asdict(position(offered, found.brackets)),
        "extrapolated": not far.inside,
        "extrapolation": asdict(far) | {"words": far.words},
        "vocabulary_directions": vocabulary,
        "headroom": _headroom(_count(offered), vocabulary),
        "log10_headroom": None if vocabulary is None else log10_headroom(offered, vocabulary),
    }


def _ours(dim: int, epsilon: float) -> dict[str, Any]:
    found = our_estimate(dim, epsilon)
    return {
        "form": "welch",
        "log10_directions": found.log10_directions,
        "directions": _count(found.log10_directions),
        "log10_se": found.log10_se,
    }


def _reason(found: Capacity) -> str | None:
    return next((caution.message for caution in found.cautions if caution.code == "indeterminate"), None)


def _uncertainty(found: Capacity) -> dict[str, float | None] | None:
    if found.uncertainty is None:
        return None
    errors = asdict(found.uncertainty)
    del errors["interval_log10"]  # stands on its own
    return errors


def _extrapolation(found: Capacity) -> dict[str, Any]:
    return asdict(found.extrapolation) | {"words": found.extrapolation.words}


def _headroom(directions: float | None, vocabulary: int | None) -> float | None:
    return None if directions is None or vocabulary is None else headroom(directions, vocabulary)


def _finite(log10: float) -> float | None:
    return log10 if math.isfinite(log10) else None


def _count(log10: float) -> float | None:
    return 10.0**log10 if log10 < math.log10(1.7e308) else None
