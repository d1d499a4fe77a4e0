"""Deaths planted in workers: Python runs this file at its start wherever this folder is on PYTHONPATH.

A job whose source is named `dies-<how>-<when>-…` ends its own process while it opens the source: `how` is a key of
WAYS, `when` is `once` (in the first attempt) or `always`. The product knows nothing of this.
"""

import ctypes
import importlib.abc
import importlib.machinery
import importlib.util
import os
import re
import signal
import sys

WAYS = {
    "segfault": lambda: ctypes.string_at(0),
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),  # as the kernel does when memory runs out
    "exit": lambda: os._exit(0),  # looks like an orderly end, and is none
}

VICTIM = "workers.embedding"


def _deadly(open_source):
    def wrapped(spec, identity, *, settings, spool):
        planted = re.match(r"dies-(\w+)-(once|always)-", getattr(spec.source, "path", ""))
        attempt = int(spool.name.rpartition("-")[2])
        if planted and (planted[2] == "always" or attempt == 1):
            WAYS[planted[1]]()
        return open_source(spec, identity, settings=settings, spool=spool)

    return wrapped


class _Planting(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the victim as Python would, and replaces one function of it once it is loaded."""

    def find_spec(self, name, path, target=None):
        if name != VICTIM:
            return None
        self._found = importlib.machinery.PathFinder.find_spec(name, path)
        return importlib.util.spec_from_file_location(name, self._found.origin, loader=self)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        self._found.loader.exec_module(module)
        module.open_source = _deadly(module.open_source)


sys.meta_path.insert(0, _Planting())
