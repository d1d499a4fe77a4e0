"""The distribution of an analysed matrix's cosines, as numbers, as a table and as a picture."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query

from gramian.analyses import Status
from gramian.errors import NotMeasured
from gramian.storage.tables import MatrixRow
from service.authorization import READ
from service.dependencies import AnalysisDep
from service.distribution_views import histogram_csv, histogram_svg, matrix_capacity_svg
from service.problems import responses
from service.representations import CsvResponse, SvgResponse
from service.schemas.common import Role
from service.schemas.matrices import Histogram

router = APIRouter(
    prefix="/v1/analyses/{analysis_id}", tags=["analyses"], responses=responses(404, 422), dependencies=[READ]
)


def matrix(
    analysis: AnalysisDep, role: Annotated[Role | None, Query(description="which matrix; unset: the first")] = None
) -> MatrixRow:
    if analysis.status != Status.SUCCEEDED:
        raise NotMeasured(
            f"analysis {analysis.id!r} is {analysis.status}, it has no numbers",
            hint=f"GET /v1/analyses/{analysis.id} says how far it is, or why it ended",
        )
    found = next((row for row in analysis.matrices if role in (None, row.role)), None)
    if found is None:
        has = ", ".join(row.role for row in analysis.matrices) or "no matrix"
        raise NotMeasured(f"the analysis has no {role or 'matrix'}, it has {has}", hint="choose one of its roles")
    return found


MatrixDep = Annotated[MatrixRow, Depends(matrix, scope="function")]


def histogram(row: MatrixDep) -> Histogram:
    if row.pair_mode is None:
        raise NotMeasured(
            "no pairs were looked at: mean, standard deviation and ε need none",
            hint='ask for the analysis with "pairs": {"mode": "sampled"} or "exact"',
        )
    return Histogram.from_row(row)


HistogramDep = Annotated[Histogram, Depends(histogram, scope="function")]


@router.get("/histogram")
def get_histogram(found: HistogramDep) -> Histogram:
    """Pairs of rows by their cosine."""
    return found


@router.get("/histogram.csv", response_class=CsvResponse)
def get_histogram_csv(found: HistogramDep) -> CsvResponse:
    """The same as a table, a row a bin."""
    return CsvResponse(histogram_csv(found))


@router.get("/plot.svg", response_class=SvgResponse)
def get_plot(
    row: MatrixDep,
    show: Annotated[
        Literal["cosines", "capacity"] | None,
        Query(
            description="the cosines beside those of random rows, or the capacity among what is proven; "
            "unset: cosines where pairs were looked at"
        ),
    ] = None,
) -> SvgResponse:
    """A picture of the matrix."""
    if show == "cosines" or (show is None and row.pair_mode):
        return SvgResponse(histogram_svg(histogram(row), dim=row.dim))
    return SvgResponse(matrix_capacity_svg(row))
