"""Watches in domain terms: a push becomes an analysis for each watch that covers it, once."""

from dataclasses import dataclass
from typing import Any

from gramian.analyses import ENDED
from gramian.projects import EVERY
from gramian.pushes import Push
from gramian.queues import Priority
from gramian.specs import EmbeddingSpec, HubSource, Spec
from gramian.storage.audit import HOOK
from gramian.storage.drift import settle
from gramian.storage.tables import AnalysisRow
from gramian.storage.unit_of_work import UnitOfWork
from gramian.storage.watch_tables import WatchedRevisionRow, WatchRow
from gramian.weights.hub import HubIdentity
from service.dependencies import Services
from service.rows import new_row, pin_to_commit, tell_workers

PRIORITY: Priority = "batch"  # nobody is waiting for it


@dataclass(frozen=True)
class Followed:
    """What came of a push for one watch."""

    watch_id: str
    analysis_id: str | None
    is_new: bool


def follow(services: Services, push: Push, *, request_id: str) -> list[Followed]:
    """Analyse what was pushed for each watch of any project that covers it and has not met it.

    Nothing is asked of the Hub: the push says the commit, and a worker reads it. So the answer is quick, whatever the
    Hub does.
    """
    with UnitOfWork(services.engine, project=EVERY, writes=False) as uow:
        projects = {watch.project_id for watch in uow.watches.covering(push.model_id, push.branch)}
    found: list[Followed] = []
    for project_id in sorted(projects):
        with UnitOfWork(services.engine, project=project_id, actor=HOOK) as uow:
            watches = uow.watches.covering(push.model_id, push.branch)
            found += [_follow(services, uow, watch, push, request_id) for watch in watches]
    return found


def _follow(services: Services, uow: UnitOfWork, watch: WatchRow, push: Push, request_id: str) -> Followed:
    revision = uow.watches.enrol(watch, push)
    if revision is None:
        met = uow.watches.revision(watch, push.model_id, push.commit)
        return Followed(watch.id, met.analysis_id if met else None, is_new=False)
    spec = question_of(watch, push.model_id)
    analysis = new_row(spec)
    pin_to_commit(analysis, spec, HubIdentity(push.model_id, push.branch, push.commit))
    analysis.priority, analysis.required_device, analysis.request_id = PRIORITY, spec.device, request_id
    accepted = uow.analyses.accept(analysis, {})
    row = accepted.row
    _attach(uow, [revision], row)
    uow.audit.note("analysis.submitted", row.id, kind=row.kind, new=accepted.is_new, watch=watch.id)
    tell_workers(services, uow, accepted)
    services.metrics.count_question(spec.kind, PRIORITY, is_new=accepted.is_new)
    return Followed(watch.id, row.id, is_new=True)


def question_of(watch: WatchRow, model_id: str) -> EmbeddingSpec:
    """What a watch asks of each revision of a model."""
    return EmbeddingSpec(source=HubSource(type="hub", model_id=model_id, revision=watch.revision), **watch.question)


class Enrolment:
    """A revision that is analysed by hand, for the watches that ask the same of it."""

    def __init__(self, uow: UnitOfWork, spec: Spec, analysis: AnalysisRow) -> None:
        self._uow = uow
        self._push = Push(analysis.model_id or "", analysis.revision or "", analysis.commit or "")
        self._met: list[WatchRow] = []
        self._revisions: list[WatchedRevisionRow] = []
        asked = _beside_source(spec)
        if not analysis.commit:
            return
        for watch in uow.watches.covering(self._push.model_id, self._push.branch):
            if _beside_source(question_of(watch, self._push.model_id)) != asked:
                continue
            revision = uow.watches.enrol(watch, self._push)
            if revision is None:
                self._met.append(watch)
            else:
                self._revisions.append(revision)

    def attach(self, analysis: AnalysisRow) -> None:
        """Say which analysis it became."""
        for watch in self._met:
            self._uow.watches.renew(watch, self._push, analysis)
        _attach(self._uow, self._revisions, analysis)


def _attach(uow: UnitOfWork, revisions: list[WatchedRevisionRow], analysis: AnalysisRow) -> None:
    for revision in revisions:
        revision.analysis_id = analysis.id
    uow.session.flush()
    if analysis.status in ENDED:
        for revision in revisions:
            settle(uow.session, revision.watch_id, revision.model_id)


def _beside_source(spec: Spec) -> dict[str, Any]:
    return {name: value for name, value in spec.parameters().items() if name not in ("source", "device")}
