"""Setting matrices side by side, and saying where that is not fair."""

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Literal

from service.schemas.registry import ComparedItem, Comparison, Difference, Incomparable

Code = Literal["method_version", "tensor_role", "rows_excluded", "dim", "same_content"]

METRICS = (
    "epsilon",
    "excess",
    "cosine_mean",
    "cosine_std",
    "capacity_log10",
    "mean_squared_overlap",
    "overlap_times_dim",
    "effective_rank",
    "represented_fraction",
    "feature_dimensionality",
    "norm_median",
    "dim",
    "rows_used",
)

#: Two items, and the reason not to compare them if there is one.
OBSTACLES: Sequence[tuple[Code, Callable[[ComparedItem, ComparedItem], str | None]]] = (
    (
        "method_version",
        lambda a, b: (
            f"measured by methods {a.method_version} and {b.method_version}: analyse the older one again"
            if a.method_version != b.method_version
            else None
        ),
    ),
    (
        "tensor_role",
        lambda a, b: (
            f"an {a.role.replace('_', ' ')} is not an {b.role.replace('_', ' ')}" if a.role != b.role else None
        ),
    ),
    (
        "rows_excluded",
        lambda a, b: (
            f"{_excluded(a)} and {_excluded(b)} were left out: ask for both alike"
            if a.rows_exclude != b.rows_exclude
            else None
        ),
    ),
)
CAVEATS: Sequence[tuple[Code, Callable[[ComparedItem, ComparedItem], str | None]]] = (
    (
        "same_content",
        lambda a, b: "the matrices are the same bytes" if a.digest == b.digest else None,
    ),
    (
        "dim",
        lambda a, b: (
            f"{a.dim} and {b.dim} dimensions: ε of random rows is 2/√d, so compare `excess` as well"
            if a.dim != b.dim
            else None
        ),
    ),
    (
        "rows_excluded",
        lambda a, b: (
            f"{a.rows - a.rows_used} and {b.rows - b.rows_used} rows were left out"
            if a.rows_exclude == b.rows_exclude and a.rows - a.rows_used != b.rows - b.rows_used
            else None
        ),
    ),
)


def compare(items: list[ComparedItem]) -> Comparison:
    """Differences to the first item, ranks, and what may not be compared."""
    return Comparison(
        items=items,
        differences=[_difference(metric, items) for metric in METRICS],
        not_comparable=_found(OBSTACLES, items),
        notes=_found(CAVEATS, items),
    )


def _excluded(item: ComparedItem) -> str:
    return " and ".join(item.rows_exclude) or "none"


def _difference(metric: str, items: list[ComparedItem]) -> Difference:
    values: list[float | None] = [getattr(item, metric) for item in items]
    first = values[0]
    errors = [item.epsilon_standard_error for item in items] if metric == "epsilon" else None
    return Difference(
        metric=metric,
        values=values,
        difference=[None if value is None or first is None else value - first for value in values],
        standard_error=_errors_of_differences(errors) if errors else None,
        rank=_ranks(values),
    )


def _errors_of_differences(errors: list[float | None]) -> list[float | None]:
    first = errors[0]
    return [0.0] + [None if first is None or error is None else math.hypot(first, error) for error in errors[1:]]


def _ranks(values: list[float | None]) -> list[int | None]:
    present = [value for value in values if value is not None]
    return [None if value is None else 1 + sum(other > value for other in present) for value in values]


def _found(
    rules: Sequence[tuple[Code, Callable[[ComparedItem, ComparedItem], str | None]]], items: list[ComparedItem]
) -> list[Incomparable]:
    return [
        Incomparable(between=(i, j), code=code, reason=reason)
        for (i, a), (j, b) in combinations(enumerate(items), 2)
        for code, rule in rules
        if (reason := rule(a, b))
    ]
