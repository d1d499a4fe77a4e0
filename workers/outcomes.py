"""How the child of a worker ended, told to the worker through memory that both share.

A child that is killed can tell nothing: then its last word, that it had begun, says enough.
"""

import mmap
from enum import IntEnum

from gramian.storage.jobs import Outcome
from workers.finish import Answer, Postponement, Release


class Ending(IntEnum):
    NOTHING_TO_DO = 0
    CRASHED = 1  # begun, and no other word since
    SUCCEEDED = 2
    FAILED = 3
    POSTPONED = 4
    RELEASED = 5
    LEASE_LOST = 6

    @classmethod
    def of(cls, answer: Answer) -> "Ending":
        match answer:
            case Outcome():
                return cls.SUCCEEDED
            case Postponement():
                return cls.POSTPONED
            case Release():
                return cls.RELEASED
            case _:
                return cls.FAILED


class SharedEnding:
    """One byte that survives the fork, and the death of who wrote it."""

    def __init__(self) -> None:
        self._byte = mmap.mmap(-1, 1)

    def set(self, ending: Ending) -> None:
        self._byte[0] = ending

    def get(self) -> Ending:
        return Ending(self._byte[0])
