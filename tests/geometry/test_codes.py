"""Explicit line sets against all pairs, against theory, and the field they are made of."""

import numpy as np
import pytest

from gramian.errors import GeometryError
from gramian.geometry.binary_field import BinaryField
from gramian.geometry.codes import LineSet, lines, walsh_hadamard

SMALL = [(m, terms) for m in range(2, 12) for terms in range(1, m // 2 + 1) if m * terms <= 16 or (m, terms) == (11, 1)]


def whole(m: int, terms: int) -> LineSet:
    return LineSet(dim=2**m, m=m, terms=terms)


def all_cosines(found: LineSet) -> np.ndarray:
    rows = np.concatenate(list(found.blocks(block_rows=100))).astype(np.float64)
    cosines = rows @ rows.T / 2**found.m
    assert (np.diag(cosines) == 1).all()
    np.fill_diagonal(cosines, 0)
    return cosines


# -- the sets -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "terms"), [(2, 1), (3, 1), (4, 1), (4, 2), (5, 1), (6, 1)])
def test_the_transforms_find_what_all_pairs_find(m, terms):
    found = whole(m, terms)
    assert found.largest_cosine() == np.abs(all_cosines(found)).max()


@pytest.mark.parametrize(("m", "terms"), [(2, 1), (5, 2), (6, 2), (7, 2)])
def test_the_number_of_transforms_is_told_beforehand(m, terms):
    assert whole(m, terms).transforms == sum(1 for _ in whole(m, terms)._differences())


@pytest.mark.parametrize(("m", "terms"), SMALL)
def test_no_cosine_exceeds_what_theory_says_and_one_reaches_it(m, terms):
    found = whole(m, terms)
    assert found.largest_cosine() == found.epsilon == 2.0 ** -(m // 2 - terms + 1)


@pytest.mark.parametrize(
    ("m", "terms", "count", "epsilon"),
    [
        (4, 1, 128, 1 / 4),  # the Nordstrom–Robinson code
        (7, 1, 16_384, 1 / 8),
        (9, 1, 262_144, 1 / 16),
        (11, 1, 4_194_304, 1 / 32),
        (11, 2, 2**33, 1 / 16),
        (12, 1, 2**23, 1 / 64),
    ],
)
def test_counts_are_those_of_the_literature(m, terms, count, epsilon):
    found = whole(m, terms)
    assert (found.count, found.epsilon) == (count, epsilon)


@pytest.mark.parametrize("m", [2, 4, 6, 8, 10])
def test_kerdock_sets_have_half_the_square_of_the_dimension_at_one_over_its_root(m):
    found, d = whole(m, 1), 2**m
    assert (found.count, found.epsilon) == (d * d // 2, 1 / np.sqrt(d))


def test_lines_of_one_form_are_an_orthogonal_basis_and_of_two_are_unbiased_in_a_kerdock_set():
    cosines = np.abs(all_cosines(whole(4, 1))).reshape(8, 16, 8, 16)
    for form in range(8):
        assert not cosines[form, :, form].any()
        assert (np.delete(cosines[form], form, axis=1) == 1 / 4).all()


@pytest.mark.parametrize(("m", "terms"), [(5, 2), (6, 2), (8, 2), (9, 2)])
def test_lines_picked_at_random_keep_the_bound(m, terms):
    found = whole(m, terms)
    random = np.random.default_rng(0)
    picked = np.concatenate([found.rows(i, i + 1) for i in random.choice(found.count, 300, replace=False)])
    cosines = picked.astype(np.int64) @ picked.T.astype(np.int64)
    np.fill_diagonal(cosines, 0)
    assert np.abs(cosines).max() <= found.epsilon * 2**m


def test_a_set_beyond_enumeration_can_be_read_anywhere():
    found = whole(12, 6)
    last = found.rows(found.count - 3, found.count)
    assert last.shape == (3, 4096)
    assert set(np.unique(last)) == {-1, 1}


# -- streaming and padding ------------------------------------------------------------------------------------


@pytest.mark.parametrize("block_rows", [1, 7, 16, 50, 1000])
def test_blocks_of_any_size_hold_the_same_rows(block_rows):
    found = LineSet(dim=20, m=4, terms=1)
    blocks = list(found.blocks(block_rows=block_rows))
    assert all(len(block) == block_rows for block in blocks[:-1])
    rows = np.concatenate(blocks)
    assert rows.dtype == np.int8
    assert np.array_equal(rows, found.rows(0, 128))
    assert len(np.unique(rows, axis=0)) == 128
    assert not rows[:, 16:].any()
    assert np.array_equal(np.concatenate(list(found.blocks(block_rows=block_rows, limit=50))), rows[:50])


# -- choosing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("d", "epsilon", "m", "terms"),
    [
        (128, 0.125, 7, 1),
        (128, 0.13, 7, 1),
        (128, 0.25, 7, 2),
        (512, 0.0625, 9, 1),
        (2048, 0.0742, 11, 2),
        (4096, 0.0645, 12, 3),
        (1500, 0.04, 10, 1),
        (256, 0.0625, 8, 1),
        (4096, 0.99, 12, 6),
        (4, 0.5, 2, 1),
    ],
)
def test_the_largest_set_within_dimension_and_epsilon_is_chosen(d, epsilon, m, terms):
    found = lines(d, epsilon)
    assert (found.dim, found.m, found.terms) == (d, m, terms)
    assert found.epsilon <= epsilon


def test_the_published_case_has_the_count_of_the_bracket():
    assert np.log10(lines(4096, 0.0645).count) == pytest.approx(13.546, abs=1e-3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: lines(128, 0.1249),
        lambda: lines(3, 0.9),
        lambda: lines(64, 0.0),
        lambda: LineSet(dim=15, m=4, terms=1),
        lambda: LineSet(dim=16, m=4, terms=3),
        lambda: LineSet(dim=16, m=1, terms=1),
        lambda: BinaryField(0),
        lambda: BinaryField(21),
    ],
)
def test_sets_that_are_not_known_are_refused(call):
    with pytest.raises(GeometryError):
        call()


# -- the transform and the field ------------------------------------------------------------------------------


def test_the_transform_is_the_sum_over_signs():
    values = np.random.default_rng(0).integers(-9, 9, (3, 16)).astype(np.int32)
    index = np.arange(16)
    signs = 1 - 2 * (np.bitwise_count(index[:, None] & index).astype(np.int64) & 1)
    assert np.array_equal(walsh_hadamard(values), values @ signs)


@pytest.mark.parametrize("degree", [1, 2, 3, 6, 7])
def test_the_field_is_one(degree):
    field = BinaryField(degree)
    everything = field.elements
    table = field.multiply(everything[:, None], everything)
    assert np.array_equal(table, table.T)
    assert np.array_equal(table[1], everything)
    for row in table[1:]:
        assert np.array_equal(np.sort(row), everything)  # every non-zero element has an inverse
    a, b, c = np.random.default_rng(0).integers(0, field.order, (3, 200))
    assert np.array_equal(field.multiply(a, b ^ c), field.multiply(a, b) ^ field.multiply(a, c))
    assert np.array_equal(field.multiply(field.multiply(a, b), c), field.multiply(a, field.multiply(b, c)))
    assert np.array_equal(field.power(a, 5), field.multiply(a, field.power(field.power(a, 2), 2)))


@pytest.mark.parametrize("degree", [1, 2, 5, 8])
def test_the_trace_is_linear_balanced_and_the_same_for_conjugates(degree):
    field = BinaryField(degree)
    trace = field.trace(field.elements)
    assert np.bincount(trace).tolist() == [field.order // 2] * 2
    assert np.array_equal(field.trace(field.power(field.elements, 2)), trace)
    a, b = np.random.default_rng(0).integers(0, field.order, (2, 200))
    assert np.array_equal(field.trace(a ^ b), field.trace(a) ^ field.trace(b))
