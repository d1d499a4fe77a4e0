"""The field GF(2^m) on arrays of integers: bit i of an element is its coefficient of x^i."""

import numpy as np
from numpy.typing import NDArray

from gramian.errors import GeometryError

Elements = NDArray[np.int64]

LARGEST_DEGREE = 20  # tables of a million entries


class BinaryField:
    """GF(2^m) by tables of powers and logarithms of a generator.

    Parameters
    ----------
    degree : int
        m, 1 ≤ m ≤ 20.

    Examples
    --------
    >>> field = BinaryField(3)
    >>> field.multiply(np.array([2, 5]), np.array([4, 0])).tolist()  # x · x² = x³ = x + 1
    [3, 0]
    """

    def __init__(self, degree: int) -> None:
        if not 1 <= degree <= LARGEST_DEGREE:
            raise GeometryError(f"fields GF(2^m) are made for 1 ≤ m ≤ {LARGEST_DEGREE}, not m = {degree}")
        self.degree, self.order = degree, 1 << degree
        self._powers = _powers_of_x(degree)  # of the generator, 2^m − 1 of them
        self._logs = np.zeros(self.order, np.int64)
        self._logs[self._powers] = np.arange(self.order - 1)
        self._trace = self._traces()

    @property
    def elements(self) -> Elements:
        """All of them, 0 first."""
        return np.arange(self.order)

    def multiply(self, a: Elements, b: Elements) -> Elements:
        """a·b, element by element."""
        product = self._powers[(self._logs[a] + self._logs[b]) % (self.order - 1)]
        return np.where((a == 0) | (b == 0), 0, product)

    def power(self, a: Elements, exponent: int) -> Elements:
        """a^e for e ≥ 1."""
        return np.where(a == 0, 0, self._powers[self._logs[a] * exponent % (self.order - 1)])

    def trace(self, a: Elements) -> Elements:
        """Tr(a) = a + a² + a⁴ + … + a^{2^{m−1}}, which is 0 or 1."""
        return self._trace[a]

    def _traces(self) -> Elements:
        total = np.zeros(self.order, np.int64)
        conjugate = self.elements
        for _ in range(self.degree):
            total ^= conjugate
            conjugate = self.power(conjugate, 2)
        return total


def _powers_of_x(degree: int) -> Elements:
    """1, x, x², … modulo the first polynomial of the degree for which they run through all non-zero elements."""
    order = 1 << degree
    for polynomial in range(order + 1, 2 * order, 2):
        powers = [1]
        while (power := _times_x(powers[-1], polynomial, order)) != 1 and len(powers) < order - 1:
            powers.append(power)
        if power == 1 and len(powers) == order - 1:
            return np.array(powers)
    raise AssertionError("every degree has a primitive polynomial")


def _times_x(element: int, polynomial: int, order: int) -> int:
    shifted = element << 1
    return shifted ^ polynomial if shifted & order else shifted
