"""What theory says about the toy model's loss, and the design questions that it answers.

    weak superposition    the φn most frequent features are kept, the others ignored: L ≈ ⟨v²⟩ Σ_{i>φn} p_i
    strong superposition  all features are kept and overlap: L falls with the mean squared overlap, about 1/m; for
                          steep frequencies faster, up to m^{−2(α−1)}, since the first m²/2 features can be spread
                          evenly enough for the bias to cancel their overlaps

n features, m hidden dimensions, p_i activation probabilities, α the exponent of p_i ∝ i^{−α}, ⟨v²⟩ = 4/3 for values
from U(0, 2). No torch.

Source: Y. Liu, Z. Liu, J. Gore, arXiv:2505.10465, §3.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from gramian.errors import GeometryError
from gramian.geometry.baselines import welch_floor
from gramian.geometry.frequencies import Vector, steepness, tail_sum

MEAN_SQUARE_VALUE = 4 / 3
STEEP = 1.5  # α at which 2(α − 1) passes 1
CROWDED = 0.9  # share of 1/d that the Welch floor reaches at least where n ≫ d: n ≥ 10 d or so

ToyRegimeName = Literal["weak", "strong", "intermediate"]

STRONG_REPRESENTED = 0.9  # φ at least
WEAK_CROWDING = 1.5  # represented features a dimension at most


def toy_regime(*, features: int, dims: int, represented: int) -> ToyRegimeName:
    """`strong` where at least 90 % of more features than dimensions are represented, `weak` up to 1½ a dimension.

    The toy model's norms have a scale, 1. So fewer represented features than dimensions are weak superposition too,
    which `superposition.superposition_regime` could not tell of a real head.

    Examples
    --------
    >>> toy_regime(features=1000, dims=50, represented=30), toy_regime(features=1000, dims=50, represented=1000)
    ('weak', 'strong')
    """
    if represented <= WEAK_CROWDING * dims:
        return "weak"
    return "strong" if represented >= STRONG_REPRESENTED * features else "intermediate"


# -- loss and its exponent ------------------------------------------------------------------------------------


def ignored_loss(p: Vector, represented: int) -> float:
    """⟨v²⟩ Σ_{i>r} p_i, the loss of a model that keeps the r most frequent features perfectly and no other.

    Examples
    --------
    >>> import numpy as np
    >>> round(ignored_loss(np.array([0.5, 0.25, 0.15]), 1), 6)
    0.533333
    """
    return MEAN_SQUARE_VALUE * tail_sum(p, represented)


class ExponentRange(NamedTuple):
    """The least and the largest width exponent that theory allows."""

    low: float
    high: float


def strong_exponent(alpha: float) -> ExponentRange:
    """α_m in strong superposition: 1 for flat frequencies, between 1 and 2(α − 1) from α = 1½ on.

    Examples
    --------
    >>> strong_exponent(1.0), strong_exponent(2.0)
    (ExponentRange(low=1.0, high=1.0), ExponentRange(low=1.0, high=2.0))
    """
    return ExponentRange(1.0, max(1.0, 2 * (alpha - 1)))


def weak_exponent(alpha: float) -> float | None:
    """α_m = α − 1 of infinitely many features in weak superposition; None where α ≤ 1: no power law.

    Examples
    --------
    >>> weak_exponent(1.5), weak_exponent(0.5)
    (0.5, None)
    """
    return alpha - 1 if alpha > 1 else None


# -- design questions -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LossRatio:
    """What becomes of the loss, without what no width removes, when d changes: at least `low`, at most `high` times."""

    low: float
    high: float


def loss_ratio(p: Vector, before: int, after: int, *, regime: Literal["weak", "strong"]) -> LossRatio:
    """The factor on the reducible loss when the width changes, all else equal.

    In weak superposition with as many features kept as there are dimensions, by the tail sums of these n features;
    one number. In strong superposition m^{−α_m}, with α_m anywhere in `strong_exponent` of the steepness of the
    frequencies over the first d ranks, d the smaller width.

    Parameters
    ----------
    p : (n,) array
        Activation probabilities, falling.
    before, after : int
        Widths, 1 ≤ d < n.
    regime : "weak" or "strong"
        Of superposition.

    Examples
    --------
    >>> from gramian.geometry.frequencies import PowerLaw, activation_probabilities
    >>> p = activation_probabilities(PowerLaw(1.0), 10_000)
    >>> loss_ratio(p, 512, 1024, regime="strong")
    LossRatio(low=0.5, high=0.5)
    >>> round(loss_ratio(p, 512, 1024, regime="weak").high, 3)
    0.767
    """
    for dim in (before, after):
        if not 1 <= dim < len(p):
            raise GeometryError(f"superposition needs fewer dimensions than its {len(p)} features, and one; not {dim}")
    if regime == "weak":
        had = tail_sum(p, before)
        if had == 0:
            raise GeometryError(f"no feature beyond the first {before} is ever active: there is no loss to reduce")
        ratio = tail_sum(p, after) / had
        return LossRatio(ratio, ratio)
    return _power_ratio(before / after, strong_exponent(steepness(p, max(2, min(before, after)))))


def limiting_loss_ratio(
    alpha: float, before: int, after: int, *, regime: Literal["weak", "strong"]
) -> LossRatio | None:
    """`loss_ratio` for a power law over features without end: (d/d')^{α_m}.

    None in weak superposition for α ≤ 1, where nearly all of the loss lies in features that no width reaches.

    Examples
    --------
    >>> limiting_loss_ratio(2.0, 512, 1024, regime="strong")
    LossRatio(low=0.25, high=0.5)
    >>> limiting_loss_ratio(2.0, 512, 1024, regime="weak")
    LossRatio(low=0.5, high=0.5)
    """
    if min(before, after) < 1:
        raise GeometryError("a width is at least one dimension")
    if regime == "strong":
        return _power_ratio(before / after, strong_exponent(alpha))
    exponent = weak_exponent(alpha)
    return None if exponent is None else _power_ratio(before / after, ExponentRange(exponent, exponent))


def _power_ratio(factor: float, exponents: ExponentRange) -> LossRatio:
    bounds = sorted(factor**exponent for exponent in exponents)
    return LossRatio(bounds[0], bounds[1])


@dataclass(frozen=True)
class InverseWidthRegion:
    """Whether loss and overlap should go as 1/d, and why.

    Attributes
    ----------
    holds : bool
        Both of the next two.
    crowded : bool
        Whether n ≫ d: the least mean squared overlap, (n−d)/d(n−1), is within a tenth of 1/d.
    flat : bool
        Whether the steepness is at most 1½.
    floor_times_dim : float
        d times that least mean squared overlap.
    steepness : float
        Of the frequencies over the first d ranks, as an exponent.
    """

    holds: bool
    crowded: bool
    flat: bool
    floor_times_dim: float
    steepness: float


def inverse_width_region(p: Vector, dim: int) -> InverseWidthRegion:
    """Where strong superposition makes loss and overlap fall as 1/d: many more features than dimensions, not too steep.

    The two thresholds are ours. The first keeps the Welch floor within a tenth of 1/d; the second is where theory
    lets the exponent leave 1. That the model is in strong superposition at all is taken for granted.

    Parameters
    ----------
    p : (n,) array
        Activation probabilities, falling.
    dim : int
        Width d ≥ 2. From d = n on nothing has to share a dimension, and the region ends.

    Examples
    --------
    >>> from gramian.geometry.frequencies import PowerLaw, activation_probabilities
    >>> inverse_width_region(activation_probabilities(PowerLaw(1.0), 50_000), 1024).holds
    True
    >>> inverse_width_region(activation_probabilities(PowerLaw(2.0), 50_000), 1024).flat
    False
    """
    slope = steepness(p, min(dim, len(p)))
    floor = dim * welch_floor(len(p), dim)
    crowded, flat = floor >= CROWDED, slope <= STEEP + 1e-9
    return InverseWidthRegion(crowded and flat, crowded, flat, floor, slope)
