"""Accepting in one word."""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine

from gramian.storage.unit_of_work import UnitOfWork
from tests.storage.questions import question


@pytest.fixture
def accept(engine: Engine) -> Callable[..., str]:
    def accept(name: str = "a", labels: dict[str, str] | None = None, **values: object) -> str:
        with UnitOfWork(engine) as uow:
            return uow.analyses.accept(question(name, **values), labels or {}).row.id

    return accept
