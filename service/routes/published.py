"""The published models. Included before the routes of single models, which its name must not fall to."""

from typing import Annotated

from fastapi import APIRouter, Depends

from service.authorization import READ
from service.dependencies import ReadingDep
from service.published_models import published_csv, published_models
from service.representations import CsvResponse
from service.schemas.published import PublishedModels

router = APIRouter(prefix="/v1/models", tags=["registry"], dependencies=[READ])


def models(uow: ReadingDep) -> PublishedModels:
    return published_models(uow)


PublishedDep = Annotated[PublishedModels, Depends(models, scope="function")]


@router.get("/published")
def list_published_models(found: PublishedDep) -> PublishedModels:
    """The 45 published measurements, our capacity at their ε, and our own number where the model was analysed here."""
    return found


@router.get("/published.csv", response_class=CsvResponse)
def list_published_models_csv(found: PublishedDep) -> CsvResponse:
    """The same as a table."""
    return CsvResponse(published_csv(found))
