"""Representational capacity and superposition of language models, measured.

`gramian.geometry` is usable on its own from a notebook; importing `gramian` loads neither torch nor a web framework.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("gramian")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"
