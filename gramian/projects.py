"""Projects: name spaces for analyses, uploads, keys and all that belongs to a team. Nobody sees into another's."""

from typing import Final

DEFAULT: Final = "default"
"""The id and the name of the project that is always there, and that nobody has to think about."""

EVERY: Final = None
"""In place of a project's id: no limit. For what serves all projects, as workers do; never for a request."""
