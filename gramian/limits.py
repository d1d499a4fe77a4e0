"""How much one access key may ask for; None is without limit."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from gramian.errors import GramianError


@dataclass(frozen=True)
class Limits:
    """Of a key; callers without one share an account."""

    requests_per_minute: int | None = None
    queued_jobs: int | None = None  # analyses that have not ended
    upload_bytes_per_day: int | None = None  # of the last 24 hours, also of what was deleted since

    def overridden(self, own: Mapping[str, int | None]) -> "Limits":
        """These, with what a key has of its own."""
        return replace(self, **{name: value for name, value in own.items() if value is not None})


LIMITS = tuple(field.name for field in fields(Limits))


class LimitReached(GramianError):
    """More was asked for than one caller may have at a time."""

    transient = True

    def __init__(self, message: str, *, retry_after: float, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class RateLimited(LimitReached):
    """More requests than a caller may make a minute."""

    code = "rate_limited"
    title = "Too many requests"
    advice = "wait as long as Retry-After says; RateLimit tells what is left"


class QuotaExceeded(LimitReached):
    """More work or bytes than a caller may have."""

    code = "quota_exceeded"
    title = "The quota is used up"
    advice = "wait, or ask the operator for more"
