"""Other forms of an answer than JSON: CSV for spreadsheets, SVG for pages and papers."""

import csv
import io
from collections.abc import Iterable, Sequence

from starlette.responses import Response

Cell = str | int | float | bool | None

#: What a spreadsheet would take for a formula, or for the start of one after it has dropped white space.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class CsvResponse(Response):
    media_type = "text/csv"


class SvgResponse(Response):
    media_type = "image/svg+xml"


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """A table as RFC 4180 has it, with a header; None is an empty cell.

    Text that a spreadsheet would run as a formula is kept from it by an apostrophe; numbers stay numbers, with signs.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows([_harmless(cell) for cell in row] for row in rows)
    return text.getvalue()


def _harmless(cell: Cell) -> Cell:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
