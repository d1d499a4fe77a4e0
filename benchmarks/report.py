"""The measurements as one table, and what they are held against."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Series:
    """The runs of one contender: seconds from start to answer, of its steps, and peak bytes, one a run."""

    name: str
    seconds: Sequence[float]
    peak_bytes: Sequence[int]
    steps: Sequence[dict[str, float]] = ()

    @property
    def typical(self) -> float:
        return median(self.seconds)

    @property
    def typical_peak(self) -> float:
        return median(self.peak_bytes)

    def typical_steps(self) -> dict[str, float]:
        """Medians of the steps that every run has."""
        names = self.steps[0] if self.steps else {}
        return {name: median(run[name] for run in self.steps) for name in names}


@dataclass(frozen=True)
class Goal:
    """A ratio of two medians and the least that it should be."""

    words: str
    ratio: float
    least: float

    @property
    def met(self) -> bool:
        return self.ratio >= self.least


def goals(*, published: Series, service: Series, moments: Series) -> list[Goal]:
    """What this version promises, all against the published way."""
    return [
        Goal("times faster from POST to succeeded, every metric on", published.typical / service.typical, 50),
        Goal("times faster for the moments alone", published.typical / moments.typical, 100),
        Goal(
            "times less memory, all of the service's processes added up",
            published.typical_peak / service.typical_peak,
            5,
        ),
    ]


def show(console: Console, contenders: Sequence[Series], *, against: Series) -> None:
    """Print medians, ranges and ratios, a contender a row; then where the time of each went."""
    table = Table(title="Medians (least to most)", title_justify="left")
    table.add_column("")
    for heading in ("seconds", "faster", "peak MB", "smaller"):
        table.add_column(heading, justify="right", no_wrap=True)
    for series in contenders:
        table.add_row(
            series.name,
            f"{series.typical:.3f} ({min(series.seconds):.3f} to {max(series.seconds):.3f})",
            f"{against.typical / series.typical:.1f}×",
            f"{series.typical_peak / 1e6:,.0f}",
            f"{against.typical_peak / series.typical_peak:.1f}×",
        )
    console.print(table)
    for series in contenders:
        if steps := series.typical_steps():
            words = ", ".join(f"{name} {seconds:.3f}" for name, seconds in steps.items())
            console.print(f"{series.name}: {words} s", highlight=False, soft_wrap=True)


def judge(console: Console, found: Sequence[Goal]) -> bool:
    """Say of every goal whether it was met; True if all were."""
    for goal in found:
        verdict = "[green]met[/]" if goal.met else "[bold red]missed[/]"
        console.print(
            f"{verdict}: {goal.ratio:.1f} {goal.words}; at least {goal.least:.0f} wanted",
            highlight=False,
            soft_wrap=True,
        )
    return all(goal.met for goal in found)
