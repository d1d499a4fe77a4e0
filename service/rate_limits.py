"""How many requests a caller may make a minute, counted in Redis for all processes of the service together."""

import logging
import math
import time
from dataclasses import dataclass

from limits import RateLimitItemPerMinute
from limits.storage import RedisStorage
from limits.strategies import SlidingWindowCounterRateLimiter
from redis import Redis, RedisError
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("gramian.service")

WINDOW_SECONDS = 60
PAUSE_SECONDS = 5.0  # after a failure the counter is left alone for so long: nobody waits for a Redis that is away


@dataclass(frozen=True)
class Allowance:
    """What a caller may still do."""

    limit: int
    remaining: int
    reset_seconds: int  # until there is more
    permitted: bool

    def headers(self) -> dict[str, str]:
        """As the IETF draft of RateLimit header fields has them."""
        return {
            "RateLimit-Policy": f'"requests";q={self.limit};w={WINDOW_SECONDS}',
            "RateLimit": f'"requests";r={self.remaining};t={self.reset_seconds}',
        }


class RateLimiter:
    """A sliding window for each account. While Redis is away everybody is let through."""

    def __init__(self, redis: Redis) -> None:
        storage = RedisStorage("redis://", connection_pool=redis.connection_pool, key_prefix="gramian-limits")
        self._window = SlidingWindowCounterRateLimiter(storage)
        self._paused_until = 0.0

    def take(self, account: str, per_minute: int) -> Allowance | None:
        """Count one request; None where it cannot be counted."""
        if time.monotonic() < self._paused_until:
            return None
        item = RateLimitItemPerMinute(per_minute)
        try:
            permitted = self._window.hit(item, account)
            stats = self._window.get_window_stats(item, account)
        except RedisError as error:
            self._paused_until = time.monotonic() + PAUSE_SECONDS
            log.warning("requests are not counted (%s)", type(error).__name__)
            return None
        wait = max(1, math.ceil(stats.reset_time - time.time()))
        return Allowance(per_minute, stats.remaining, wait, permitted)


class RateLimitHeaders:
    """Tells every caller that is counted what is left."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_allowance(message: Message) -> None:
            if message["type"] == "http.response.start" and (allowance := scope.get("allowance")):
                MutableHeaders(scope=message).update(allowance.headers())
            await send(message)

        await self.app(scope, receive, send_with_allowance)
