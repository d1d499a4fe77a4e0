"""Keyset pagination: a page starts after the last row of the one before, whatever was inserted meanwhile."""

import base64
import binascii
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, or_
from sqlalchemy.orm import InstrumentedAttribute, Session

from gramian.errors import InvalidCursor, InvalidParameter
from gramian.storage.tables import UtcDateTime

Column = InstrumentedAttribute[Any]


@dataclass(frozen=True)
class Page:
    """Rows of one page, and the cursor of the next one if there is any."""

    items: list[Any]
    next_cursor: str | None


@dataclass(frozen=True)
class Order:
    """A column to sort by, ties broken by a unique one; rows without a value come last in either direction."""

    name: str  # as in the request, with a leading "-" for descending
    column: Column
    unique: Column

    @property
    def descending(self) -> bool:
        return self.name.startswith("-")

    @property
    def is_indexed(self) -> bool:
        """Whether every row has a value: then an index, read in one direction, has the whole order."""
        return not getattr(self.column, "nullable", True)

    @property
    def ties_descend(self) -> bool:
        return self.descending and self.is_indexed

    def terms(self) -> list[ColumnElement[Any]]:
        """What to order by: rows without a value last, ties upwards, or as an index has them."""
        value = self.column.desc() if self.descending else self.column.asc()
        tie = self.unique.desc() if self.ties_descend else self.unique.asc()
        return [value, tie] if self.is_indexed else [self.column.is_(None), value, tie]

    @classmethod
    def parse(cls, text: str, columns: dict[str, Column], unique: Column) -> "Order":
        """Read `sort=name` or `sort=-name`."""
        column = columns.get(text.removeprefix("-"))
        if column is None:
            raise InvalidParameter(
                "/sort", f"cannot sort by {text!r}", hint=f"sort by one of {', '.join(columns)}; '-' reverses"
            )
        return cls(text, column, unique)


def fetch_page(
    session: Session, query: Select[*tuple[Any, ...]], *, order: Order, cursor: str | None, limit: int
) -> Page:
    """The page after `cursor`; the query's first entity carries the order's columns, or its rows do."""
    if cursor:
        query = query.where(_after(order, *_decode(cursor, order)))
    query = query.add_columns(order.column.label("_value"), order.unique.label("_unique"))
    query = query.order_by(*order.terms()).limit(limit + 1)
    rows = session.execute(query).all()
    items = [row[0] if len(row) == 3 else row[:-2] for row in rows[:limit]]
    last = rows[limit - 1] if len(rows) > limit else None
    return Page(items, _encode(order, last[-2], last[-1]) if last else None)


def _after(order: Order, value: Any, unique: Any) -> ColumnElement[bool]:
    column, tie = order.column, order.unique < unique if order.ties_descend else order.unique > unique
    if value is None:
        return and_(column.is_(None), tie)
    beyond = column < value if order.descending else column > value
    return or_(beyond, and_(column == value, tie), column.is_(None))


def _encode(order: Order, value: Any, unique: Any) -> str:
    if isinstance(value, datetime):
        value = value.isoformat()
    return base64.urlsafe_b64encode(json.dumps([order.name, value, unique]).encode()).decode().rstrip("=")


def _decode(cursor: str, order: Order) -> tuple[Any, Any]:
    is_time = isinstance(order.column.type, UtcDateTime)
    kind = datetime.fromisoformat if is_time else order.column.type.python_type
    try:
        name, value, unique = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if value is not None:
            value = kind(value)
    except (ValueError, TypeError, OverflowError, RecursionError, binascii.Error):
        raise InvalidCursor("the cursor cannot be read", hint="use next_cursor of the page before, unchanged") from None
    if name != order.name or not isinstance(unique, str) or "\x00" in f"{unique}{value}":
        raise InvalidCursor(
            f"the cursor belongs to another list than one sorted by {order.name!r}",
            hint="repeat the query that gave the cursor, with its sort",
        )
    return value, unique
