"""Answers about capacity, of the calculators and inside of results."""

from typing import Literal

from pydantic import BaseModel, Field

from gramian.geometry.capacity import Form
from service.schemas.common import Caveat


class Construction(BaseModel):
    """An explicit set of lines: ±1 vectors of quadratic forms on GF(2)^m, whose differences have rank 2h at least."""

    m: int = Field(description="the vectors have length 2^m")
    h: int = Field(description="largest |cos| is 2^-h")
    terms: int = Field(description="coefficients in GF(2^m) of a form, for odd m")
    coherence: float = Field(description="2^-h")


class Bounds(BaseModel):
    """What is proven about the number of directions within ε of orthogonality, as log10; null where ε = 1 leaves no
    bound."""

    random_log10: float | None = Field(description="random directions have an even chance of no pair above ε")
    greedy_log10: float | None = Field(description="exist, chosen greedily (Gilbert–Varshamov)")
    constructed_log10: float = Field(description="can be written down: quadratic forms and the coordinate axes")
    exists_log10: float | None = Field(description="certainly exist: the largest of the d axes, greedy, constructed")
    exists_by: Literal["basis", "greedy", "constructed"]
    upper_log10: float | None = Field(description="at most: half of Levenshtein's bound for spherical codes")
    upper_lines_log10: float | None = Field(description="at most, sharper: Levenshtein's bound for lines")
    upper_by: Literal["orthogonal", "levenshtein", "next_degree", "caps", "unbounded"]
    construction: Construction | None = Field(description="the set that `constructed` has beside the axes")


class Position(BaseModel):
    """Where the estimate lies among the bounds."""

    place: Literal["below_random", "below_existing", "open", "above_upper", "unbounded"]
    words: str


class Uncertainty(BaseModel):
    """Standard errors of log10 of the directions by the fitted form."""

    epsilon_log10_se: float | None = Field(description="from the standard error of ε")
    constants_log10_se: float = Field(description="from the four constants; errors of one dimension taken as one")
    constants_log10_se_if_independent: float = Field(description="the same if packings erred independently: too small")
    log10_se: float = Field(description="both sources")


class Extrapolation(BaseModel):
    """How far the number lies outside of the packings that the formula was fitted to."""

    directions_decades: float = Field(description="orders of magnitude above 32,000 (or, negative, below 2,000)")
    dim_factor: float = Field(description="d / 4096 above, d / 32 below, 1 between")
    epsilon_root_dim: float = Field(description="ε√d; random directions have 2")
    epsilon_root_dim_factor: float = Field(description="by what factor that lies outside of the fitted 0.50 to 3.06")
    words: str


class Elasticity(BaseModel):
    """Per cent more directions for one per cent more of each."""

    epsilon: float
    dim: float


class OurEstimate(BaseModel):
    """Directions reachable by descent, by our own packings, which are closer than the published (docs/packings.md)."""

    form: Literal["welch"]
    log10_directions: float
    directions: float | None
    log10_se: float = Field(description="from the two constants alone, within the form")


class Room(BaseModel):
    """What the vocabulary leaves of the estimate."""

    vocabulary_directions: int | None = Field(None, description="rows where tied, twice as many where untied")
    headroom: float | None = Field(None, description="directions left; negative where the vocabulary exceeds them")
    log10_headroom: float | None = Field(None, description="its log10, however large; null where nothing is left")


class CapacityResult(Room):
    """Directions reachable by descent, by the published fit: an estimate, not an upper bound.

    What later versions added is null in analyses made before.
    """

    status: Literal["estimated", "indeterminate"]
    reason: str | None = Field(None, description="why there is no headline number")
    directions: float | None
    log10_directions: float | None
    interval_log10: tuple[float, float] | None = Field(
        None, description="95 %, from the constants of the fit and, where known, the standard error of ε"
    )
    uncertainty: Uncertainty | None = None
    extrapolated: bool
    extrapolation: Extrapolation | None = None
    elasticity: Elasticity | None = None
    forms: dict[str, float | None] = Field(description="directions by form; null where the count exceeds a double")
    forms_log10: dict[str, float]
    forms_below_dim: list[str] = Field(description="forms that fall below the d directions that exist in any case")
    ours: OurEstimate | None = Field(None, description="our own fit beside the published one; an estimate as well")
    bounds: Bounds | None = None
    position: Position | None = Field(None, description="where the estimate lies among the bounds, in words")
    warnings: list[Caveat]


class CapacityAnswer(CapacityResult):
    """The same, computed now: nothing that analyses of older versions lack is missing."""

    dim: int
    epsilon: float
    ours: OurEstimate
    bounds: Bounds
    extrapolation: Extrapolation
    elasticity: Elasticity


class EpsilonAnswer(BaseModel):
    dim: int
    directions: float | None
    log10_directions: float | None
    form: Form
    epsilon: float


class DimensionAnswer(BaseModel):
    epsilon: float
    directions: float | None
    log10_directions: float | None
    form: Form
    dimension: int
    log10_directions_there: float = Field(description="log10 of the directions that this dimension offers by the form")


class DesignAnswer(Room):
    """A dimension for a wanted number of directions, and what is there at it."""

    epsilon: float
    directions: float | None
    log10_directions: float | None
    form: Form
    multiple: int
    smallest_dimension: int = Field(description="the smallest that offers the directions")
    dimension: int = Field(description="the next multiple; what follows is at this dimension")
    log10_directions_there: float
    spare_log10: float = Field(description="orders of magnitude more than asked for")
    bounds: Bounds
    position: Position
    extrapolated: bool
    extrapolation: Extrapolation


class CurvePoint(BaseModel):
    dim: int
    epsilon: float
    log10_directions: float = Field(description="by the form, not below log10 d")
    epsilon_elasticity: float
    dim_elasticity: float
    exists_log10: float | None
    upper_log10: float | None
    upper_lines_log10: float | None


class SensitivityAnswer(BaseModel):
    """The number of directions as ε, or d, runs; the elasticities are at the point asked for."""

    dim: int
    epsilon: float
    form: Form
    over: Literal["epsilon", "dim"]
    log10_directions: float
    elasticity: Elasticity
    points: list[CurvePoint]


class MatrixCapacity(CapacityResult):
    vocabulary_directions: int
