"""What the function of a kind is given, and where it may put things."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from sqlalchemy import Engine

from gramian.settings import Settings
from gramian.specs import EmbeddingSpec, PackingSpec
from gramian.toy_specs import ToyModelSpec
from workers.progress import Progress

Asked = TypeVar("Asked", EmbeddingSpec, PackingSpec, ToyModelSpec)


class TurnOver(Exception):
    """A run has kept what it finished, and gives way to others before it goes on."""


@dataclass(frozen=True)
class Run(Generic[Asked]):
    """One attempt at one analysis.

    Attributes
    ----------
    id : str
        Of the analysis.
    spec
        The question.
    identity
        What its source was resolved to when it was accepted; empty for kinds that read nothing.
    settings : Settings
        Of the worker.
    spool : Path
        A folder that is there for as long as the run lasts.
    progress : Progress
        To be told of every step; raises LeaseLost once the result is no longer wanted.
    engine : Engine
        Of the database, for kinds that keep parts of their result before the end.
    fence : int
        Of the claim that the run holds; whatever it keeps is written under it.
    """

    id: str
    spec: Asked
    identity: dict[str, Any]
    settings: Settings
    spool: Path
    progress: Progress
    engine: Engine
    fence: int
