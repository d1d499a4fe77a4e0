"""What happens to analyses, for everybody who watches: one loop asks the database for all of them together."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from fastapi.concurrency import run_in_threadpool
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from gramian.analyses import ENDED
from gramian.storage.events import Event, Standing, events_after, standings

log = logging.getLogger("gramian.service")

SHORTEST_PAUSE_SECONDS = 0.01
PAUSES_A_QUERY = 9  # the loop sleeps so many times longer than its query took: a tenth of a core at most


@dataclass
class _Topic:
    """One analysis and all who watch it."""

    watchers: int = 0
    standing: Standing | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    events: list[Event] = field(default_factory=list)  # from the first; kept only if somebody wants them
    wants_events: bool = False

    def notify(self) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    @property
    def has_ended(self) -> bool:
        return self.standing is not None and self.standing.status in ENDED


class Feed:
    """Lets any number of requests watch without a thread or a query each. The loop runs only while somebody does."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._topics: dict[str, _Topic] = {}
        self._loop: asyncio.Task[None] | None = None
        self._closed = False

    async def wait(self, analysis_id: str, *, seconds: float) -> None:
        """Return when the analysis has ended, or after `seconds`."""
        async with self._watching(analysis_id) as topic:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while not (topic.has_ended or self._closed):
                        await topic.changed.wait()

    async def events(self, analysis_id: str, *, after: int) -> AsyncIterator[Event]:
        """The events after a number: those that were, then those that come, until the analysis has ended."""
        async with self._watching(analysis_id, wants_events=True) as topic:
            while not self._closed:
                changed = topic.changed  # taken before the events are read, so that none falls in between
                for event in topic.events[after:]:
                    yield event
                    after = event.number
                if topic.standing and topic.has_ended and len(topic.events) >= topic.standing.number:
                    return
                await changed.wait()

    def close(self) -> None:
        """Let all watchers go; they come back to another process with what they have seen."""
        self._closed = True
        for topic in self._topics.values():
            topic.notify()

    @asynccontextmanager
    async def _watching(self, analysis_id: str, *, wants_events: bool = False) -> AsyncIterator[_Topic]:
        topic = self._topics.setdefault(analysis_id, _Topic())
        topic.watchers += 1
        topic.wants_events |= wants_events
        if self._loop is None or self._loop.done():
            self._loop = asyncio.create_task(self._follow())
        try:
            yield topic
        finally:
            topic.watchers -= 1
            if not topic.watchers:
                self._topics.pop(analysis_id, None)

    async def _follow(self) -> None:
        while self._topics and not self._closed:
            started = time.monotonic()
            try:
                await self._look()
            except SQLAlchemyError as error:
                log.warning("watchers: the database did not answer just now (%s)", type(error).__name__)
            took = time.monotonic() - started
            await asyncio.sleep(max(SHORTEST_PAUSE_SECONDS, PAUSES_A_QUERY * took))

    async def _look(self) -> None:
        found = await run_in_threadpool(standings, self._engine, list(self._topics))
        for analysis_id, standing in found.items():
            topic = self._topics.get(analysis_id)
            if topic is None:
                continue
            if topic.wants_events and len(topic.events) < standing.number:
                topic.events += await run_in_threadpool(events_after, self._engine, analysis_id, len(topic.events))
                topic.standing = standing
                topic.notify()
            elif standing != topic.standing:
                topic.standing = standing
                topic.notify()
