"""How a sweep of toy models is written down: cells, and series of them that differ in width only. No torch."""

from collections.abc import Mapping, Sequence
from typing import Any

from gramian.errors import GeometryError
from gramian.geometry.frequencies import ExponentialLaw, FrequencyLaw, LinearLaw, ListedLaw, PowerLaw
from gramian.geometry.toy_series import SeriesPoint, ToySeries, summarise_series
from gramian.geometry.toy_study import ToyCell
from gramian.scaling_answers import estimate_answer, finite

NAMES: Mapping[type[FrequencyLaw], str] = {
    PowerLaw: "power",
    ExponentialLaw: "exponential",
    LinearLaw: "linear",
    ListedLaw: "list",
}


def setting_answer(cell: ToyCell) -> dict[str, Any]:
    """What a cell has in common with those of its series."""
    return {
        "features": cell.features,
        "weight_decay": cell.weight_decay,
        "law": NAMES[type(cell.law)],
        "exponent": cell.law.exponent if isinstance(cell.law, PowerLaw) else None,
        "scale": cell.law.scale if isinstance(cell.law, ExponentialLaw) else None,
        "density": cell.density,
        "bias_std": cell.plan.bias_std,
    }


def sweep_answer(cells: Sequence[ToyCell], results: Mapping[int, dict[str, Any]]) -> dict[str, Any]:
    """All cells with what they showed, and the exponents of their series beside theory."""
    groups: dict[Any, list[int]] = {}
    for number, cell in enumerate(cells):
        groups.setdefault((cell.features, cell.weight_decay, cell.law, cell.density, cell.plan), []).append(number)
    return {
        "cells": [results[number] for number in range(len(cells))],
        "series": [
            _series([cells[number] for number in numbers], [results[number] for number in numbers])
            for numbers in groups.values()
        ],
    }


def _series(cells: Sequence[ToyCell], results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    first = cells[0]
    answer = setting_answer(first) | {
        "dims": sorted({cell.dims for cell in cells}),
        "seeds": sorted({cell.seed for cell in cells}),
    }
    points = [SeriesPoint(result["dim"], result["loss"], result["represented"]) for result in results]
    try:
        found = summarise_series(points, first.probabilities())
    except GeometryError as error:
        return answer | {"alpha": None, "reason": error.message, "regime": None, "theory": None}
    return answer | {
        "alpha": estimate_answer(found.exponent),
        "reason": None,
        "regime": found.regime,
        "theory": _theory(points, found),
    }


def _theory(points: Sequence[SeriesPoint], found: ToySeries) -> dict[str, Any]:
    low, high = found.strong_exponent
    return {
        "weak": {
            "alpha": finite(found.ignored_exponent),
            "alpha_without_end": finite(found.weak_exponent),
            "losses": [
                {"dim": point.dims, "loss": point.loss, "predicted": predicted}
                for point, predicted in zip(points, found.ignored_losses, strict=True)
            ],
        },
        "strong": {"alpha_low": low, "alpha_high": finite(high)},
    }
