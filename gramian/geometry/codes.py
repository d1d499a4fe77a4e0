"""Explicit sets of lines with small largest |cosine|: ±1 vectors (−1)^{Q(v) + b·v} from families of quadratic forms.

Over v ∈ F₂^m, a vector has 2^m entries ±1; b runs through all linear forms, so each quadratic form Q brings an
orthogonal basis. Two vectors of different bases have inner product Σ_v (−1)^{(Q+Q')(v) + (b+b')·v}, an entry of the
Walsh–Hadamard transform of the difference of the forms: 0 or ±2^{m − rank/2}. What is wanted are many forms whose
differences all have high rank. With n = ⌊m/2⌋ and r = 1 … n terms, any two of the lines here have

    |cos| ≤ 2^{−h},  h = n − r + 1

m odd, on x ∈ GF(2^m) (dual BCH codes; r = 1 are the Gold sequences): 2^m · 2^{mr} lines from

    Q_a(x) = Σ_{i=1}^{r} Tr(a_i x^{2^i+1})

m even, on (x, y) ∈ GF(2^{m−1}) × F₂ (Kerdock at r = 1, else Delsarte–Goethals): 2^m · 2^{(m−1)r} lines from

    Q_a(x, y) = Σ_{j=1}^{n−1} Tr((a_1 x)^{2^j+1}) + y·Tr(a_1 x) + Σ_{i=1}^{r−1} Tr(a_{i+1} x^{2^i+1})

That the bound holds is checked by the transform for the set at hand (`largest_cosine`), never over all pairs. Scaling
x ↦ cx maps the family of forms to itself and moves lines to lines, and in GF(2^odd) every element is a power
c^{2^i+1}; so it is enough to look at differences whose first non-zero coefficient is 1.

Zeros appended to the vectors keep their cosines in any larger dimension.

Sources: R. Gold, IEEE Trans. IT 13 (1967); A. M. Kerdock, Inform. Control 20 (1972); P. Delsarte and J.-M. Goethals,
J. Combin. Theory A 19 (1975); F. J. MacWilliams and N. J. A. Sloane, The Theory of Error-Correcting Codes, ch. 15.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, product

import numpy as np
from numpy.typing import NDArray

from gramian.errors import GeometryError
from gramian.geometry.binary_field import LARGEST_DEGREE, BinaryField, Elements

Signs = NDArray[np.int8]

CHUNK = 1 << 20  # numbers transformed at a time


@dataclass(frozen=True)
class LineSet:
    """Lines spanned by ±1 vectors of 2^m entries, in any dimension from there on.

    Attributes
    ----------
    dim : int
        d ≥ 2^m; entries beyond 2^m are 0.
    m, terms : int
        m ≥ 2 and r, 1 ≤ r ≤ ⌊m/2⌋, of the module's text.

    Examples
    --------
    The Nordstrom–Robinson code as 128 lines in 16 dimensions:

    >>> lines = LineSet(dim=16, m=4, terms=1)
    >>> lines.count, lines.epsilon, lines.largest_cosine()
    (128, 0.25, 0.25)
    """

    dim: int
    m: int
    terms: int

    def __post_init__(self) -> None:
        if not (2 <= self.m <= LARGEST_DEGREE and 1 <= self.terms <= self.m // 2 and self.dim >= 1 << self.m):
            raise GeometryError(
                f"line sets have 2 ≤ m ≤ {LARGEST_DEGREE}, 1 ≤ r ≤ m/2 and dimension at least 2^m; "
                f"these are m = {self.m}, r = {self.terms} in {self.dim} dimensions"
            )

    @property
    def count(self) -> int:
        """How many lines there are."""
        return 1 << (self.m + self._field_degree * self.terms)

    @property
    def epsilon(self) -> float:
        """2^{−h}, which no |cosine| exceeds."""
        return 2.0 ** -(self.m // 2 - self.terms + 1)

    @property
    def transforms(self) -> int:
        """How many Walsh–Hadamard transforms of 2^m numbers `largest_cosine` takes."""
        N, r = 1 << self._field_degree, self.terms
        if self.m % 2:
            return int((N**r - 1) // (N - 1))
        return int((N - 1) * N ** (r - 1) + (N ** (r - 1) - 1) // (N - 1))

    def rows(self, start: int, stop: int) -> Signs:
        """Lines number `start` to `stop`: (stop − start, d), entries ±1, or 0 beyond 2^m. Norm √2^m."""
        size = 1 << self.m
        out = np.zeros((stop - start, self.dim), np.int8)
        form = start // size
        while form * size < stop:
            first, last = max(start, form * size), min(stop, (form + 1) * size)
            linear = np.arange(first, last)[:, None] % size & np.arange(size)  # (b, 2^m): the bits of b·v
            exponent = np.bitwise_count(linear) + self._form(form)
            out[first - start : last - start, :size] = 1 - 2 * (exponent & 1).astype(np.int8)
            form += 1
        return out

    def blocks(self, *, block_rows: int, limit: int | None = None) -> Iterator[Signs]:
        """The first `limit` lines, or all of them, as blocks of rows (b, d)."""
        stop = self.count if limit is None else min(limit, self.count)
        for start in range(0, stop, block_rows):
            yield self.rows(start, min(start + block_rows, stop))

    def largest_cosine(self) -> float:
        """The largest |cosine| of two lines of the set, exactly, by Walsh–Hadamard transforms of all differences."""
        size = 1 << self.m
        most = 0
        for forms in _batches(self._differences(), max(1, CHUNK // size)):
            most = max(most, int(np.abs(walsh_hadamard(1 - 2 * np.stack(forms).astype(np.int32))).max()))
        return most / size

    # -- forms, each by its values 0 and 1 at the 2^m points; v = x, or x + 2^{m−1}·y -----------------------------

    @property
    def _field_degree(self) -> int:
        return self.m if self.m % 2 else self.m - 1

    @cached_property
    def _field(self) -> BinaryField:
        return BinaryField(self._field_degree)

    def _form(self, number: int) -> Elements:
        """Q of the family, its coefficients the digits of its number to base 2^degree."""
        digits = tuple(number >> (self._field_degree * place) & (self._field.order - 1) for place in range(self.terms))
        if self.m % 2:
            return self._sum_of_traces(digits)
        return self._kerdock(digits[0]) ^ self._sum_of_traces(digits[1:])

    def _differences(self) -> Iterator[Elements]:
        """Q + Q' of all pairs of forms, one of each class under scaling."""
        if self.m % 2:
            yield from map(self._sum_of_traces, self._up_to_scale(self.terms))
            return
        one = self._kerdock(1)
        for other in chain([0], range(2, self._field.order)):
            apart = one ^ self._kerdock(other)
            for rest in product(range(self._field.order), repeat=self.terms - 1):
                yield apart ^ self._sum_of_traces(rest)
        yield from map(self._sum_of_traces, self._up_to_scale(self.terms - 1))

    def _up_to_scale(self, length: int) -> Iterator[tuple[int, ...]]:
        """Coefficients of which the first that is not 0 is 1."""
        for zeros in range(length):
            for rest in product(range(self._field.order), repeat=length - zeros - 1):
                yield (0,) * zeros + (1,) + rest

    def _sum_of_traces(self, coefficients: tuple[int, ...]) -> Elements:
        """Σ_i Tr(a_i x^{2^i+1}), i = 1, 2, …; the same for y = 0 and 1 where there is a y."""
        field = self._field
        total = np.zeros(field.order, np.int64)
        for a, power in zip(coefficients, self._odd_powers, strict=False):
            total ^= field.multiply(np.array(a), power)
        return np.resize(field.trace(total), 1 << self.m)

    def _kerdock(self, a: int) -> Elements:
        """Σ_{j=1}^{n−1} Tr((ax)^{2^j+1}) + y·Tr(ax), m even."""
        field = self._field
        scaled = field.multiply(np.array(a), field.elements)
        total = np.zeros(field.order, np.int64)
        for j in range(1, self.m // 2):
            total ^= field.power(scaled, 2**j + 1)
        at_0 = field.trace(total)
        return np.concatenate([at_0, at_0 ^ field.trace(scaled)])

    @cached_property
    def _odd_powers(self) -> list[Elements]:
        """x³, x⁵, x⁹, … of all elements."""
        return [self._field.power(self._field.elements, 2**i + 1) for i in range(1, self.terms + 1)]


def lines(d: int, epsilon: float) -> LineSet:
    """The largest of the sets here that fits into d dimensions with no |cosine| above ε.

    Parameters
    ----------
    d : int
        Dimension, at least 4.
    epsilon : float
        ε.

    Raises
    ------
    GeometryError
        Where no set has so small an ε: below 1/√d or so only orthonormal bases are left.

    Examples
    --------
    >>> found = lines(2048, 0.0645)
    >>> found.m, found.terms, found.count, found.epsilon
    (11, 2, 8589934592, 0.0625)
    """
    fitting = [
        LineSet(dim=d, m=m, terms=terms)
        for m in range(2, min(d.bit_length() - 1, LARGEST_DEGREE) + 1)
        for terms in range(1, m // 2 + 1)
    ]
    close = [found for found in fitting if found.epsilon <= epsilon]
    if not close:
        least = min((found.epsilon for found in fitting), default=None)
        known = "from 4 dimensions on" if least is None else f"with epsilon {least:g} or more in {d} dimensions"
        raise GeometryError(
            f"explicit line sets are known here {known}, not with {epsilon:g}",
            hint="an orthonormal basis has d lines at epsilon 0; ask for a larger epsilon or more dimensions",
        )
    return max(close, key=lambda found: found.count)


def walsh_hadamard(values: NDArray[np.int32]) -> NDArray[np.int32]:
    """Σ_v (−1)^{b·v} f(v) for every b, of each row: (rows, 2^m) in, the same shape out.

    Examples
    --------
    >>> walsh_hadamard(np.array([[1, 1, 1, -1]], np.int32)).tolist()
    [[2, 2, 2, -2]]
    """
    rows, size = values.shape
    half = 1
    while half < size:
        pairs = values.reshape(rows, size // (2 * half), 2, half)
        values = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2)
        half *= 2
    return values.reshape(rows, size)


def _batches(forms: Iterator[Elements], at_once: int) -> Iterator[list[Elements]]:
    while batch := list(islice(forms, at_once)):
        yield batch
