"""Lines that can be written down: as many as asked for, and exactly as close as proven."""

import numpy as np
import pytest

from gramian.errors import TooFewLines
from gramian.geometry.explicit_lines import explicit_lines, smallest_set


def largest_cosine(k: int, d: int) -> float:
    """Over all pairs, in float64."""
    U = np.concatenate(list(explicit_lines(k, d).blocks(100))).astype(np.float64)
    assert U.shape == (k, d)
    U /= np.linalg.norm(U, axis=1, keepdims=True)
    G = np.abs(U @ U.T)
    np.fill_diagonal(G, 0)
    return float(G.max())


@pytest.mark.parametrize(
    ("k", "d"),
    [
        *((9, 8), (64, 8), (65, 16), (128, 16), (129, 16), (1024, 16)),  # the first and last of a set, the next set
        *((17, 17), (18, 17), (33, 32), (1024, 32), (1025, 32), (1026, 40), (4000, 32)),
        *((65, 64), (2048, 64), (2049, 64), (2113, 64), (4097, 64)),
    ],
)
def test_the_first_lines_of_a_set_are_as_close_as_all_of_them(k: int, d: int) -> None:
    assert largest_cosine(k, d) == pytest.approx(explicit_lines(k, d).epsilon, abs=1e-12)


@pytest.mark.parametrize("d", [1, 2, 7])
def test_up_to_d_lines_are_orthonormal(d: int) -> None:
    assert explicit_lines(d, d).epsilon == 0
    U = np.concatenate(list(explicit_lines(d, d).blocks(3)))
    assert np.array_equal(U @ U.T, np.eye(d))


@pytest.mark.parametrize(("k", "d"), [(2, 1), (4, 3), (9, 4), (2**15 + 1, 32)])
def test_more_lines_than_any_set_has_are_refused(k: int, d: int) -> None:
    with pytest.raises(TooFewLines):
        explicit_lines(k, d)


@pytest.mark.parametrize(
    ("k", "d", "epsilon"),
    [
        (16_384, 128, 2**-3),
        (262_144, 512, 2**-4),
        (4_194_304, 2048, 2**-5),
        (131_072, 512, 2**-4),
        (32_768, 256, 2**-4),
    ],
)
def test_the_smallest_epsilon_is_taken(k: int, d: int, epsilon: float) -> None:
    """2^{−⌊m/2⌋} for as many lines as one form a basis gives: 4^m for odd m, 2^{2m−1} for even m."""
    assert smallest_set(k, d).epsilon == epsilon
