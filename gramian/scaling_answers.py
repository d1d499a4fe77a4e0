"""How fits over widths and questions of width are written down: plain values, JSON without NaN or infinity."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gramian.errors import GeometryError
from gramian.geometry.frequencies import FrequencyLaw, PowerLaw, activation_probabilities
from gramian.geometry.power_law import Estimate
from gramian.geometry.scaling import (
    CHINCHILLA_PARAMETERS_PER_WIDTH,
    ISOTROPIC_SLOPE,
    PUBLISHED_EXPONENT,
    PUBLISHED_EXPONENT_ERROR,
    LossFit,
    LossSeries,
    fit_loss_exponent,
    width_exponent,
)
from gramian.geometry.toy_theory import (
    CROWDED,
    STEEP,
    LossRatio,
    inverse_width_region,
    limiting_loss_ratio,
    loss_ratio,
    strong_exponent,
    weak_exponent,
)

SOURCE = "Y. Liu, Z. Liu, J. Gore, Superposition Yields Robust Neural Scaling, arXiv:2505.10465"
CHINCHILLA_EXPONENT = 0.35  # α_N of the loss in parameters, as [L25 §4] reads it

REDUCIBLE = {
    "code": "reducible_loss_only",
    "message": "this is about the loss above what no width removes, where data, depth and training grow along",
}
TOY = {
    "code": "toy_model",
    "message": "derived for the toy model of superposition and seen there; a language model is like it at best",
}
STATED_FREQUENCIES = {
    "code": "frequencies_assumed",
    "message": "nobody knows the features of a language model; words and tokens fall with an exponent near 1",
}
LIMIT = {
    "code": "without_end",
    "message": "for features without end; give `features` for the sums over a finite number of them",
}


# -- loss against width ---------------------------------------------------------------------------------------


def loss_fit_answer(series: Sequence[LossSeries]) -> dict[str, Any]:
    """L = A/m^α + B_s with what it rests on, beside the exponents that are known."""
    fit = fit_loss_exponent(series)
    return {
        "alpha": estimate_answer(fit.alpha),
        "amplitude": estimate_answer(fit.amplitude),
        "offsets": [{"name": s.name, "points": len(s.dims), **estimate_answer(fit.offsets[s.name])} for s in series],
        "residuals": [
            {"series": s.name, "dim": dim, "loss": loss, "residual": float(residual)}
            for s in series
            for dim, loss, residual in zip(s.dims, s.losses, fit.residuals[s.name], strict=True)
        ],
        "covariance": {
            "parameters": ["alpha", "log_amplitude", *(f"offset:{s.name}" for s in series)],
            "matrix": fit.covariance.tolist(),
        },
        "points_used": sum(len(s.dims) for s in series),
        "degrees_of_freedom": fit.degrees_of_freedom,
        "reduced_chi_square": fit.reduced_chi_square,
        "root_mean_square_residual": _root_mean_square(fit),
        "beside": known_exponents(fit.alpha),
        "warnings": _fit_warnings(fit),
        "source": f"{SOURCE}, §4",
    }


def estimate_answer(found: Estimate) -> dict[str, float | None]:
    """A value, its standard error and 95 % interval; null where they exceed a double."""
    return {name: finite(getattr(found, name)) for name in ("value", "standard_error", "low", "high")}


def known_exponents(alpha: Estimate | None = None) -> list[dict[str, Any]]:
    """Width exponents to compare with; of a fitted one, how many joint standard errors it lies away."""
    chinchilla = width_exponent(CHINCHILLA_EXPONENT)
    known = [
        (
            "strong_superposition",
            1.0,
            0.0,
            "flat frequencies, all features represented: the loss goes as the overlap, 1/m",
        ),
        (
            "published",
            PUBLISHED_EXPONENT,
            PUBLISHED_EXPONENT_ERROR,
            "27 language models on 4 data sets, fitted together",
        ),
        (
            "chinchilla",
            chinchilla,
            None,
            f"{CHINCHILLA_EXPONENT} in parameters, which grow as the width to the {CHINCHILLA_PARAMETERS_PER_WIDTH}",
        ),
    ]
    return [
        {
            "name": name,
            "value": value,
            "standard_error": error,
            "standard_errors_away": None if alpha is None else _distance(alpha, value, error or 0.0),
            "words": words,
        }
        for name, value, error, words in known
    ]


def _distance(found: Estimate, value: float, error: float) -> float | None:
    joint = math.hypot(found.standard_error, error)
    return finite((found.value - value) / joint) if joint else None


def _root_mean_square(fit: LossFit) -> float:
    squares = [float(r @ r) for r in fit.residuals.values()]
    return math.sqrt(sum(squares) / sum(len(r) for r in fit.residuals.values()))


def _fit_warnings(fit: LossFit) -> list[dict[str, str]]:
    found = []
    if not fit.alpha.low > 0:
        found.append(
            {
                "code": "exponent_undetermined",
                "message": "the interval of α reaches 0: these points do not show that width helps; add wider ones",
            }
        )
    below = [name for name, offset in fit.offsets.items() if offset.high < 0]
    if below:
        found.append(
            {
                "code": "negative_offset",
                "message": f"an entropy is not negative, yet these offsets are: {', '.join(below[:5])}",
            }
        )
    if fit.reduced_chi_square is not None and fit.reduced_chi_square > 3:
        found.append(
            {
                "code": "scatter_exceeds_errors",
                "message": f"the scatter is {math.sqrt(fit.reduced_chi_square):.1f} times what the standard errors "
                "say: they are too small, or the law does not hold",
            }
        )
    return found


def width_exponent_answer(parameter_exponent: float, parameters_per_width: float) -> dict[str, Any]:
    """What an exponent in parameters says about width."""
    implied = width_exponent(parameter_exponent, parameters_per_width=parameters_per_width)
    return {
        "parameter_exponent": parameter_exponent,
        "parameters_per_width": parameters_per_width,
        "width_exponent": implied,
        "words": f"if the loss falls as N^-{parameter_exponent:g} and N grows as m^{parameters_per_width:g}, it falls "
        f"as m^-{implied:.3g}; strong superposition with flat frequencies has 1, the published fit "
        f"{PUBLISHED_EXPONENT} ± {PUBLISHED_EXPONENT_ERROR}",
        "beside": known_exponents(),
        "source": f"{SOURCE}, §4",
    }


# -- a change of width ----------------------------------------------------------------------------------------


LawName = Literal["power", "exponential", "linear"]


@dataclass(frozen=True)
class Frequencies:
    """A law as it was asked for, and its name."""

    name: LawName
    law: FrequencyLaw

    def answer(self) -> dict[str, Any]:
        return {"law": self.name, **vars(self.law)}


def loss_ratio_answer(before: int, after: int, frequencies: Frequencies, features: int | None) -> dict[str, Any]:
    """What a change of width leaves of the loss, in each regime and by the published exponent.

    Without `features`, which only a power law can be, in the limit of infinitely many.
    """
    law = frequencies.law
    caveats = [REDUCIBLE, TOY, STATED_FREQUENCIES]
    weak: LossRatio | None
    if features is None:
        if not isinstance(law, PowerLaw):
            raise GeometryError(
                f"how the {frequencies.name} law falls depends on the number of features", hint="give `features`"
            )
        strong = limiting_loss_ratio(law.exponent, before, after, regime="strong")
        weak = limiting_loss_ratio(law.exponent, before, after, regime="weak")
        caveats.append(LIMIT)
    else:
        p = activation_probabilities(law, features)
        strong = loss_ratio(p, before, after, regime="strong")
        weak = loss_ratio(p, before, after, regime="weak")
    factor = before / after
    low, high = sorted(factor ** (PUBLISHED_EXPONENT + sign * 1.96 * PUBLISHED_EXPONENT_ERROR) for sign in (-1.0, 1.0))
    return {
        "from": before,
        "to": after,
        "features": features,
        "frequencies": frequencies.answer(),
        "strong": _ratio_answer(strong, factor, "every feature has a direction, and overlaps make the loss"),
        "weak": _ratio_answer(weak, factor, "the most frequent features are kept, the others make the loss")
        or {
            "low": None,
            "high": None,
            "exponent_low": None,
            "exponent_high": None,
            "words": "no power law: up to an exponent of 1 nearly all of the loss lies in features out of reach",
        },
        "published": {
            "low": low,
            "high": high,
            "exponent_low": PUBLISHED_EXPONENT - 1.96 * PUBLISHED_EXPONENT_ERROR,
            "exponent_high": PUBLISHED_EXPONENT + 1.96 * PUBLISHED_EXPONENT_ERROR,
            "words": f"language models as published, exponent {PUBLISHED_EXPONENT} ± {PUBLISHED_EXPONENT_ERROR}: "
            + _left(low, high),
        },
        "caveats": caveats,
        "source": f"{SOURCE}, §3 and §4",
    }


def _ratio_answer(found: LossRatio | None, factor: float, why: str) -> dict[str, Any] | None:
    if found is None:
        return None
    exponents: Sequence[float | None] = (None, None)
    if factor != 1 and found.low > 0:
        exponents = sorted(math.log(ratio) / math.log(factor) + 0.0 for ratio in (found.low, found.high))
    return {
        "low": found.low,
        "high": found.high,
        "exponent_low": exponents[0],
        "exponent_high": exponents[1],
        "words": f"{why}: {_left(found.low, found.high)}",
    }


def _left(low: float, high: float) -> str:
    shown = f"{low:.3g}" if math.isclose(low, high, rel_tol=1e-6) else f"between {low:.3g} and {high:.3g}"
    return f"{shown} times the reducible loss is left"


# -- where 1/d holds ------------------------------------------------------------------------------------------


def region_answer(features: int, dim: int, frequencies: Frequencies) -> dict[str, Any]:
    """Whether loss and overlap should fall as 1/d, by which conditions, in numbers and words."""
    p = activation_probabilities(frequencies.law, features)
    found = inverse_width_region(p, dim)
    strong = strong_exponent(found.steepness)
    return {
        "features": features,
        "dim": dim,
        "frequencies": frequencies.answer(),
        "holds": found.holds,
        "words": _region_words(features, dim, holds=found.holds, crowded=found.crowded, flat=found.flat),
        "conditions": [
            {
                "name": "crowded",
                "holds": found.crowded,
                "value": found.floor_times_dim,
                "threshold": CROWDED,
                "words": "d times the least possible mean squared overlap, (n−d)/(n−1), at least 0.9: n ≥ 10 d or so",
            },
            {
                "name": "flat",
                "holds": found.flat,
                "value": finite(found.steepness),
                "threshold": STEEP,
                "words": "steepness of the frequencies over the first d ranks, as an exponent, at most 1.5",
            },
        ],
        "expected_exponent": {"low": strong.low, "high": finite(strong.high)},
        "weak_exponent": finite(weak_exponent(found.steepness)),
        "caveats": [
            {
                "code": "strong_superposition_assumed",
                "message": "that all features are represented is taken for granted; an analysis tells (`regime`)",
            },
            {"code": "thresholds", "message": "the paper gives the limits, the two thresholds are Gramian's"},
            TOY,
            STATED_FREQUENCIES,
        ],
        "source": f"{SOURCE}, §3",
    }


def _region_words(features: int, dim: int, *, holds: bool, crowded: bool, flat: bool) -> str:
    if features <= dim:
        return f"no: {features} features fit into {dim} dimensions without overlap, there is no superposition"
    if holds:
        return "yes: many more features than dimensions and frequencies that are flat enough; expect an exponent of 1"
    reasons = []
    if not crowded:
        reasons.append(f"{features} features are too few beside {dim} dimensions: their overlaps can be below 1/d")
    if not flat:
        reasons.append("the frequencies are so steep that the first features can be kept apart: the loss falls faster")
    return f"no: {'; and '.join(reasons)}"


# -- common ---------------------------------------------------------------------------------------------------


def finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def slope_answer(slope: Estimate) -> dict[str, float | None]:
    """A fitted slope of ln m₂ against ln d, and how far from that of isotropic rows it is."""
    return estimate_answer(slope) | {"standard_errors_away": _distance(slope, ISOTROPIC_SLOPE, 0.0)}
