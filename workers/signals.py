"""Signals as a thread can wait for them, whatever the main thread computes."""

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager


class SignalPipe:
    """A pipe into which the interpreter writes the number of every signal as soon as it arrives."""

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self.writer, False)

    def wait(self, seconds: float) -> bool:
        """Sleep so long, or until something is written; True if that was SIGTERM."""
        ready, _, _ = select.select([self._reader], [], [], seconds)
        return bool(ready) and signal.SIGTERM in os.read(self._reader, 4096)

    def wake(self) -> None:
        os.write(self.writer, b"\0")

    def close(self) -> None:
        os.close(self._reader)
        os.close(self.writer)


@contextmanager
def signals_through_a_pipe() -> Iterator[SignalPipe]:
    """Have SIGTERM told by the pipe, which it would otherwise kill by, for as long as the block runs."""
    pipe = SignalPipe()
    handler = signal.signal(signal.SIGTERM, lambda *_: None)
    before = signal.set_wakeup_fd(pipe.writer, warn_on_full_buffer=False)
    try:
        yield pipe
    finally:
        signal.set_wakeup_fd(before)
        signal.signal(signal.SIGTERM, handler)
        pipe.close()
