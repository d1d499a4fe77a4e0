"""The committed campaign and the page made from it."""

import pytest

from benchmarks.packing_report import PAGE, Cell, read_cells, refits, render, tables, write_cells
from benchmarks.packings import CELLS

# What a short first version of the descent reached at k = 2000 in 500 steps; the campaign must not fall behind it.
FIRST_VERSION = {32: 0.36574, 64: 0.21566, 128: 0.13160, 256: 0.07878, 512: 0.04565, 768: 0.03270, 1024: 0.02439}


def test_the_page_shows_what_the_committed_cells_give():
    page = PAGE.read_text()
    assert render(page, tables(read_cells())) == page


def test_the_campaign_is_complete():
    assert sorted((cell.vectors, cell.dim) for cell in read_cells()) == sorted(CELLS)
    assert len({(cell.steps, cell.seed, cell.code) for cell in read_cells()}) == 1


def test_every_cell_is_tighter_than_what_was_published():
    for cell in read_cells():
        assert cell.epsilon < 0.93 * cell.published


def test_every_cell_of_2000_vectors_is_tighter_than_the_first_version():
    found = {cell.dim: cell.epsilon for cell in read_cells() if cell.vectors == 2000}
    assert found.keys() == FIRST_VERSION.keys()
    assert all(found[dim] < 0.985 * epsilon for dim, epsilon in FIRST_VERSION.items())


def test_our_own_form_describes_the_campaign_best_with_half_the_constants():
    found = refits(read_cells())
    assert found["welch"].mape < 0.5
    assert found["welch"].mape < found["fitted"].mape < found["ratio"].mape < found["jl"].mape


def test_cells_come_back_from_the_table_as_they_were(tmp_path):
    cells = [Cell(2000, 32, 0.1 + 0.2, 400, 7, 1.5, "0123456789")]
    write_cells(cells, tmp_path / "deep" / "cells.csv")
    assert read_cells(tmp_path / "deep" / "cells.csv") == cells


def test_a_page_without_its_place_is_refused():
    with pytest.raises(ValueError, match="0 places"):
        render("a page", {"fits": "a table"})
