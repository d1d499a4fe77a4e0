"""Every row of the table of faults that jobs survive, each with real processes on PostgreSQL and Valkey."""

import signal
import threading
import time
import zlib

import httpx2
import psutil
import pytest
from redis import Redis
from rq import Queue
from rq.serializers import JSONSerializer
from sqlalchemy import text

from gramian.queues import message, queue_for
from tests.e2e.conftest import LEASE_SECONDS, TAKEOVER_SECONDS
from tests.hub.loopback import CHUNK, LoopbackHub
from tests.servers.cluster import Cluster, small_matrix, stop_and_continue

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("faults")]


def slow_model(hub: LoopbackHub, name: str, *, seconds: float) -> dict[str, str]:
    """A model whose bytes arrive so slowly that its job takes about so long, at no cost."""
    hub.add_model(
        f"slow/{name}", {"model.safetensors": small_matrix(zlib.crc32(name.encode()), rows=CHUNK // 4)}
    )  # 8 chunks
    hub.faults.chunk_seconds = seconds / 8
    return {"type": "hub", "model_id": f"slow/{name}"}


def test_the_api_killed_between_commit_and_push_delays_the_job_by_the_reconcile_interval(start) -> None:
    cluster = start()
    source, before = cluster.upload(1), rows(cluster)
    cluster.valkey.process.send_signal(signal.SIGSTOP)  # the push hangs
    asking = threading.Thread(target=lambda: _ask_in_vain(cluster, source))
    asking.start()
    (id,) = cluster.until(lambda: rows(cluster) - before, "the row is there")
    cluster.api.stop(signal.SIGKILL)
    asking.join()
    cluster.valkey.stop()  # and with it whatever the API had sent
    cluster.valkey.start()
    cluster.start_api()
    assert cluster.ended(id)["status"] == "succeeded"
    assert cluster.results(id) == 1


def test_the_api_killed_before_the_commit_leaves_no_row_and_has_promised_nothing(start) -> None:
    cluster = start(workers=0)
    source, before = cluster.upload(2), rows(cluster)
    answers: list[httpx2.Response] = []
    with cluster.engine.begin() as connection:
        connection.execute(text("LOCK TABLE analyses IN ACCESS EXCLUSIVE MODE"))
        asking = threading.Thread(target=lambda: answers.extend(_ask_in_vain(cluster, source)))
        asking.start()
        waits = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        cluster.until(lambda: connection.execute(waits).scalar(), "the API waits for the lock")
        cluster.api.stop(signal.SIGKILL)
        asking.join()
    assert not answers
    time.sleep(0.5)  # for the server to notice that its client is gone
    assert rows(cluster) == before
    cluster.start_api()


def _ask_in_vain(cluster: Cluster, source: dict[str, str]) -> list[httpx2.Response]:
    try:
        return [httpx2.post(f"{cluster.api.url}/v1/analyses", json={"kind": "embedding", "source": source}, timeout=60)]
    except httpx2.TransportError:
        return []


def rows(cluster: Cluster) -> set[str]:
    with cluster.engine.connect() as connection:
        return set(connection.execute(text("SELECT id FROM analyses")).scalars())


def test_valkey_killed_and_restarted_empty_loses_nothing(start, hub: LoopbackHub) -> None:
    cluster = start()
    running = cluster.ask(slow_model(hub, "redis", seconds=3))
    cluster.running_child(running)
    waiting = [cluster.ask(cluster.upload(seed)) for seed in range(10, 20)]
    cluster.valkey.stop()
    time.sleep(1)
    cluster.valkey.start()
    assert {cluster.ended(id)["status"] for id in [running, *waiting]} == {"succeeded"}
    assert {cluster.results(id) for id in [running, *waiting]} == {1}
    assert cluster.attempts(running) == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV], ids=["as out of memory", "segmentation fault"])
def test_a_child_that_dies_is_followed_by_another_and_there_is_one_result(start, hub, number: int) -> None:
    cluster = start()
    id = cluster.ask(slow_model(hub, f"child-{number}", seconds=3))
    cluster.running_child(id).send_signal(number)
    died = time.monotonic()
    cluster.until(lambda: cluster.attempts(id) == 2, "it runs again")
    assert time.monotonic() - died < TAKEOVER_SECONDS + 5  # seconds of grace for a busy machine
    assert cluster.ended(id)["status"] == "succeeded"
    assert (cluster.attempts(id), cluster.results(id)) == (2, 1)


def test_a_killed_worker_leaves_its_child_at_work(start, hub: LoopbackHub) -> None:
    cluster = start()
    id = cluster.ask(slow_model(hub, "worker", seconds=4))
    cluster.running_child(id)
    cluster.workers[0].kill()
    assert cluster.ended(id)["status"] == "succeeded"  # though no worker is left
    assert (cluster.attempts(id), cluster.results(id)) == (1, 1)
    cluster.start_worker()
    assert cluster.ended(cluster.ask(cluster.upload(30)))["status"] == "succeeded"


def test_worker_and_child_killed_together_are_replaced(start, hub: LoopbackHub) -> None:
    cluster = start()
    id = cluster.ask(slow_model(hub, "both", seconds=3))
    child = cluster.running_child(id)
    cluster.workers[0].kill()
    child.kill()
    cluster.start_worker()
    assert cluster.ended(id)["status"] == "succeeded"
    assert (cluster.attempts(id), cluster.results(id)) == (2, 1)


def test_what_wakes_up_after_its_lease_stores_nothing(start, hub: LoopbackHub) -> None:
    cluster = start(workers=2)
    id = cluster.ask(slow_model(hub, "stopped", seconds=3))
    child = cluster.running_child(id)
    worker = child.parent()
    assert worker is not None
    stop_and_continue([worker, child], seconds=3 * TAKEOVER_SECONDS)
    assert cluster.ended(id)["status"] == "succeeded"
    cluster.until(lambda: not child.is_running(), "the late child is gone")
    assert (cluster.attempts(id), cluster.results(id)) == (2, 1)
    assert [event.number for event in cluster.events(id)] == list(range(1, len(cluster.events(id)) + 1))


def test_running_work_goes_on_while_the_database_is_away_and_nothing_starts_twice(start, hub: LoopbackHub) -> None:
    cluster = start(workers=2)
    id = cluster.ask(slow_model(hub, "database", seconds=8))
    cluster.running_child(id)
    cluster.engine.dispose()
    cluster.postgres.kill()
    time.sleep(2 * LEASE_SECONDS)  # the lease has run out, and nobody could renew it
    cluster.postgres.start()
    assert cluster.ended(id)["status"] == "succeeded"
    assert (cluster.attempts(id), cluster.results(id)) == (1, 1)


def test_a_message_pushed_five_times_is_one_run(start, hub: LoopbackHub) -> None:
    cluster = start(workers=2)
    id = cluster.ask(slow_model(hub, "five", seconds=3))
    with Redis.from_url(cluster.valkey.url) as connection:
        queue = Queue(queue_for("interactive", None), connection=connection, serializer=JSONSerializer)
        for number in range(5):
            queue.enqueue_call(**(message(id, timeout_seconds=60) | {"job_id": f"{id}-{number}"}))
    assert cluster.ended(id)["status"] == "succeeded"
    with Redis.from_url(cluster.valkey.url) as connection:
        queue = Queue(queue_for("interactive", None), connection=connection, serializer=JSONSerializer)
        cluster.until(lambda: queue.is_empty() and not cluster.children(), "all messages are taken")
    assert (cluster.attempts(id), cluster.results(id)) == (1, 1)


def test_a_job_of_ten_lease_lengths_runs_once(start, hub: LoopbackHub) -> None:
    cluster = start(workers=2, GRAMIAN_LEASE_SECONDS="1")
    id = cluster.ask(slow_model(hub, "ten", seconds=12))
    begun = time.monotonic()
    assert cluster.ended(id)["status"] == "succeeded"
    assert time.monotonic() - begun > 10
    assert (cluster.attempts(id), cluster.results(id)) == (1, 1)


def test_a_poison_job_fails_after_three_deliveries_and_the_queue_goes_on(start, hub: LoopbackHub) -> None:
    cluster = start()
    id = cluster.ask(slow_model(hub, "poison", seconds=6))
    for attempt in range(1, 4):
        cluster.until(lambda n=attempt: cluster.attempts(id) == n, f"attempt {attempt}")
        cluster.running_child(id).kill()
    found = cluster.ended(id)
    assert (found["status"], found["error"]["code"]) == ("failed", "worker_died")
    assert "3 times" in found["error"]["detail"]
    assert cluster.attempts(id) == 3
    assert cluster.ended(cluster.ask(cluster.upload(40)))["status"] == "succeeded"


def test_a_cancelled_job_is_gone_within_two_seconds_though_its_worker_does_not_hear_of_it(start, hub) -> None:
    cluster = start()
    id = cluster.ask(slow_model(hub, "cancel", seconds=10))
    child = cluster.running_child(id)
    cluster.workers[0].send_signal(signal.SIGSTOP)  # the stop command reaches nobody
    cluster.valkey.stop()
    assert cluster.http.post(f"/v1/analyses/{id}/cancel").json()["status"] == "cancelled"
    psutil.wait_procs([child], timeout=2)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    cluster.workers[0].send_signal(signal.SIGCONT)
    cluster.valkey.start()
    assert cluster.ended(cluster.ask(cluster.upload(41)))["status"] == "succeeded"
    assert [event.data["status"] for event in cluster.events(id) if event.type == "status"][-1] == "cancelled"


def test_a_stopping_worker_gives_its_job_back_and_that_is_not_counted(start, hub: LoopbackHub) -> None:
    cluster = start(GRAMIAN_STOP_SECONDS="0.5", GRAMIAN_MAX_DELIVERIES="1")
    id = cluster.ask(slow_model(hub, "release", seconds=4))
    cluster.running_child(id)
    cluster.workers[0].terminate()
    assert cluster.workers[0].wait(timeout=20) == 0
    found = cluster.get(id)
    assert (found["status"], found["progress"]["stage"]) == ("queued", "waiting")
    cluster.start_worker()
    assert cluster.ended(id)["status"] == "succeeded"
    assert (cluster.attempts(id), cluster.results(id)) == (2, 1)


def test_a_worker_asked_to_end_while_valkey_is_away_ends_and_its_job_goes_on(start, hub: LoopbackHub) -> None:
    cluster = start(GRAMIAN_STOP_SECONDS="1")
    (worker,) = cluster.workers
    id = cluster.ask(slow_model(hub, "away", seconds=6))
    family = [cluster.running_child(id), *psutil.Process(worker.pid).children(recursive=True)]
    cluster.valkey.stop()
    try:
        worker.terminate()
        assert worker.wait(timeout=15) == 0, cluster.logs()
        _, alive = psutil.wait_procs(family, timeout=5)
        assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]
        cluster.start_worker()
        time.sleep(5)  # it finds no Valkey either
        idle = cluster.workers[-1]
        idle.terminate()
        idle.wait(timeout=15)
    finally:
        cluster.valkey.start()
    cluster.start_worker()
    assert cluster.ended(id)["status"] == "succeeded"
    assert cluster.results(id) == 1


def test_a_stopping_worker_lets_a_short_job_end(start, hub: LoopbackHub) -> None:
    cluster = start(GRAMIAN_STOP_SECONDS="30")
    id = cluster.ask(slow_model(hub, "short", seconds=2))
    cluster.running_child(id)
    cluster.workers[0].terminate()
    assert cluster.workers[0].wait(timeout=30) == 0
    assert cluster.get(id)["status"] == "succeeded"
    assert cluster.attempts(id) == 1


def test_a_job_that_stands_still_is_ended_and_tried_again(start, hub: LoopbackHub) -> None:
    cluster = start(GRAMIAN_STALL_SECONDS="1", GRAMIAN_MAX_FAILURES="2")
    id = cluster.ask(slow_model(hub, "stall", seconds=60))  # a chunk in more than 7 s, the Hub's silence allows 10
    waiting = cluster.until(lambda: _event(cluster, id, "queued", attempt=1), "it is given back")
    assert "no progress" in waiting["message"]
    found = cluster.ended(id)
    assert (found["status"], found["error"]["code"]) == ("failed", "stalled")
    assert cluster.attempts(id) == 2


def test_a_job_that_runs_too_long_is_ended_for_good(start, hub: LoopbackHub) -> None:
    cluster = start(GRAMIAN_JOB_TIMEOUT_SECONDS="2")
    id = cluster.ask(slow_model(hub, "long", seconds=20))
    found = cluster.ended(id)
    assert (found["status"], found["error"]["code"]) == ("failed", "timed_out")
    assert cluster.attempts(id) == 1


def test_a_dead_reconcile_loop_is_started_again(start, hub: LoopbackHub) -> None:
    cluster = start()
    loop = cluster.until(
        lambda: next((p for p in cluster.family() if "workers.reconcile" in p.cmdline()), None), "the loop is there"
    )
    loop.kill()
    cluster.until(
        lambda: [p for p in cluster.family() if "workers.reconcile" in p.cmdline() and p.pid != loop.pid],
        "there is another",
    )
    id = cluster.ask(slow_model(hub, "loop", seconds=2))
    cluster.running_child(id).kill()
    assert cluster.ended(id)["status"] == "succeeded"


def test_interactive_jobs_go_before_batch_and_a_required_gpu_is_waited_for(start) -> None:
    cluster = start(workers=0)
    batch = [cluster.ask(cluster.upload(seed), priority="batch") for seed in range(50, 53)]
    urgent = [cluster.ask(cluster.upload(seed)) for seed in range(60, 63)]
    on_gpu = cluster.ask(cluster.upload(70), device="cuda")
    on_cpu = cluster.ask(cluster.upload(70), device="cpu")
    cluster.start_worker()
    finished = sorted((cluster.ended(id)["finished_at"], id) for id in [*batch, *urgent])
    assert {id for _, id in finished[:3]} == set(urgent)
    assert cluster.ended(on_cpu)["provenance"]["device"] == "cpu"
    assert cluster.get(on_gpu)["status"] == "queued"  # no worker here has one
    assert cluster.http.post(f"/v1/analyses/{on_gpu}/cancel").json()["status"] == "cancelled"


def _event(cluster: Cluster, id: str, status: str, *, attempt: int) -> dict | None:
    for event in cluster.events(id):
        if event.data.get("status") == status and event.data["attempt"] == attempt:
            return event.data
    return None
