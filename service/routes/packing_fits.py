"""Fits to packings, answered at once."""

from fastapi import APIRouter

from service.authorization import READ
from service.dependencies import ReadingDep
from service.packing_fits import fit_packings
from service.problems import responses
from service.schemas.packing_fits import PackingFitAnswer, PackingFitRequest

BODY_LIMIT_BYTES = 1024**2

router = APIRouter(prefix="/v1/fits", tags=["calculators"], dependencies=[READ])


@router.post("/packing", max_body_size=BODY_LIMIT_BYTES, responses=responses(400, 404, 413, 422))
def fit_packing(body: PackingFitRequest, uow: ReadingDep) -> PackingFitAnswer:
    """Fit relations between k, d and ε* to packings: constants with errors and covariance, and how well each holds."""
    return fit_packings(uow, body)
