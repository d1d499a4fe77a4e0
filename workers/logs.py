"""Where a worker's log lines go."""

import logging
import sys


def log_to_stderr(level: str) -> None:
    """One line an event, with the process that wrote it."""
    form = "%(asctime)s %(levelname)s %(name)s[%(process)d] %(message)s"
    logging.basicConfig(level=level, format=form, stream=sys.stderr)
    logging.getLogger("alembic").setLevel("WARNING")
