"""One sweep on two workers: every cell trained once, by either, and whoever is killed or stopped is done without."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from sqlalchemy import Row, select

from gramian.geometry.toy_measures import run_cell
from gramian.storage.tables import ToyCellRow
from gramian.toy_specs import ToyModelSpec
from tests.servers.cluster import Cluster

pytestmark = pytest.mark.e2e

CELLS = 12
SWEEP = {
    "kind": "toy_model",
    "features": 300,
    "dims": list(range(4, 4 + CELLS)),
    "weight_decay": -1.0,
    "frequencies": {"law": "power", "exponent": 1.0},
    "batch": 256,
    "steps": 1_000,
}


def cells_of(cluster: Cluster, sweep: str) -> list[Row[Any]]:
    columns = (ToyCellRow.number, ToyCellRow.attempts, ToyCellRow.fence, ToyCellRow.lease_until)
    query = select(*columns, ToyCellRow.result.is_not(None).label("is_finished"))
    query = query.where(ToyCellRow.analysis_id == sweep)
    with cluster.engine.connect() as connection:
        return list(connection.execute(query.order_by(ToyCellRow.number)))


def helped(cluster: Cluster, sweep: str) -> set[int]:
    """Finished cells that a helper trained."""
    return {cell.number for cell in cells_of(cluster, sweep) if cell.is_finished and cell.fence is None}


def children_of(cluster: Cluster, number: int) -> list[psutil.Process]:
    worker = psutil.Process(cluster.workers[number].pid)
    return [child for child in worker.children() if child.pid in {found.pid for found in cluster.children()}]


def begin(cluster: Cluster, seed: int, **more: Any) -> str:
    answer = cluster.http.post("/v1/analyses", json=SWEEP | {"seed": seed, **more})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def shared_sweep(cluster: Cluster, seed: int, **env: str) -> tuple[str, psutil.Process, psutil.Process]:
    """A sweep that the first worker holds, and the second helps with; their children."""
    sweep = begin(cluster, seed)
    holder = cluster.running_child(sweep)
    cluster.start_worker(**env)
    cluster.until(lambda: helped(cluster, sweep), "a helper has finished a cell")
    return sweep, holder, training(cluster, sweep)


def training(cluster: Cluster, sweep: str) -> psutil.Process:
    """The second worker's child, once it is in the middle of a cell."""
    cluster.until(
        lambda: [c for c in cells_of(cluster, sweep) if c.fence is None and not c.is_finished], "a helper trains"
    )
    child: psutil.Process = cluster.until(lambda: next(iter(children_of(cluster, 1)), None), "a helper's child")
    return child


def assert_complete(cluster: Cluster, sweep: str, *, again: int) -> list[Row[Any]]:
    """It succeeded with every cell, of which at most so many were begun twice; events are without gaps."""
    answer = cluster.ended(sweep, seconds=120)
    assert answer["status"] == "succeeded", answer["error"]
    assert [cell["dim"] for cell in answer["result"]["cells"]] == SWEEP["dims"]
    found = cells_of(cluster, sweep)
    assert [cell.number for cell in found] == list(range(CELLS))
    assert sum(cell.attempts for cell in found) <= CELLS + again
    events = cluster.events(sweep)
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert cluster.results(sweep) == 1
    return found


def is_gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_two_workers_share_a_sweep_and_each_cell_is_what_training_it_alone_gives(start) -> None:
    cluster = start()
    sweep, _, _ = shared_sweep(cluster, seed=11)
    found = assert_complete(cluster, sweep, again=0)
    assert {cell.fence for cell in found} == {None, 1}  # the helper's and the holder's
    fractions = [event.data["fraction"] for event in cluster.events(sweep) if event.data.get("fraction") is not None]
    assert fractions == sorted(fractions)
    told = cluster.get(sweep)["result"]["cells"]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as the workers do for cells of this size
    for number, cell in enumerate(ToyModelSpec.model_validate(SWEEP | {"seed": 11}).cells()):
        if number in (0, min(helped(cluster, sweep)), CELLS - 1):
            assert told[number]["loss"] == pytest.approx(run_cell(cell).loss, rel=1e-3)
    torch.set_num_threads(threads)


def test_one_worker_trains_a_sweep_alone_and_the_calls_for_help_come_to_nothing(start) -> None:
    cluster = start()
    sweep = begin(cluster, seed=12, steps=100)
    found = assert_complete(cluster, sweep, again=0)
    assert {cell.fence for cell in found} == {1}
    other = begin(cluster, seed=13, steps=100)
    assert_complete(cluster, other, again=0)
    cluster.until(lambda: not cluster.children(), "no call for help is left")


def test_a_helper_that_is_killed_is_done_without(start) -> None:
    cluster = start()
    sweep, _, helper = shared_sweep(cluster, seed=14)
    cluster.workers[1].kill()
    helper.kill()
    before = {cell.number for cell in cells_of(cluster, sweep) if cell.is_finished}
    found = assert_complete(cluster, sweep, again=1)
    assert {found[number].attempts for number in before} == {1}
    assert cluster.attempts(sweep) == 1


def test_a_helper_whose_worker_is_stopped_gives_its_cell_back_at_once(start) -> None:
    cluster = start()
    sweep, _, helper = shared_sweep(cluster, seed=15, GRAMIAN_STOP_SECONDS="0.1", GRAMIAN_LEASE_SECONDS="60")
    cluster.workers[1].send_signal(signal.SIGTERM)
    cluster.until(lambda: is_gone(helper), "the helper is gone", seconds=5)
    assert {cell.lease_until for cell in cells_of(cluster, sweep)} == {None}  # neither running nor run out
    assert_complete(cluster, sweep, again=1)
    assert cluster.attempts(sweep) == 1


def test_a_helpers_cells_outlive_the_run_that_asked_for_them(start) -> None:
    cluster = start()
    sweep, holder, _ = shared_sweep(cluster, seed=16)
    cluster.workers[0].kill()
    holder.kill()
    before = {cell.number for cell in cells_of(cluster, sweep) if cell.is_finished}
    assert helped(cluster, sweep)
    found = assert_complete(cluster, sweep, again=1)
    assert {found[number].attempts for number in before} == {1}
    assert cluster.attempts(sweep) == 2


def test_a_cancelled_sweep_has_no_process_left_after_two_seconds(start) -> None:
    cluster = start()
    sweep, holder, helper = shared_sweep(cluster, seed=17)
    asked = time.monotonic()
    assert cluster.http.post(f"/v1/analyses/{sweep}/cancel").json()["status"] == "cancelled"
    after = [cell.number for cell in cells_of(cluster, sweep) if cell.is_finished]
    cluster.until(lambda: is_gone(holder) and is_gone(helper), "both children are gone")
    assert time.monotonic() - asked < 2
    cluster.until(lambda: not cluster.children(), "nobody goes on")
    assert [cell.number for cell in cells_of(cluster, sweep) if cell.is_finished] == after


@pytest.fixture
def on_sqlite(tmp_path: Path) -> Iterator[Cluster]:
    env = {
        "GRAMIAN_DATABASE_URL": f"sqlite:///{tmp_path / 'gramian.db'}",
        "GRAMIAN_LEASE_SECONDS": "3",
        "GRAMIAN_RECONCILE_SECONDS": "0.5",
    }
    cluster = Cluster(tmp_path, env=env)
    yield cluster
    cluster.stop()


def test_two_workers_share_a_sweep_on_sqlite_and_one_is_killed(on_sqlite: Cluster) -> None:
    on_sqlite.start_worker()
    sweep, _, helper = shared_sweep(on_sqlite, seed=19)
    helper.kill()
    found = assert_complete(on_sqlite, sweep, again=1)
    assert {cell.fence for cell in found} == {None, 1}
