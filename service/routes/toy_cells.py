"""The cells of a toy-model sweep, also of one that is still running or was cancelled."""

from fastapi import APIRouter

from gramian.errors import NotFound
from gramian.specs import parse_spec
from gramian.toy_specs import ToyModelSpec
from service.authorization import READ
from service.dependencies import AnalysisDep, ReadingDep
from service.problems import responses
from service.schemas.toy_models import ToyCellList, ToyCellResult

router = APIRouter(prefix="/v1/analyses", tags=["analyses"], dependencies=[READ])


@router.get("/{analysis_id}/cells", responses=responses(404))
def list_cells(analysis: AnalysisDep, uow: ReadingDep) -> ToyCellList:
    """Every cell that is finished so far, with a link to its weights."""
    spec = parse_spec(analysis.spec)
    if not isinstance(spec, ToyModelSpec):
        raise NotFound("cells", analysis.id, hint=f"an analysis of kind {analysis.kind!r} has none")
    finished = uow.toy_cells.finished(analysis.id)
    return ToyCellList(
        items=[ToyCellResult.of(analysis.id, cell.result) for cell in finished],
        total=sum(1 for _ in spec.cells()),
    )
