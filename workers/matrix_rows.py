"""What was measured of a matrix, as it is stored."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gramian.answers import matrix_capacity
from gramian.geometry.capacity import vocabulary_directions
from gramian.geometry.measurement import EXTREME_ROWS, MatrixGeometry, RankedRow
from gramian.geometry.pairs import PairStatistics
from gramian.storage.tables import MatrixRow
from gramian.weights.tensors import StoredMatrix
from gramian.weights.tokenizers import Tokens
from workers.row_choice import LeftOut

LONGEST_TOKEN = 200  # characters
LISTED_ROWS = 100  # rows left out that are named; all are counted


@dataclass(frozen=True, eq=False)
class Origin:
    """Which matrix was measured, and which of its rows."""

    analysis_id: str
    position: int
    role: str
    matrix: StoredMatrix
    digest: str
    tied: bool
    left_out: LeftOut
    tokens: Tokens | None


def matrix_row(origin: Origin, geometry: MatrixGeometry, pairs: PairStatistics | None) -> MatrixRow:
    """The measured numbers as they are stored."""
    matrix, left_out, tokens = origin.matrix, origin.left_out, origin.tokens
    moments, errors, census = geometry.moments, geometry.standard_errors, geometry.census
    zero_rows = np.setdiff1d(census.zero_rows, left_out.rows)  # what was left out was read as zeros
    vocabulary = vocabulary_directions(census.used, tied=origin.tied)
    capacity = matrix_capacity(matrix.dim, moments.epsilon, epsilon_se=errors.epsilon, vocabulary=vocabulary)
    low, high = capacity["interval_log10"] or (None, None)
    return MatrixRow(
        analysis_id=origin.analysis_id,
        role=origin.role,
        position=origin.position,
        tensor=matrix.name,
        dtype=matrix.dtype,
        digest=origin.digest,
        rows=matrix.rows,
        dim=matrix.dim,
        rows_used=census.used,
        rows_zero=len(zero_rows),
        rows_nonfinite=census.nonfinite,
        pairs=moments.pairs,
        cosine_mean=moments.mean,
        cosine_std=moments.std,
        cosine_mean_square=moments.mean_square,
        cosine_mean_se=errors.mean,
        cosine_std_se=errors.std,
        epsilon=moments.epsilon,
        epsilon_se=errors.epsilon,
        epsilon_random=geometry.random_epsilon,
        epsilon_excess=geometry.epsilon_excess,
        epsilon_class=geometry.epsilon_class,
        capacity_status=capacity["status"],
        capacity_log10=capacity["log10_directions"],
        capacity_log10_low=low,
        capacity_log10_high=high,
        vocabulary_directions=vocabulary,
        **_columns_of(pairs),
        norm_mean=geometry.norms.mean,
        norm_std=geometry.norms.std,
        norm_min=geometry.norms.min,
        norm_max=geometry.norms.max,
        norm_median=geometry.norms.median,
        represented_fraction=geometry.represented_fraction,
        welch_floor=geometry.welch_floor,
        overlap_times_dim=geometry.overlap_times_dim,
        effective_rank=geometry.effective_rank,
        feature_dimensionality=geometry.feature_dimensionality,
        regime=geometry.regime.name,
        details={
            "capacity": capacity,
            "regime_basis": {
                "represented_fraction": geometry.regime.represented_fraction,
                "dims_per_row": geometry.regime.dims_per_row,
                "overlap_times_dim": geometry.regime.overlap_times_dim,
            },
            "hygiene": {
                "zero_rows": zero_rows[:LISTED_ROWS].tolist(),
                "nonfinite_rows": census.nonfinite_rows[:LISTED_ROWS].tolist(),
                "excluded": {
                    reason: {"basis": left_out.basis[reason], "rows": rows[:LISTED_ROWS].tolist()}
                    for reason, rows in left_out.by_reason.items()
                },
                "listed_at_most": LISTED_ROWS,
                "products": geometry.products,
            },
            "rows_excluded": {reason: len(rows) for reason, rows in left_out.by_reason.items()},
            "tokens": {
                "most_overlapping": _ranked(geometry.most_overlapping, tokens),
                "least_overlapping": _ranked(geometry.least_overlapping, tokens),
                "primary": _primary(geometry, tokens),
            },
            "pairs": _bulk_of(pairs),
        },
    )


def _ranked(rows: tuple[RankedRow, ...], tokens: Tokens | None) -> list[dict[str, Any]]:
    return [
        {"row": row.row, "token": _text(row.row, tokens), "mean_square": row.mean_square, "mean": row.mean}
        for row in rows
    ]


def _primary(geometry: MatrixGeometry, tokens: Tokens | None) -> list[dict[str, Any]]:
    """The rows that have most of a dimension to themselves, the most first; of equals, the earlier row first."""
    found = geometry.per_row
    order = np.argsort(-found.feature_dimensionality, kind="stable")[:EXTREME_ROWS]
    return [
        {
            "row": int(found.row[i]),
            "token": _text(int(found.row[i]), tokens),
            "feature_dimensionality": float(found.feature_dimensionality[i]),
            "norm": float(found.norm[i]),
        }
        for i in order
    ]


def _text(row: int, tokens: Tokens | None) -> str | None:
    text = tokens.texts.get(row) if tokens else None
    return text[:LONGEST_TOKEN].replace("\x00", "\N{REPLACEMENT CHARACTER}") if text is not None else None


def _columns_of(pairs: PairStatistics | None) -> dict[str, Any]:
    if pairs is None:
        return {}
    return {
        "pair_mode": pairs.mode,
        "pairs_seen": pairs.pairs,
        "cosine_min": pairs.minimum,
        "cosine_max": pairs.maximum,
        "cosine_mean_abs": pairs.mean_abs,
    }


def _bulk_of(pairs: PairStatistics | None) -> dict[str, Any] | None:
    if pairs is None:
        return None
    return {
        "counts": pairs.counts.tolist(),
        "quantiles": [list(quantile) for quantile in pairs.quantiles],
        "resolution": pairs.resolution,
        "band": pairs.band,
        "mean_abs_se": pairs.mean_abs_error,
    }
