"""How much unfinished work and how many bytes one caller may have; callers without a key share an account."""

import time

from gramian.limits import QuotaExceeded
from gramian.storage.unit_of_work import UnitOfWork
from service.callers import Caller

SOON_SECONDS = 30.0  # jobs end in seconds to minutes
DAY_SECONDS = 86_400.0


def check_queued_jobs(uow: UnitOfWork, caller: Caller) -> None:
    """Refuse, and with it take back, the analysis that is one too many. Askers with one key come one at a time."""
    most = caller.limits.queued_jobs
    if most is None:
        return
    uow.hold(f"jobs of {caller.actor}")
    if uow.analyses.unfinished(caller.key_id) > most:
        raise QuotaExceeded(
            f"{most} analyses of yours have not ended, the most there may be",
            retry_after=SOON_SECONDS,
            hint="wait for one to end, or cancel one",
        )


def check_uploaded_bytes(uow: UnitOfWork, caller: Caller, size: int) -> None:
    """Refuse bytes that would be too many within 24 hours."""
    most = caller.limits.upload_bytes_per_day
    if most is None:
        return
    uow.hold(f"uploads of {caller.actor}")
    sizes = uow.uploads.of_last_day(caller.key_id)
    over = sum(uploaded for _, uploaded in sizes) + size - most
    if over <= 0:
        return
    wait = DAY_SECONDS
    for created, uploaded in sizes:  # the oldest first: when enough of them are a day old
        over -= uploaded
        if over <= 0:
            wait = created.timestamp() + DAY_SECONDS - time.time()
            break
    raise QuotaExceeded(
        f"{size:,} bytes more would be above {most:,} in 24 hours",
        retry_after=max(wait, 1.0),
        hint="wait, upload only the vocabulary matrices, or ask the operator for more",
    )
