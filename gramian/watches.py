"""Watches: which models they cover, and which change between two revisions is worth telling."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

ANY = "*"


def covers(pattern: str, model_id: str) -> bool:
    """Whether a model id, in which `*` stands for anything, means this model.

    Examples
    --------
    >>> covers("org/*", "org/m"), covers("org/m", "org/m2"), covers("*/step-*", "org/step-1000")
    (True, False, True)
    """
    return re.fullmatch(".*".join(map(re.escape, pattern.split(ANY))), model_id) is not None


@dataclass(frozen=True)
class Measured:
    """What a watch looks at: one matrix of one revision."""

    role: str
    epsilon: float
    standard_error: float | None
    epsilon_class: str


@dataclass(frozen=True)
class Change:
    """One matrix in two revisions."""

    role: str
    before: Measured
    after: Measured

    @property
    def shift(self) -> float:
        return self.after.epsilon - self.before.epsilon

    @property
    def class_changed(self) -> bool:
        return self.after.epsilon_class != self.before.epsilon_class


def changes(before: Sequence[Measured], after: Sequence[Measured]) -> list[Change]:
    """The matrices that both revisions have."""
    earlier = {matrix.role: matrix for matrix in before}
    return [Change(matrix.role, earlier[matrix.role], matrix) for matrix in after if matrix.role in earlier]


def shifted(found: Sequence[Change], threshold: float | None) -> list[Change]:
    """Those whose ε moved by the threshold or more, in either direction; None tells of none."""
    return [change for change in found if threshold is not None and abs(change.shift) >= threshold]
