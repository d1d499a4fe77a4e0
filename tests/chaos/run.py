"""One run: questions are asked, faults are done meanwhile, and in the end everything is looked at."""

import queue
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gramian.storage.engine import open_engine
from tests.chaos import checks
from tests.chaos.callers import Asked, Caller
from tests.chaos.harm import Fault, plan
from tests.chaos.questions import Questions
from tests.chaos.world import Variant, World
from tests.hub.loopback import LoopbackHub

DISTURBED = 0.9  # of the questions; what comes after the last fault must get through as well
LONGEST_CALM_SECONDS = 10  # then the next fault comes though few questions were answered, if everything is up
TARGET_SECONDS = 5  # how long a fault waits for something to harm


@dataclass(frozen=True)
class Order:
    """What a run consists of; the same order draws the same questions and faults."""

    variant: Variant
    jobs: int
    kills: int
    seed: int
    callers: int = 12
    watching: float = 0.4  # of the callers' questions
    patience_seconds: float = 600.0  # of a caller: nothing may take so long, on a busy machine either


@dataclass
class Run:
    """What came of an order."""

    order: Order
    asked: list[Asked] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)  # faults by name
    kills: int = 0
    repeated: Counter[str] = field(default_factory=Counter)
    exits: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    attempts: Counter[int] = field(default_factory=Counter)  # analyses by how often they were begun
    seconds: float = 0.0
    logs: str = ""


def chaos(order: Order, folder: Path, *, tell: Callable[[str], None] = lambda words: None) -> Run:
    """Start a world, ask and harm, stop it, check."""
    run = Run(order)
    started = time.monotonic()
    root = folder / "root"
    root.mkdir(parents=True)
    with LoopbackHub() as hub:
        world = World(order.variant, folder / "world", root, hub.endpoint, order.seed)
        try:
            world.start()
            tell("everything is up")
            _disturb(run, world, Questions(root, hub, seed=order.seed), tell)
            tell("everything is answered, stopping")
            world.stop()
            engine = open_engine(world.database_url)
            run.findings = world.findings + checks.findings(run.asked, engine)
            run.attempts = checks.attempts(engine)
            engine.dispose()
        finally:
            run.logs = world.logs()
            world.remove()
    run.exits = world.exits
    run.seconds = time.monotonic() - started
    return run


def _disturb(run: Run, world: World, questions: Questions, tell: Callable[[str], None]) -> None:
    order = run.order
    open_questions: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
    kinds = questions.plan(order.jobs)
    for numbered in enumerate(kinds):
        open_questions.put(numbered)
    threads = [
        threading.Thread(target=_call, args=(run, world.urls, questions, open_questions, number), daemon=True)
        for number in range(order.callers)
    ]
    for thread in threads:
        thread.start()
    faults = plan(order.variant, kills=order.kills, seed=order.seed)
    draw = random.Random(order.seed)
    wanted, last, told = len(faults), time.monotonic(), time.monotonic()
    while any(thread.is_alive() for thread in threads):
        world.tick()
        now, begun = time.monotonic(), sum(run.done.values())
        is_due = len(run.asked) >= DISTURBED * len(kinds) * (begun + 0.5) / wanted
        if faults and (is_due or (now - last > LONGEST_CALM_SECONDS and world.is_whole())):
            _do(faults, world, draw, run)
            last = time.monotonic()
        if now - told > 15:
            told = now
            tell(f"{len(run.asked)} of {len(kinds)} questions answered, {run.kills} kills, {begun} faults")
        time.sleep(0.05)


def _do(faults: list[Fault], world: World, draw: random.Random, run: Run) -> None:
    """The next fault as soon as there is something to harm; else it is put off."""
    fault = faults.pop(0)
    deadline = time.monotonic() + TARGET_SECONDS
    while time.monotonic() < deadline:
        world.tick()
        if fault.harm(world, draw):
            run.done[fault.name] += 1
            run.kills += fault.kills
            return
        time.sleep(0.02)
    faults.append(fault)


def _call(
    run: Run,
    urls: list[str],
    questions: Questions,
    open_questions: "queue.SimpleQueue[tuple[int, str]]",
    number: int,
) -> None:
    seed = run.order.seed * 1000 + number
    draw = random.Random(seed)
    caller = Caller(urls, seed=seed, patience_seconds=run.order.patience_seconds)
    try:
        while True:
            try:
                question = questions.make(*open_questions.get_nowait())
            except queue.Empty:
                break
            run.asked.append(caller.ask(question, watches=draw.random() < run.order.watching))
    finally:
        caller.close()
        run.repeated.update(caller.repeated)
