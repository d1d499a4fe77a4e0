"""How much one access key may ask for; None is without limit."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace


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
