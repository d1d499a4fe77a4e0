"""Waiting for analyses to end: one loop asks the database for all callers together."""

import asyncio
import logging
from collections import defaultdict

from fastapi.concurrency import run_in_threadpool
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from gramian.storage.analyses import ended_among

log = logging.getLogger("gramian.service")

POLL_SECONDS = 0.01  # one indexed query for all waiting callers; runs only while somebody waits


class Completions:
    """Lets any number of requests wait without a thread or a query each."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._loop: asyncio.Task[None] | None = None

    async def wait(self, analysis_id: str, *, seconds: float) -> None:
        """Return when the analysis has ended, or after `seconds`."""
        ended = asyncio.Event()
        self._waiting[analysis_id].add(ended)
        if self._loop is None or self._loop.done():
            self._loop = asyncio.create_task(self._watch())
        try:
            async with asyncio.timeout(seconds):
                await ended.wait()
        except TimeoutError:
            pass
        finally:
            self._waiting[analysis_id].discard(ended)
            if not self._waiting[analysis_id]:
                del self._waiting[analysis_id]

    async def close(self) -> None:
        """Let all callers go."""
        for events in self._waiting.values():
            for event in events:
                event.set()
        if self._loop:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)

    async def _watch(self) -> None:
        while self._waiting:
            try:
                ended = await run_in_threadpool(ended_among, self._engine, list(self._waiting))
            except SQLAlchemyError as error:
                log.warning("waiting callers: the database did not answer just now (%s)", type(error).__name__)
                ended = set()
            for analysis_id in ended:
                for event in self._waiting.get(analysis_id, ()):
                    event.set()
            await asyncio.sleep(POLL_SECONDS)
