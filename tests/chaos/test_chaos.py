"""A short storm over each form of the service; `make chaos` makes long ones."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.checks import impossible
from tests.chaos.harm import FAULTS
from tests.chaos.questions import SHARES
from tests.chaos.report import report
from tests.chaos.run import Order, chaos
from tests.chaos.world import Variant


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not tmp_path: the name of a unix socket in it would be too long."""
    folder = Path(tempfile.mkdtemp(prefix="gramian-chaos-"))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.e2e
@pytest.mark.timeout(900)  # a minute and a half on two idle cores
@pytest.mark.xdist_group("chaos")
@pytest.mark.parametrize(("variant", "seed"), [("cluster", 3), ("embedded", 3)])
def test_no_job_is_lost_doubled_or_stuck_while_everything_is_killed(variant: Variant, seed: int, folder: Path) -> None:
    run = chaos(Order(variant, jobs=24, kills=6, seed=seed), folder)
    print(report(run))
    assert not run.findings, f"{report(run)}\n{run.logs}"
    assert {one.question.kind for one in run.asked} == set(SHARES)
    assert set(run.done) == {fault.name for fault in FAULTS if variant in fault.variants}


def history(*statuses: tuple[str, int]) -> list[tuple[str, dict]]:
    return [("status", {"status": status, "attempt": attempt}) for status, attempt in statuses]


def test_a_history_with_takeovers_and_a_release_is_possible() -> None:
    begun = history(("queued", 0), ("running", 1), ("running", 2), ("queued", 2), ("running", 3))
    assert impossible([*begun, ("progress", {}), *history(("succeeded", 3))]) is None
    assert impossible(history(("queued", 0), ("cancelled", 0))) is None


@pytest.mark.parametrize(
    "events",
    [
        history(("queued", 0), ("running", 1)),  # has no end
        history(("queued", 0), ("running", 1), ("succeeded", 1), ("succeeded", 1)),  # two results
        history(("queued", 0), ("running", 1), ("running", 2), ("succeeded", 1)),  # a late writer's
        history(("queued", 0), ("succeeded", 0)),  # of nobody's work
        history(("queued", 0), ("running", 2), ("succeeded", 2)),  # an attempt is missing
        [*history(("queued", 0)), ("progress", {}), *history(("running", 1), ("succeeded", 1))],
    ],
)
def test_histories_that_break_the_rules_are_found(events: list[tuple[str, dict]]) -> None:
    assert impossible(events)
