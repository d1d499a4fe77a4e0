"""A model over its revisions: as numbers, as a table and as a picture."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query

from gramian.errors import NotFound
from service.authorization import READ
from service.dependencies import Name, ReadingDep
from service.histories import history, history_csv, history_svg
from service.problems import responses
from service.representations import CsvResponse, SvgResponse
from service.schemas.common import Role
from service.schemas.history import History

router = APIRouter(prefix="/v1/models", tags=["registry"], dependencies=[READ], responses=responses(404, 422))

Part = Annotated[str, Path(max_length=255, pattern=r"^[^\x00-\x1f\x7f]+$")]
Most = Annotated[int, Query(ge=1, le=10_000, description="how many of the latest analyses are looked at")]


def look(
    org: Part,
    name: Part,
    uow: ReadingDep,
    role: Annotated[Role | None, Query(description="which matrix; unset: the one that stands for the model")] = None,
    revision: Annotated[Name | None, Query(description="analyses of this branch only")] = None,
    limit: Most = 1000,
) -> History:
    model_id = f"{org}/{name}"
    rows = uow.models.history(model_id, role=role, revision=revision, limit=limit + 1)
    if not rows:
        asked = f"{model_id}@{revision}" if revision else model_id
        raise NotFound("analysed model", asked, hint="GET /v1/models lists them; POST /v1/analyses adds one")
    return history(model_id, rows[:limit], truncated=len(rows) > limit)


HistoryDep = Annotated[History, Depends(look, scope="function")]


@router.get("/{org}/{name}/history")
def get_history(found: HistoryDep) -> History:
    """ε and its company over a model's commits, the oldest first."""
    return found


@router.get("/{org}/{name}/history.csv", response_class=CsvResponse)
def get_history_csv(found: HistoryDep) -> CsvResponse:
    """The same as a table, a row a commit."""
    return CsvResponse(history_csv(found))


@router.get("/{org}/{name}/history.svg", response_class=SvgResponse)
def get_history_svg(found: HistoryDep) -> SvgResponse:
    """ε over the commits as a picture."""
    return SvgResponse(history_svg(found))
