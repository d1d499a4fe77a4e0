"""The documents say what the code has."""

import re
from pathlib import Path

from gramian.settings import Settings

ROOT = Path(__file__).parents[1]


def test_the_readme_explains_every_setting() -> None:
    readme = (ROOT / "README.md").read_text()
    documented = set(re.findall(r"`GRAMIAN_([A-Z_]+)`", readme))
    assert {name.upper() for name in Settings.model_fields} <= documented


def test_every_relative_link_in_the_documents_leads_somewhere() -> None:
    for document in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"
