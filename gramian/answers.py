"""How a capacity is written down, in results and calculators alike: plain values, JSON without NaN."""

import math
from typing import Any

from gramian.geometry.capacity import FORMS, Capacity, capacity, headroom, log10_directions


def capacity_answer(dim: int, epsilon: float, *, epsilon_se: float | None = None) -> dict[str, Any]:
    """The estimate, every form as it stands (not lifted to d), and the reasons to read them with care."""
    found = capacity(dim, epsilon, epsilon_se=epsilon_se)
    forms = {form: log10_directions(dim, min(epsilon, 1.0), form) for form in FORMS}
    return {
        "status": found.status,
        "reason": _reason(found),
        "directions": found.directions,
        "log10_directions": found.log10_directions,
        "interval_log10": found.interval_log10,
        "extrapolated": found.extrapolated,
        "forms": {form: _count(log10) for form, log10 in forms.items()},
        "forms_log10": forms,
        "forms_below_dim": list(found.floored),
        "warnings": [caution._asdict() for caution in found.cautions],
    }


def matrix_capacity(dim: int, epsilon: float, *, epsilon_se: float | None, vocabulary: int) -> dict[str, Any]:
    """The same for a measured matrix, with what is left of it beside the vocabulary's own directions."""
    answer = capacity_answer(dim, epsilon, epsilon_se=epsilon_se)
    directions = answer["directions"]
    return answer | {"headroom": None if directions is None else headroom(directions, vocabulary)}


def _reason(found: Capacity) -> str | None:
    return next((caution.message for caution in found.cautions if caution.code == "indeterminate"), None)


def _count(log10: float) -> float | None:
    return 10.0**log10 if log10 < math.log10(1.7e308) else None
