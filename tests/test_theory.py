"""docs/theory.md says what the code computes: its table of published models is made here, its snippets are run.

`python -m tests.test_theory` prints the table anew.
"""

import contextlib
import io
import math
import re
from pathlib import Path

from gramian.geometry.bounds import brackets
from gramian.geometry.capacity import capacity
from gramian.geometry.published import PUBLISHED_CAPACITIES, PublishedCapacity

THEORY = Path(__file__).parents[1] / "docs" / "theory.md"
HEADER = (
    "| model | d | ε | published | 95 % | random | greedy | constructed | (m, h) | exists / published "
    "| upper, lines | upper, sphere |"
)


def table_row(row: PublishedCapacity) -> str:
    """One line of the table: decimal logarithms, and the construction."""
    assert row.capacity is not None
    found, estimate = brackets(row.dim, row.epsilon), capacity(row.dim, row.epsilon)
    published, interval = math.log10(row.capacity), estimate.interval_log10
    assert interval is not None
    cells = [
        row.model,
        f"{row.dim}",
        f"{row.epsilon:g}",
        f"{published:.2f}",
        f"{interval[0]:.1f} … {interval[1]:.1f}",
        f"{found.random_log10:.2f}",
        f"{found.greedy_log10:.2f}",
        f"{found.constructed_log10:.2f}",
        f"({found.forms.m}, {found.forms.h})" if found.forms else "axes",
        f"{found.exists_log10 - published:+.2f}",
        f"{found.upper_lines_log10:.2f}",
        f"{found.upper_log10:.2f}",
    ]
    return f"| {' | '.join(cells)} |"


def table() -> list[str]:
    finite = [row for row in PUBLISHED_CAPACITIES if row.capacity is not None]
    return [HEADER, "|---" * 12 + "|", *map(table_row, finite)]


def test_the_table_of_published_models_is_what_the_code_computes():
    document = THEORY.read_text().splitlines()
    start = document.index(HEADER)
    assert document[start : start + 33] == table()
    assert not document[start + 33].startswith("|")


def test_thirty_of_the_31_rows_lie_below_the_constructed_column_and_all_below_what_exists():
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table()[2:]]
    above = [row[0] for row in cells if float(row[3]) >= float(row[7])]
    assert above == ["Llama 2 70B"]
    assert all(float(row[9]) > 0 for row in cells)


def test_the_snippets_print_what_the_document_shows():
    blocks = re.findall(r"```python\n(.*?)```\s+```text\n(.*?)```", THEORY.read_text(), re.DOTALL)
    assert len(blocks) == 4
    for code, shown in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, {"__name__": "theory"})  # noqa: S102  (our own document)
        assert printed.getvalue() == shown


if __name__ == "__main__":
    print("\n".join(table()))
