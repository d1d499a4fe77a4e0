"""The faults that are done to a world, and the plan of a run."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tests.chaos.world import LEASE_SECONDS, Variant, World

OUTAGE_SECONDS = (0.2, 2.5)
FREEZE_SECONDS = (1.3 * LEASE_SECONDS, 2.5 * LEASE_SECONDS)  # past the lease

Harm = Callable[[World, random.Random], bool]  # False: there is nothing to harm just now


@dataclass(frozen=True)
class Fault:
    name: str
    share: int  # of a hundred faults, about
    harm: Harm
    kills: bool
    variants: tuple[Variant, ...] = ("cluster", "embedded")


def _kill(role: str, world: World, draw: random.Random) -> bool:
    found = world.processes(role)
    if found:
        world.kill(draw.choice(found))
    return bool(found)


def _terminate(role: str, world: World, draw: random.Random) -> bool:
    found = [process for process in world.processes(role) if world.has_come_up(process)]
    if found:
        world.terminate(draw.choice(found))
    return bool(found)


def _freeze(role: str, world: World, draw: random.Random) -> bool:
    found = world.processes(role)
    if found:
        world.freeze(draw.choice(found), draw.uniform(*FREEZE_SECONDS))
    return bool(found)


def _kill_valkey(world: World, draw: random.Random) -> bool:
    return world.kill_valkey(draw.uniform(*OUTAGE_SECONDS))


def _kill_postgres(world: World, draw: random.Random) -> bool:
    return world.kill_postgres(draw.uniform(*OUTAGE_SECONDS))


FAULTS = (
    Fault("job's child killed (SIGKILL)", 26, partial(_kill, "child"), kills=True),
    Fault("worker killed (SIGKILL)", 15, partial(_kill, "worker"), kills=True),
    Fault("API killed (SIGKILL)", 12, partial(_kill, "API"), kills=True),
    Fault("reconcile loop killed (SIGKILL)", 8, partial(_kill, "reconcile loop"), kills=True),
    Fault("Valkey killed, back empty", 8, _kill_valkey, kills=True),
    Fault("PostgreSQL killed, back on its data", 5, _kill_postgres, kills=True, variants=("cluster",)),
    Fault("job's child stopped past its lease (SIGSTOP, SIGCONT)", 8, partial(_freeze, "child"), kills=False),
    Fault("worker stopped past the lease (SIGSTOP, SIGCONT)", 5, partial(_freeze, "worker"), kills=False),
    Fault("worker asked to end (SIGTERM)", 7, partial(_terminate, "worker"), kills=False),
    Fault("API asked to end (SIGTERM)", 6, partial(_terminate, "API"), kills=False),
)


def plan(variant: Variant, *, kills: int, seed: int) -> list[Fault]:
    """Faults with about `kills` kills among them, every kind at least once, the order drawn."""
    possible = [fault for fault in FAULTS if variant in fault.variants]
    factor = kills / sum(fault.share for fault in possible if fault.kills)
    faults = [fault for fault in possible for _ in range(max(1, round(fault.share * factor)))]
    random.Random(f"{variant}/{seed}").shuffle(faults)
    return faults
