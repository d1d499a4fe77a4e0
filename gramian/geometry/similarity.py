"""Pairwise cosine similarity of a matrix's rows: exact moments over all pairs, without a pair ever being formed.

For unit rows u_i (n of them, in d dimensions) and all ordered pairs i ≠ j,

    mean         μ  = (‖Σ_i u_i‖² − n) / n(n−1)
    mean square  m₂ = (‖UᵀU‖_F² − n) / n(n−1)
    variance     σ² = m₂ − μ²,    ε = μ + 2σ

so a d×d Gram matrix and a row sum hold everything: O(n·d²) time, O(d²) memory, one pass over the rows in any
chunking. The same matrix gives each row's own mean over its n−1 pairs in a second pass, and from those the standard
errors.

Rows of published models can be nearly parallel (ε = 0.999), and then m₂ − μ² cancels. Everything here is therefore
written about a centre c: with w_i = u_i − c, γ_i = c·w_i − mean(c·w) and the level t = ‖c‖² + 2 mean(c·w),

    x_ij = u_i·u_j − t = γ_i + γ_j + w_i·w_j

is small when c is near the mean unit row, and, as Σγ_i = 0, with s = Σw_i, b = Σγ_i w_i, B = Σγ_i², H = Σ w_i w_iᵀ,

    Σ_j x_ij  = nγ_i + s·w_i                                              Σ_ij x_ij  = ‖s‖²
    Σ_j x_ij² = nγ_i² + B + w_iᵀH w_i + 2γ_i s·w_i + 2 b·w_i              Σ_ij x_ij² = 2nB + 4 b·s + ‖H‖_F²

over all j, where the pair of a row with itself contributes x_ii = 1 − t. At c = 0 these are the plain formulas.

Sources: A. Guha, arXiv:2606.02765, §2, for μ, σ and ε; W. Hoeffding, Ann. Math. Statist. 19 (1948), for the errors.
"""

from dataclasses import dataclass
from functools import partial
from math import sqrt

import torch
from torch import Tensor

from gramian.geometry.parts import Tell, parts_of, side_by_side
from gramian.geometry.products import GramSum, QuadraticForm
from gramian.geometry.rows import CensusTaker, RowBlocks, RowCensus, row_blocks, unit_rows

__all__ = [
    "CosineMoments",
    "PairSums",
    "RowBlocks",
    "RowCensus",
    "RowMeanCosines",
    "RowMeans",
    "RunningPairSums",
    "StandardErrors",
    "choose_products",
    "cosine_moments",
    "gram_matrix",
    "recentred",
    "row_blocks",
    "standard_errors",
]

CHEAP_MULTIPLICATIONS = 5e8  # n·d² that two cores do in float64 within some 20 ms
CANCELLATION = 30.0  # m₂/σ² above which centring is worth a pass: float32 products hold m₂ to a few 1e-8
RESOLUTION = 1e-7  # a spread of cosines below this is rounding of the unit rows, not a property of the matrix


@dataclass(frozen=True)
class CosineMoments:
    """Moments of the cosine similarity over all pairs of distinct rows.

    Attributes
    ----------
    pairs : int
        Unordered pairs, n(n−1)/2.
    mean, std, mean_square : float
        μ, σ (of the population of pairs) and m₂ = σ² + μ².
    epsilon : float
        ε = μ + 2σ, the deviation from orthogonality that all but a few per cent of the pairs stay within.
    """

    pairs: int
    mean: float
    std: float
    mean_square: float
    epsilon: float


@dataclass(frozen=True)
class StandardErrors:
    """Standard errors of the moments when the rows are regarded as a sample; None where undefined."""

    mean: float | None
    std: float | None
    epsilon: float | None


@dataclass(frozen=True, eq=False)
class RowMeans:
    """Each row's mean cosine and mean squared cosine with all other rows, less a common level.

    Attributes
    ----------
    level : float
        t, subtracted from every cosine: x_ij = u_i·u_j − t.
    mean, square : (n,) float64 tensors
        Means over j ≠ i of x_ij and of x_ij².
    """

    level: float
    mean: Tensor
    square: Tensor

    @property
    def cosine(self) -> Tensor:
        """Mean cosine with the other rows, (n,)."""
        return self.level + self.mean

    @property
    def square_cosine(self) -> Tensor:
        """Mean squared cosine with the other rows, (n,)."""
        return self.square + 2 * self.level * self.mean + self.level**2


def choose_products(rows: int, dim: int) -> torch.dtype:
    """Precision of the matrix products: float64 while it costs next to nothing, else float32.

    Examples
    --------
    >>> choose_products(1000, 64), choose_products(30522, 384)
    (torch.float64, torch.float32)
    """
    return torch.float64 if rows * dim**2 <= CHEAP_MULTIPLICATIONS else torch.float32


def cosine_moments(blocks: RowBlocks, *, dim: int, products: torch.dtype = torch.float32) -> CosineMoments:
    """Mean, standard deviation and ε = μ + 2σ of the cosine over all pairs of rows; exact, see the module.

    Parameters
    ----------
    blocks : RowBlocks
        The matrix, (n, d). Rows that are zero or not finite are left out.
    dim : int
        Number of columns d.
    products : torch.dtype
        Precision of the products within a chunk, float32 or float64; sums are kept in float64 either way.

    Raises
    ------
    TooFewRows
        With fewer than two usable rows.
    GeometryError
        For a block that does not have `dim` columns.

    Examples
    --------
    Three directions at 120° in the plane:

    >>> W = torch.tensor([[1.0, 0.0], [-0.5, 0.75**0.5], [-0.5, -(0.75**0.5)]])
    >>> moments = cosine_moments([W], dim=2)
    >>> moments.pairs, round(moments.mean, 6), round(moments.mean_square, 6)
    (3, -0.5, 0.25)
    """
    running, taker = RunningPairSums(dim, products), CensusTaker()
    for rows in unit_rows(blocks, dim=dim, dtype=products):
        taker.add(rows)
        running.add(rows.unit)
    taker.census().require(2)
    return recentred(running.sums(), blocks).moments()


def gram_matrix(blocks: RowBlocks, *, dim: int, products: torch.dtype = torch.float32) -> Tensor:
    """UᵀU = Σ u_i u_iᵀ of the unit rows, (d, d) float64.

    Examples
    --------
    >>> gram_matrix([torch.tensor([[2.0, 0.0], [0.0, 5.0], [0.0, -1.0]])], dim=2).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    running = RunningPairSums(dim, products)
    for rows in unit_rows(blocks, dim=dim, dtype=products):
        running.add(rows.unit)
    return running.sums().gram()


class RunningPairSums:
    """What has to be summed over the rows to know every moment of their pairwise cosines.

    Parameters
    ----------
    dim : int
        Number of columns d.
    products : torch.dtype
        Precision of the products within a chunk.
    centre : (d,) float64 tensor, optional
        c; the origin when not given. Every choice gives the same moments, up to rounding.
    """

    def __init__(self, dim: int, products: torch.dtype, *, centre: Tensor | None = None) -> None:
        self._products, self._centre = products, centre
        self._count = 0
        self._H = GramSum(dim)
        self._w = self._along_w = torch.zeros(dim, dtype=torch.float64)
        self._along = self._along_square = 0.0

    def add(self, unit: Tensor) -> None:
        """Take in the unit rows of a chunk, (m, d); in float64 where there is a centre."""
        self._count += len(unit)
        W = offset(unit, self._centre, self._products)  # (m, d)
        self._H.add(W)
        self._w = W.sum(dim=0).to(torch.float64) + self._w.to(W.device)
        if self._centre is not None:
            along = component(W, self._centre)  # (m,)
            self._along += float(along.sum())
            self._along_square += float(along.square().sum())
            self._along_w = self._along_w.to(W.device) + (along.to(W.dtype) @ W).to(torch.float64)

    def merge(self, other: "RunningPairSums") -> None:
        """Add the sums over other rows, about the same centre."""
        self._count += other._count
        self._H.merge(other._H)
        self._w = self._w + other._w.to(self._w.device)
        self._along += other._along
        self._along_square += other._along_square
        self._along_w = self._along_w + other._along_w.to(self._along_w.device)

    def sums(self) -> "PairSums":
        """The sums about their own mean; call once, after the last chunk."""
        n, H = self._count, self._H.matrix()
        mean_along = self._along / n if n else 0.0
        s = self._w.to(H.device)
        return PairSums(
            count=n,
            products=self._products,
            centre=self._centre,
            mean_along=mean_along,
            s=s,
            b=self._along_w.to(H.device) - mean_along * s,
            B=self._along_square - n * mean_along**2,
            H=H,
        )


@dataclass(frozen=True, eq=False)
class PairSums:
    """The sums n, s, b, B and H of the module's formulas, and the centre they were taken about."""

    count: int
    products: torch.dtype
    centre: Tensor | None  # c, (d,); None is the origin
    mean_along: float  # mean of c·w
    s: Tensor  # Σw_i, (d,)
    b: Tensor  # Σγ_i w_i, (d,)
    B: float  # Σγ_i²
    H: Tensor  # Σ w_i w_iᵀ, (d, d)

    @property
    def level(self) -> float:
        """t = ‖c‖² + 2 mean(c·w), close to the mean cosine when c is close to the mean unit row."""
        return 2 * self.mean_along + (0.0 if self.centre is None else float(self.centre @ self.centre))

    @property
    def mean_unit_row(self) -> Tensor:
        """mean(u_i), (d,)."""
        mean_w = self.s / self.count
        return mean_w if self.centre is None else self.centre + mean_w

    def excess(self) -> tuple[float, float]:
        """Means over the pairs i ≠ j of x_ij and of x_ij²."""
        n, own = self.count, 1 - self.level
        total = float(self.s @ self.s)
        gram_square = float(torch.dot(self.H.ravel(), self.H.ravel()))
        total_square = 2 * n * self.B + 4 * float(self.b @ self.s) + gram_square
        ordered_pairs = n * (n - 1)
        return (total - n * own) / ordered_pairs, (total_square - n * own**2) / ordered_pairs

    def moments(self) -> CosineMoments:
        """The moments over all pairs of at least two rows."""
        mean_x, square_x = self.excess()
        mean = self.level + mean_x
        std = sqrt(max(square_x - mean_x**2, 0.0))  # rounding can take a vanishing variance below zero
        return CosineMoments(
            pairs=self.count * (self.count - 1) // 2,
            mean=mean,
            std=std,
            mean_square=std**2 + mean**2,
            epsilon=mean + 2 * std,
        )

    def gram(self) -> Tensor:
        """UᵀU = n c cᵀ + c sᵀ + s cᵀ + H, (d, d) float64."""
        if self.centre is None:
            return self.H
        c, s = self.centre, self.s
        return self.count * torch.outer(c, c) + torch.outer(c, s) + torch.outer(s, c) + self.H

    def cancels(self) -> bool:
        """Whether σ² = mean(x²) − mean(x)² loses more digits than the products have to spare."""
        mean_x, square_x = self.excess()
        return self.products != torch.float64 and square_x > CANCELLATION * max(square_x - mean_x**2, 0.0)


def recentred(sums: PairSums, blocks: RowBlocks, *, tell: Tell = lambda _: None) -> PairSums:
    """Sums about the mean unit row, by a further pass, where rows so nearly parallel cost the digits of σ.

    `tell` is told of the rows done in that pass.
    """
    if not sums.cancels():
        return sums
    centre = sums.mean_unit_row

    def about_centre(part: RowBlocks, tell: Tell) -> RunningPairSums:
        running = RunningPairSums(len(centre), sums.products, centre=centre)
        for chunk in unit_rows(part, dim=len(centre), dtype=torch.float64):
            running.add(chunk.unit)
            tell(chunk.rows)
        return running

    running, *others = side_by_side([partial(about_centre, part) for part in parts_of(blocks)], tell=tell)
    for other in others:
        running.merge(other)
    return running.sums()


def offset(unit: Tensor, centre: Tensor | None, dtype: torch.dtype) -> Tensor:
    """w_i = u_i − c in `dtype`, subtracted in the precision of the unit rows; (m, d)."""
    return (unit if centre is None else unit - centre).to(dtype)


def component(W: Tensor, centre: Tensor | None) -> Tensor:
    """c·w_i, (m,) float64."""
    if centre is None:
        return torch.zeros(len(W), dtype=torch.float64, device=W.device)
    return W.to(torch.float64) @ centre


class RowMeanCosines:
    """The second pass: what each row contributes to the sums of the first, as means over its n−1 pairs.

    Parameters
    ----------
    sums : PairSums
        Of all rows, at least two.
    """

    def __init__(self, sums: PairSums) -> None:
        self._sums = sums
        self._form = QuadraticForm(sums.H, sums.products)
        self._vectors = torch.stack([sums.s, sums.b], dim=1).to(sums.products)  # (d, 2)

    @property
    def unit_dtype(self) -> torch.dtype:
        """What unit rows must come in: float64 where a centre is subtracted."""
        return self._sums.products if self._sums.centre is None else torch.float64

    def __call__(self, unit: Tensor) -> RowMeans:
        """Means for the unit rows of a chunk, (m, d)."""
        sums, n = self._sums, self._sums.count
        W = offset(unit, sums.centre, sums.products)  # (m, d)
        s_w, b_w = (W @ self._vectors).to(torch.float64).T  # (m,) each
        gamma = component(W, sums.centre) - sums.mean_along  # (m,)

        own = 1 - sums.level
        total = n * gamma + s_w
        total_square = n * gamma**2 + sums.B + self._form(W) + 2 * gamma * s_w + 2 * b_w
        return RowMeans(sums.level, (total - own) / (n - 1), (total_square - own**2) / (n - 1))


def standard_errors(moments: CosineMoments, means: RowMeans) -> StandardErrors:
    """Standard errors of μ, σ and ε: the rows are the sample, pairs that share one are not independent.

    The first-order projection of a mean over pairs is twice its mean over the pairs of one row; the delta method
    carries it to σ and ε. With p_i and q_i row i's mean cosine and mean squared cosine, the influence of row i is

        on μ: 2(p_i − μ)    on σ: ((q_i − m₂) − 2μ(p_i − μ)) / σ    on ε: that of μ plus twice that of σ

    and a standard error is the standard deviation (n−1 in the denominator) of the influences over √n. A common
    level leaves all three unchanged, which is why they are taken from x_ij.

    Parameters
    ----------
    moments : CosineMoments
        Of all pairs.
    means : RowMeans
        Of all n rows.

    Returns
    -------
    StandardErrors
        None with fewer than three rows; for σ and ε also None where all cosines are equal.
    """
    n = len(means.mean)
    if n < 3:
        return StandardErrors(None, None, None)

    def error(influence: Tensor) -> float:
        return float(influence.std(correction=1)) / sqrt(n)

    mean_x = moments.mean - means.level
    deviation = means.mean - mean_x  # p_i − μ
    if moments.std < RESOLUTION:
        return StandardErrors(error(2 * deviation), None, None)
    on_std = ((means.square - moments.std**2 - mean_x**2) - 2 * mean_x * deviation) / moments.std
    return StandardErrors(error(2 * deviation), error(on_std), error(2 * deviation + 2 * on_std))
