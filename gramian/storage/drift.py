"""What a watch does when a revision's analysis has ended: compare it with the one before, and tell of the change."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from gramian.analyses import ENDED, Status
from gramian.storage.announcing import announce, announce_end
from gramian.storage.tables import AnalysisRow
from gramian.storage.watch_tables import WatchedRevisionRow, WatchRow
from gramian.watches import Change, Measured, changes, shifted


def tell_end(session: Session, analysis_id: str) -> None:
    """Everything that follows from the end of an analysis, in the transaction in which its row says so."""
    announce_end(session, analysis_id)
    watched = select(WatchedRevisionRow).where(WatchedRevisionRow.analysis_id == analysis_id)
    for revision in session.scalars(watched.order_by(WatchedRevisionRow.watch_id)).all():
        settle(session, revision.watch_id, revision.model_id)


def settle(session: Session, watch_id: str, model_id: str) -> None:
    """Compare, in the order in which they came, revisions that have ended, up to the first that has not.

    Whoever ends an analysis does so under the watch's lock: two that end at once see one another.
    """
    lock = select(WatchRow).where(WatchRow.id == watch_id).with_for_update(key_share=True)
    watch = session.scalars(lock.execution_options(populate_existing=True)).one_or_none()
    if watch is None:
        return
    unsettled = (
        select(WatchedRevisionRow)
        .where(
            WatchedRevisionRow.watch_id == watch_id,
            WatchedRevisionRow.model_id == model_id,
            WatchedRevisionRow.settled_at.is_(None),
        )
        .order_by(WatchedRevisionRow.id)
    )
    for revision in session.scalars(unsettled).all():
        analysis = _analysis(session, revision)
        if analysis is not None and analysis.status not in ENDED:
            break
        if analysis is not None and analysis.status == Status.SUCCEEDED:
            before = _before(session, revision, analysis)
            if before is not None:
                _tell_changes(session, watch, before, analysis)
        revision.settled_at = datetime.now(UTC)
    session.flush()


def _analysis(session: Session, revision: WatchedRevisionRow) -> AnalysisRow | None:
    """The revision's analysis as it is now; None if it was deleted."""
    if revision.analysis_id is None:
        return None
    return session.get(AnalysisRow, revision.analysis_id, populate_existing=True)


def _before(session: Session, revision: WatchedRevisionRow, analysis: AnalysisRow) -> AnalysisRow | None:
    """The analysis of the revision before: the latest that the watch met, else one that was asked for by hand."""
    met = (
        select(AnalysisRow)
        .join(WatchedRevisionRow, WatchedRevisionRow.analysis_id == AnalysisRow.id)
        .where(
            WatchedRevisionRow.watch_id == revision.watch_id,
            WatchedRevisionRow.model_id == revision.model_id,
            WatchedRevisionRow.id < revision.id,
            AnalysisRow.status == Status.SUCCEEDED,
        )
        .order_by(WatchedRevisionRow.id.desc())
        .limit(1)
    )
    return session.scalars(met).one_or_none() or _asked_by_hand(session, revision, analysis)


def _asked_by_hand(session: Session, revision: WatchedRevisionRow, analysis: AnalysisRow) -> AnalysisRow | None:
    """The latest analysis of the commit before, or of the branch where that commit is not known."""
    earlier = (
        select(AnalysisRow)
        .where(
            AnalysisRow.model_id == revision.model_id,
            AnalysisRow.status == Status.SUCCEEDED,
            AnalysisRow.commit != analysis.commit,
            AnalysisRow.commit == revision.previous if revision.previous else AnalysisRow.revision == analysis.revision,
            AnalysisRow.created_at < revision.created_at,
        )
        .order_by(AnalysisRow.finished_at.desc())
        .limit(20)
    )
    return next((row for row in session.scalars(earlier) if _is_comparable(row, analysis)), None)


def _is_comparable(before: AnalysisRow, after: AnalysisRow) -> bool:
    return before.method_version == after.method_version and before.excluded == after.excluded


def _tell_changes(session: Session, watch: WatchRow, before: AnalysisRow, after: AnalysisRow) -> None:
    if not _is_comparable(before, after):
        return
    found = changes(_measured(before), _measured(after))
    far = shifted(found, watch.epsilon_shift)
    crossed = [change for change in found if change.class_changed] if watch.class_change else []
    for event, told in (("model.epsilon_shifted", far), ("model.class_changed", crossed)):
        if told:
            data = _described(watch, before, after, told)
            announce(session, project_id=watch.project_id, type=event, data=data)


def _measured(analysis: AnalysisRow) -> list[Measured]:
    return [
        Measured(matrix.role, matrix.epsilon, matrix.epsilon_se, matrix.epsilon_class) for matrix in analysis.matrices
    ]


def _described(watch: WatchRow, before: AnalysisRow, after: AnalysisRow, changed: Sequence[Change]) -> dict[str, Any]:
    return {
        "watch_id": watch.id,
        "analysis_id": after.id,
        "previous_analysis_id": before.id,
        "model": {"id": after.model_id, "revision": after.revision, "commit": after.commit},
        "previous_commit": before.commit,
        "threshold": watch.epsilon_shift,
        "matrices": [
            {
                "role": change.role,
                "epsilon": change.after.epsilon,
                "standard_error": change.after.standard_error,
                "previous_epsilon": change.before.epsilon,
                "shift": change.shift,
                "class": change.after.epsilon_class,
                "previous_class": change.before.epsilon_class,
            }
            for change in changed
        ],
    }
