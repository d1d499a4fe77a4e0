"""The published capacities beside what is known here: our numbers at the published ε, and our own analyses."""

import re
from collections.abc import Mapping, Sequence
from math import log10

from gramian.answers import capacity_answer
from gramian.geometry.published import PUBLISHED_CAPACITIES, PublishedCapacity
from gramian.storage.tables import AnalysisRow, MatrixRow
from gramian.storage.unit_of_work import UnitOfWork
from service.representations import csv_text
from service.schemas.published import (
    AnalysedModel,
    CapacityAtPublishedEpsilon,
    PublishedModel,
    PublishedModels,
)

SOURCE = "A. Guha, Representational Capacity, arXiv:2606.02765, Table 1"

#: What Hub ids add to the name of a model without making it another one.
_ADDED = {"hf"}


def published_models(uow: UnitOfWork) -> PublishedModels:
    """Every row of the table, with the latest analysis of a model of the same name and dimension."""
    analysed = _analysed(uow)
    return PublishedModels(
        items=[_item(row, analysed.get(name_words(row.model), ())) for row in PUBLISHED_CAPACITIES], source=SOURCE
    )


def published_csv(models: PublishedModels) -> str:
    """The same as a table, a row a model."""
    header = (
        *("model", "dim", "published_epsilon", "published_log10", "status", "log10_directions"),
        *("exists_log10", "upper_log10", "upper_lines_log10", "place"),
        *("analysis_id", "model_id", "epsilon", "capacity_log10", "difference_epsilon"),
    )
    rows = []
    for item in models.items:
        ours, own = item.capacity, item.analysed
        rows.append(
            (
                *(item.model, item.dim, item.epsilon, item.published_log10, ours.status, ours.log10_directions),
                *(ours.bounds.exists_log10, ours.bounds.upper_log10, ours.bounds.upper_lines_log10),
                ours.position.place if ours.position else None,
                *(
                    (own.analysis_id, own.model_id, own.epsilon, own.capacity_log10, own.difference_epsilon)
                    if own
                    else (None,) * 5
                ),
            )
        )
    return csv_text(header, rows)


def name_words(name: str) -> tuple[str, ...]:
    """A model's name without what spelling adds: `meta-llama/Llama-2-7b-hf` and `Llama 2 7B` are one.

    Examples
    --------
    >>> name_words("meta-llama/Llama-2-7b-hf"), name_words("Llama 2 7B")
    (('llama', '2', '7', 'b'), ('llama', '2', '7', 'b'))
    """
    words = re.findall(r"\d+(?:\.\d+)*|[a-z]+", name.rpartition("/")[2].lower())
    return tuple(word for word in words if word not in _ADDED)


def _analysed(uow: UnitOfWork) -> Mapping[tuple[str, ...], Sequence[AnalysisRow]]:
    """The latest analyses of all models of a published name."""
    wanted = {name_words(row.model) for row in PUBLISHED_CAPACITIES}
    found: dict[tuple[str, ...], list[AnalysisRow]] = {}
    for model_id in uow.models.ids():
        if (name := name_words(model_id)) in wanted:
            found.setdefault(name, []).append(uow.models.latest(model_id, None))
    return found


def _item(row: PublishedCapacity, analyses: Sequence[AnalysisRow]) -> PublishedModel:
    answer = capacity_answer(row.dim, row.epsilon)
    return PublishedModel(
        model=row.model,
        dim=row.dim,
        epsilon=row.epsilon,
        published_capacity=row.capacity,
        published_log10=log10(row.capacity) if row.capacity else None,
        capacity=CapacityAtPublishedEpsilon.model_validate(answer),
        analysed=_latest(row, analyses),
    )


def _latest(row: PublishedCapacity, analyses: Sequence[AnalysisRow]) -> AnalysedModel | None:
    """The newest that has a matrix of so many dimensions, the token embedding if there are two."""
    pairs = [(analysis, matrix) for analysis in analyses if (matrix := _embedding(analysis, row.dim))]
    if not pairs:
        return None
    analysis, matrix = max(pairs, key=lambda pair: (pair[0].finished_at, pair[0].id))
    return AnalysedModel(
        analysis_id=analysis.id,
        model_id=analysis.model_id,
        revision=analysis.revision,
        commit=analysis.commit,
        role=matrix.role,
        epsilon=matrix.epsilon,
        epsilon_standard_error=matrix.epsilon_se,
        capacity_status=matrix.capacity_status,
        capacity_log10=matrix.capacity_log10,
        difference_epsilon=matrix.epsilon - row.epsilon,
    )


def _embedding(analysis: AnalysisRow, dim: int) -> MatrixRow | None:
    rows = sorted(analysis.matrices, key=lambda matrix: matrix.role != "input_embedding")
    return next((matrix for matrix in rows if matrix.dim == dim), None)
