"""A run as tables in Markdown, to print and to keep."""

from collections import Counter
from collections.abc import Iterable, Sequence

from tests.chaos.callers import Asked
from tests.chaos.harm import FAULTS
from tests.chaos.questions import SHARES
from tests.chaos.run import Run

OUTCOMES = ("succeeded", "failed", "cancelled", "refused", "no answer")
FORMS = {"cluster": "two APIs, two workers, PostgreSQL, Valkey", "embedded": "`gramian serve`: SQLite, its own Valkey"}


def report(run: Run) -> str:
    """What was asked, what was done to it, what came of it."""
    return "\n\n".join([_heading(run), _faults(run), _jobs(run), _facts(run), _verdict(run)])


def _heading(run: Run) -> str:
    order = run.order
    return (
        f"**{FORMS[order.variant]}**: {len(run.asked):,} jobs from {order.callers} callers, {sum(run.done.values())} "
        f"faults ({run.kills} kills), seed {order.seed}, {run.seconds / 60:.1f} minutes"
    )


def _faults(run: Run) -> str:
    return _table(("fault", "times"), [(fault.name, run.done[fault.name]) for fault in FAULTS if run.done[fault.name]])


def _jobs(run: Run) -> str:
    outcomes: dict[str, Counter[str]] = {kind: Counter() for kind in SHARES}
    for one in run.asked:
        outcomes[one.question.kind][_outcome(one)] += 1
    rows = [(kind, *(found[outcome] or "" for outcome in OUTCOMES)) for kind, found in outcomes.items() if found]
    return _table(("jobs", *OUTCOMES), rows)


def _outcome(one: Asked) -> str:
    if one.refusal:
        return "refused"
    return one.final["status"] if one.final and not one.trouble else "no answer"


def _facts(run: Run) -> str:
    begun = ", ".join(f"{count:,} × {times}" for times, count in sorted(run.attempts.items()))
    watched = [one for one in run.asked if one.events is not None]
    events = sum(len(one.events or ()) for one in watched)
    seconds = sorted(one.seconds for one in run.asked)
    lines = [
        f"analyses by the number of attempts: {begun}",
        f"event streams followed to the end: {len(watched):,}, {events:,} events",
        f"requests repeated and streams picked up again: {_words(run.repeated)}",
        f"processes that ended by themselves and were started again: {_words(run.exits)}",
        f"from question to answer: median {seconds[len(seconds) // 2]:.1f} s, longest {seconds[-1]:.1f} s",
    ]
    return "\n".join(f"- {line}" for line in lines)


def _verdict(run: Run) -> str:
    if run.findings:
        shown = "\n".join(f"- {finding}" for finding in run.findings[:100])
        return f"**{len(run.findings)} findings**\n\n{shown}"
    return "0 lost, 0 doubled, 0 wrong, 0 stuck, 0 orphans, every event stream complete."


def _words(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
