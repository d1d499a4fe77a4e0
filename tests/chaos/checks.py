"""What must be true after a run, however it was disturbed. Each check returns what it found wrong, in words."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Engine, select

from gramian.storage.tables import AnalysisRow, EventRow, MatrixRow
from tests.chaos.callers import ENDED, Asked

SAME = 1e-6  # relative


def findings(asked: Sequence[Asked], engine: Engine) -> list[str]:
    """Everything wrong with what callers were told and with what is stored."""
    stories = _stories(engine)
    found = [finding for one in asked for finding in _told(one)]
    found += _accepted_once(asked, set(stories))
    found += [f"{id}: {finding}" for id, story in stories.items() for finding in _story(*story)]
    found += [finding for one in asked for finding in _agrees(one, stories)]
    return found


Story = tuple[AnalysisRow, list[EventRow], list[MatrixRow]]


def _stories(engine: Engine) -> dict[str, Story]:
    with engine.connect() as connection:
        rows = connection.execute(select(AnalysisRow.__table__)).all()
        events = connection.execute(select(EventRow.__table__).order_by("analysis_id", "number")).all()
        matrices = connection.execute(select(MatrixRow.__table__).order_by("analysis_id", "position")).all()
    stories: dict[str, Any] = {row.id: (row, [], []) for row in rows}
    for event in events:
        stories[event.analysis_id][1].append(event)
    for matrix in matrices:
        stories[matrix.analysis_id][2].append(matrix)
    return stories


def _told(one: Asked) -> Iterable[str]:
    """The caller got the right answer: nothing is lost, stuck or wrong."""
    name, expected = f"{one.question.kind} {one.question.number} {sorted(one.ids)}", one.question.expected
    if one.trouble:
        yield f"{name}: no answer after {one.seconds:.0f} s: {one.trouble}"
        return
    if expected.is_refused:
        if one.refusal != expected.code:
            yield f"{name}: refused with {one.refusal}, not {expected.code}"
        return
    if one.final is None:
        yield f"{name}: no end"
        return
    status, error = one.final["status"], one.final["error"]
    if status == "cancelled":
        if not expected.may_be_cancelled:
            yield f"{name}: cancelled, and nobody did"
    elif expected.code:
        if status != "failed" or error["code"] != expected.code:
            yield f"{name}: {status} {error}, not failed with {expected.code}"
    elif status != "succeeded":
        yield f"{name}: {status}: {error}"
    else:
        result = one.final["result"]
        matrices = result.get("matrices")
        epsilons = [result["epsilon"]] if matrices is None else [matrix["epsilon"]["value"] for matrix in matrices]
        if not _same(epsilons, expected.epsilons):
            yield f"{name}: ε {epsilons}, not {expected.epsilons}"


def _accepted_once(asked: Sequence[Asked], stored: set[str]) -> Iterable[str]:
    """One question, one key, one row: none lost, none doubled, none that nobody knows of."""
    known = Counter(id for one in asked for id in one.ids)
    yield from (
        f"{one.question.kind} {one.question.number}: several ids {one.ids}" for one in asked if len(one.ids) > 1
    )
    yield from (f"{id}: answers {count} questions" for id, count in known.items() if count > 1)
    yield from (f"{id}: accepted, and not stored" for id in known.keys() - stored)
    yield from (f"{id}: stored, and no caller knows of it" for id in stored - known.keys())


def _story(row: AnalysisRow, events: Sequence[EventRow], matrices: Sequence[MatrixRow]) -> Iterable[str]:
    """Row, events and matrices tell the same story, which is a possible one."""
    if row.status not in ENDED:
        yield f"stuck as {row.status}"
    numbers = [event.number for event in events]
    if numbers != list(range(1, row.events + 1)):
        yield f"events {numbers}, the row counts {row.events}"
    if finding := impossible([(event.type, event.data) for event in events]):
        yield finding
    attempts = sum(event.type == "status" and event.data["status"] == "running" for event in events)
    if not (attempts == row.fence and 0 <= row.deliveries <= row.fence):
        yield f"{attempts} attempts in the events, fence {row.fence}, deliveries {row.deliveries}"
    if bool(_stored_epsilons(row, matrices)) != (row.status == "succeeded"):
        yield f"{row.status} with {len(matrices)} matrices and the answer {row.answer}"
    if (row.error is not None) != (row.status == "failed"):
        yield f"{row.status} with error {row.error}"


def impossible(events: Sequence[tuple[str, dict[str, Any]]]) -> str | None:
    """Why these events cannot have happened in this order, if so."""
    status, attempt = None, 0
    for position, (type, data) in enumerate(events, start=1):
        if status in ENDED:
            return f"event {position} comes after the end"
        if type == "progress":
            if status != "running":
                return f"event {position}: progress while {status}"
            continue
        now = data["status"]
        possible = {None: ["queued"], "queued": ["running", "cancelled"], "running": ["running", "queued", *ENDED]}
        if now not in possible[status]:
            return f"event {position}: {now} after {status}"
        if data["attempt"] != attempt + (now == "running"):
            return f"event {position}: {now} in attempt {data['attempt']} after attempt {attempt}"
        status, attempt = now, data["attempt"]
    return None if status in ENDED else f"the last status is {status}"


def _agrees(one: Asked, stories: dict[str, Story]) -> Iterable[str]:
    """What one caller saw is what is stored: the result, and every event once."""
    if one.final is None or one.final["id"] not in stories:
        return
    row, events, matrices = stories[one.final["id"]]
    if one.final["status"] != row.status:
        yield f"{row.id}: told {one.final['status']}, stored {row.status}"
    stored = _stored_epsilons(row, matrices)
    if row.status == "succeeded" and not _same(stored, one.question.expected.epsilons):
        yield f"{row.id}: stored ε {stored}, not {one.question.expected.epsilons}"
    if one.events is not None:
        received = [(event["number"], event["type"], event["data"]) for event in one.events]
        written = [(event.number, event.type, event.data) for event in events]
        if received != written:
            numbers = [number for number, _, _ in received]
            yield f"{row.id}: its watcher received events {numbers}, {len(written)} are stored"


def _stored_epsilons(row: AnalysisRow, matrices: Sequence[MatrixRow]) -> list[float]:
    return [row.answer["epsilon"]] if row.answer else [matrix.epsilon for matrix in matrices]


def _same(found: Sequence[float], expected: Sequence[float]) -> bool:
    return len(found) == len(expected) and all(
        math.isclose(a, b, rel_tol=SAME) for a, b in zip(found, expected, strict=True)
    )


def attempts(engine: Engine) -> Counter[int]:
    """How many analyses were begun how often."""
    with engine.connect() as connection:
        return Counter(connection.scalars(select(AnalysisRow.fence)))
