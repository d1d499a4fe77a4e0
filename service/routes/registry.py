"""The registry: models by their latest numbers, and any of them side by side."""

from typing import Annotated

from fastapi import APIRouter, Query

from gramian.errors import InvalidParameter, NotFound
from gramian.storage.models import ModelFilter
from gramian.storage.tables import AnalysisRow
from gramian.storage.unit_of_work import UnitOfWork
from service.authorization import READ
from service.comparing import compare
from service.dependencies import Cursor, Limit, Name, ReadingDep
from service.problems import responses
from service.schemas.common import EpsilonClass, Role
from service.schemas.registry import ComparedItem, Comparison, ModelList, ModelSummary

MAX_COMPARED = 50

router = APIRouter(prefix="/v1", tags=["registry"], dependencies=[READ])


@router.get("/models", responses=responses(422))
def list_models(
    uow: ReadingDep,
    epsilon_class: Annotated[EpsilonClass | None, Query(alias="class")] = None,
    min_dim: Annotated[int | None, Query(ge=0, lt=2**63)] = None,
    max_dim: Annotated[int | None, Query(ge=0, lt=2**63)] = None,
    q: Annotated[Name | None, Query(description="part of the model id")] = None,
    sort: Annotated[str, Query(description="a column, `-` for descending, e.g. `-capacity`")] = "model_id",
    cursor: Cursor = None,
    limit: Limit = 50,
) -> ModelList:
    """One row a model: the numbers of its latest succeeded analysis."""
    wanted = ModelFilter(epsilon_class=epsilon_class, min_dim=min_dim, max_dim=max_dim, text=q)
    page = uow.models.search(wanted, sort=sort, cursor=cursor, limit=limit)
    return ModelList(
        items=[ModelSummary.from_rows(analysis, matrix) for analysis, matrix in page.items],
        next_cursor=page.next_cursor,
    )


@router.get("/comparisons", responses=responses(404, 422))
def compare_analyses(
    uow: ReadingDep,
    model: Annotated[list[Name] | None, Query(description="`org/name` or `org/name@revision`; repeat")] = None,
    analysis: Annotated[list[Name] | None, Query(description="an analysis id; repeat")] = None,
    role: Annotated[Role | None, Query(description="which matrix; unset: the one that stands for the model")] = None,
) -> Comparison:
    """Two or more analysed matrices side by side, and what may not be compared."""
    references = [*(model or ()), *(analysis or ())]
    if not 2 <= len(references) <= MAX_COMPARED:
        raise InvalidParameter(
            "/model",
            f"{len(references)} things to compare were named, between 2 and {MAX_COMPARED} are needed",
            hint="?model=org/a&model=org/b@revision&analysis=an_…",
        )
    rows = [_latest(uow, name) for name in model or ()] + [_succeeded(uow, name) for name in analysis or ()]
    return compare([_item(reference, row, role) for reference, row in zip(references, rows, strict=True)])


def _latest(uow: UnitOfWork, name: str) -> AnalysisRow:
    model_id, _, revision = name.partition("@")
    return uow.models.latest(model_id, revision or None)


def _succeeded(uow: UnitOfWork, id: str) -> AnalysisRow:
    row = uow.analyses.get(id)
    if not row.matrices:
        raise InvalidParameter(
            "/analysis", f"analysis {id!r} ({row.kind}) is {row.status} and has no matrices to compare"
        )
    return row


def _item(reference: str, row: AnalysisRow, role: Role | None) -> ComparedItem:
    for matrix in row.matrices:
        if role in (None, matrix.role):
            return ComparedItem.from_rows(reference, row, matrix)
    raise NotFound("matrix", f"{role} of {reference}", hint="leave `role` out, or name one that all analyses have")
