"""How far a number lies outside of what the published formula was fitted to.

The fit saw 166 packings (`published_packings`): 32 ≤ d ≤ 4096, 2,000 ≤ k ≤ 32,000, and among the 160 with k > d
0.50 ≤ ε√d ≤ 3.06. Real models have k of 10⁶ to 10¹⁶. `math` only.
"""

import math
from dataclasses import dataclass

from gramian.geometry.arguments import require_dim

FITTED_DIMS = (32, 4096)
FITTED_DIRECTIONS = (2_000, 32_000)
FITTED_EPSILON_ROOT_DIM = (0.5033, 3.0607)  # ε√d of the packings with k > d: from (6000, 4096)… to (32000, 32)


@dataclass(frozen=True)
class Extrapolation:
    """The distance from the fitted region, each part on its own.

    Attributes
    ----------
    directions_decades : float
        Orders of magnitude by which k lies above 32,000, or, negative, below 2,000; 0 between.
    dim_factor : float
        d / 4096 above, d / 32 below; 1 between.
    epsilon_root_dim : float
        ε√d itself: random directions have about 2.
    epsilon_root_dim_factor : float
        By what factor it lies outside of 0.50 … 3.06; 1 inside.
    """

    directions_decades: float
    dim_factor: float
    epsilon_root_dim: float
    epsilon_root_dim_factor: float

    @property
    def inside(self) -> bool:
        """Whether (k, d) lies in the fitted region. ε follows from them, its factor only tells how far."""
        return self.directions_decades == 0 and self.dim_factor == 1

    @property
    def words(self) -> str:
        """The distance in words, for whoever reads the number."""
        if self.inside:
            return "inside the packings that the formula was fitted to"
        said = []
        if self.directions_decades:
            side = "above" if self.directions_decades > 0 else "below"
            said.append(f"{abs(self.directions_decades):.1f} orders of magnitude {side} the 2,000 to 32,000 directions")
        if self.dim_factor > 1:
            said.append(f"{self.dim_factor:.3g} times the largest dimension, 4,096,")
        elif self.dim_factor < 1:
            said.append(f"{self.dim_factor:.3g} of the least dimension, 32,")
        if self.epsilon_root_dim_factor > 1:
            said.append(f"ε√d {self.epsilon_root_dim_factor:.3g} times the largest, 3.06,")
        return f"extrapolated: {' and '.join(said)} of the packings that the formula was fitted to"


def extrapolation(dim: int, epsilon: float, log10_directions: float) -> Extrapolation:
    """How far (k, d, ε) lies outside of the fitted packings.

    Examples
    --------
    >>> far = extrapolation(8192, 0.0645, 11.0)
    >>> round(far.directions_decades, 2), far.dim_factor, round(far.epsilon_root_dim_factor, 2)
    (6.49, 2.0, 1.91)
    >>> extrapolation(1024, 0.04, 3.68).inside
    True
    """
    require_dim(dim)
    fewest, most = (math.log10(k) for k in FITTED_DIRECTIONS)
    decades = max(log10_directions - most, 0.0) + min(log10_directions - fewest, 0.0)
    product = max(epsilon, 0.0) * math.sqrt(dim)
    return Extrapolation(
        directions_decades=decades,
        dim_factor=_factor(dim, *FITTED_DIMS),
        epsilon_root_dim=product,
        epsilon_root_dim_factor=_factor(product, *FITTED_EPSILON_ROOT_DIM),
    )


def _factor(value: float, least: float, most: float) -> float:
    """value / most above, value / least below, 1 between."""
    return value / most if value > most else value / least if value < least else 1.0
