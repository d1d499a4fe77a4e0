"""A matrix as ranges of rows that are measured side by side; the only place with threads.

Torch's own threads meet at a barrier after every product, and wait there spinning. Where anything else wants one of
the cores, a matrix of a few hundred columns then takes ten times as long. Threads that each measure rows of their
own meet once a pass, and share reading, widening and normalising as well.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, pairwise
from queue import SimpleQueue
from threading import Event
from typing import TypeVar

import torch

from gramian.geometry.rows import Block, RowBlocks

PART_ROWS = 4096  # at least: a part of fewer costs more to start and to merge than it saves
MOST_PARTS = 8  # each holds some 30 MB of blocks and chunks besides its sums
SUMS_BYTES = 1 << 26  # at most, of the sums of all parts: two d×d float64 matrices each

Result = TypeVar("Result")

Tell = Callable[[int], None]
"""Told how many rows more are done."""


@dataclass(frozen=True, eq=False)
class RowParts:
    """A matrix as consecutive parts, each of them blocks of rows; itself the blocks of all its rows in order."""

    parts: Sequence[RowBlocks]

    def __iter__(self) -> Iterator[Block]:
        return chain.from_iterable(self.parts)


def parts_of(blocks: RowBlocks) -> Sequence[RowBlocks]:
    """The parts of a matrix, at least one."""
    return blocks.parts if isinstance(blocks, RowParts) and len(blocks.parts) > 1 else [blocks]


def part_ranges(rows: int, dim: int) -> list[tuple[int, int]]:
    """Ranges [start, stop) of rows worth measuring side by side on the CPU: n rows of d columns in equal parts.

    As many as torch may use threads, but at most eight, none below 4096 rows, and no more than have sums within
    64 MiB: four at d = 1024, two at d = 1448. Wider matrices stay whole: their products are so large that barriers
    between them matter little.

    Examples
    --------
    >>> part_ranges(8000, 384), part_ranges(128_256, 4096)
    ([(0, 8000)], [(0, 128256)])
    """
    count = max(1, min(torch.get_num_threads(), MOST_PARTS, rows // PART_ROWS, SUMS_BYTES // (16 * dim**2)))
    return list(pairwise(rows * i // count for i in range(count + 1)))


def side_by_side(tasks: Sequence[Callable[[Tell], Result]], *, tell: Tell) -> list[Result]:
    """Do the tasks at the same time, one a part; the results in their order.

    Parameters
    ----------
    tasks : sequence of callables
        Given whom to tell of the rows done. Each runs in a thread of its own with torch single-threaded there; a
        task that has no others beside it runs in the calling thread, with all of torch's threads.
    tell : callable
        Told of the rows done by any task, always in the calling thread.

    Raises
    ------
    Exception
        What a task or `tell` raises first. The other tasks are given up when they next tell of rows, and no thread
        is left.
    """
    if len(tasks) == 1:
        return [tasks[0](tell)]

    news: SimpleQueue[int | Future[Result]] = SimpleQueue()
    given_up = Event()

    def tell_caller(rows: int) -> None:
        if given_up.is_set():
            raise _GivenUp
        news.put(rows)

    with _threads_per_operation(1), ThreadPoolExecutor(len(tasks)) as pool:
        futures = [pool.submit(task, tell_caller) for task in tasks]
        for future in futures:
            future.add_done_callback(news.put)
        try:
            running = len(futures)
            while running:
                match news.get():
                    case int(rows):
                        tell(rows)
                    case finished:
                        finished.result()  # raises what the task raised
                        running -= 1
        except BaseException:
            given_up.set()
            raise
    return [future.result() for future in futures]


class _GivenUp(Exception):
    """Ends a task whose result nobody waits for any more."""


@contextmanager
def _threads_per_operation(count: int) -> Iterator[None]:
    """Set torch's intra-op threads, for this thread and for those that start within."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
