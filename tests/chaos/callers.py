"""Callers as they should be: they try again with the same Idempotency-Key, and follow events with Last-Event-ID."""

import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2

from tests.chaos.questions import Question

ENDED = ("succeeded", "failed", "cancelled")
TRY_AGAIN = (408, 429, 502, 503, 504)  # what a good client repeats; a 500 is a defect, and is not
SILENCE_SECONDS = 20  # the service sends a sign of life every 15
POLL_SECONDS = 0.5


class GaveUp(Exception):
    """The service did not do it in the time that a caller has."""


class Refused(Exception):
    """A 4xx, or a defect: trying again would not help."""

    def __init__(self, answer: httpx2.Response) -> None:
        super().__init__(f"{answer.request.method} {answer.request.url.path}: {answer.status_code} {answer.text}")
        self.code: str = answer.json()["code"] if "problem" in answer.headers.get("content-type", "") else ""
        self.status = answer.status_code


@dataclass
class Asked:
    """One question's story, as its caller saw it."""

    question: Question
    ids: set[str] = field(default_factory=set)  # in all answers to the one key: never more than one
    final: dict[str, Any] | None = None
    events: list[dict[str, Any]] | None = None  # of a caller who followed them: number, type, data
    refusal: str | None = None  # code
    trouble: str | None = None  # why there is no answer
    seconds: float = 0.0


class Caller:
    """Asks the services at `urls`, whichever answers."""

    def __init__(self, urls: Sequence[str], *, seed: int, patience_seconds: float) -> None:
        self._draw = random.Random(seed)
        self._patience = patience_seconds
        self._clients = [
            httpx2.Client(
                base_url=url, timeout=SILENCE_SECONDS, trust_env=False, limits=httpx2.Limits(max_connections=4)
            )
            for url in urls
        ]
        self.repeated: Counter[str] = Counter()  # requests sent again, by what happened; streams picked up again

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def ask(self, question: Question, *, watches: bool) -> Asked:
        asked = Asked(question)
        started = time.monotonic()
        self._deadline = started + self._patience
        try:
            self._ask(asked, watches=watches)
        except (GaveUp, Refused) as error:
            if isinstance(error, Refused) and question.expected.is_refused:
                asked.refusal = error.code
            else:
                asked.trouble = f"{type(error).__name__}: {error}"
        asked.seconds = time.monotonic() - started
        if question.file:
            question.file.unlink()
        return asked

    def _ask(self, asked: Asked, *, watches: bool) -> None:
        question = asked.question
        source = question.source
        if question.upload:
            parameters = {"filename": question.filename}
            upload = self._send("POST", "/v1/uploads", params=parameters, content=question.upload).json()
            source = {"type": "upload", "upload_id": upload["id"]}
        asks = question.parameters or {"kind": "embedding", "source": source}
        body = asks | {"priority": self._draw.choice(["interactive", "batch"])}
        headers = {"Idempotency-Key": f"chaos-{question.number}"}
        analysis = self._send("POST", "/v1/analyses", json=body, headers=headers).json()
        asked.ids.add(analysis["id"])
        if self._draw.random() < 0.1:  # as one does who has lost the answer
            asked.ids.add(self._send("POST", "/v1/analyses", json=body, headers=headers).json()["id"])
        path = f"/v1/analyses/{analysis['id']}"
        if question.cancel_after is not None:
            time.sleep(question.cancel_after)
            self._cancel(path)
        if watches:
            asked.events = []
            self._follow(path, asked.events)
        asked.final = self._ended(path)

    def _cancel(self, path: str) -> None:
        try:
            self._send("POST", f"{path}/cancel")
        except Refused as refused:
            if refused.code != "conflict":  # it has ended before
                raise

    def _ended(self, path: str) -> dict[str, Any]:
        while (analysis := self._send("GET", path).json())["status"] not in ENDED:
            self._pause(POLL_SECONDS, f"{path} is still {analysis['status']}: {analysis['progress']}")
        return analysis

    def _send(self, method: str, path: str, **request: Any) -> httpx2.Response:
        while True:
            try:
                answer = self._draw.choice(self._clients).request(method, path, **request)
                if answer.status_code < 400:
                    return answer
                if answer.status_code not in TRY_AGAIN and _code(answer) != "request_in_progress":
                    raise Refused(answer)
                why = str(answer.status_code)
            except httpx2.TransportError as error:
                why = type(error).__name__
            self.repeated[why] += 1
            self._pause(self._draw.uniform(0.1, 0.6), f"{method} {path}: {why}")

    def _follow(self, path: str, events: list[dict[str, Any]]) -> None:
        """Receive every event up to the last, across the death of whoever sends them."""
        while True:
            try:
                headers = {"Last-Event-ID": str(events[-1]["number"])} if events else {}
                with self._draw.choice(self._clients).stream("GET", f"{path}/events", headers=headers) as answer:
                    if answer.status_code == 204:
                        return
                    if answer.status_code == 200:
                        events.extend(_events(answer.iter_lines()))
                    elif answer.status_code not in TRY_AGAIN:
                        answer.read()
                        raise Refused(answer)
                    why = f"stream ended, {answer.status_code}"
            except httpx2.TransportError as error:
                why = type(error).__name__
            if events and events[-1]["data"].get("status") in ENDED:
                return
            self.repeated[f"{why} (events)"] += 1
            self._pause(self._draw.uniform(0.05, 0.3), f"{path}/events: {why} after {len(events)} events")

    def _pause(self, seconds: float, doing: str) -> None:
        if time.monotonic() > self._deadline:
            raise GaveUp(doing)
        time.sleep(seconds)


def _code(answer: httpx2.Response) -> str:
    return str(answer.json()["code"]) if "problem" in answer.headers.get("content-type", "") else ""


def _events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """Events of a stream as they arrive; one that is cut off in the middle does not count."""
    fields: dict[str, str] = {}
    for line in lines:
        if not line:
            if "data" in fields:
                yield {"number": int(fields["id"]), "type": fields["event"], "data": json.loads(fields["data"])}
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
