"""Peak memory of a process, as Linux counts it."""

import re
from pathlib import Path


def peak_bytes(pid: int | str = "self") -> int:
    """The most resident memory that the process ever had (VmHWM), pages shared with other processes included."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0  # a process that is ending has no memory any more
