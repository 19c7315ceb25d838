"""What is generated is fresh, and what documents name is there."""

import re
from pathlib import Path

from ormahd import config

ROOT = Path(__file__).parents[2]


def test_the_readme_has_every_setting(tmp_path: Path) -> None:
    copy = tmp_path / "README.md"
    copy.write_text((ROOT / "README.md").read_text("utf-8"), "utf-8")
    assert not config.refresh_readme(copy), "stale: run `python -m ormahd.config`"


def test_links_of_documents_lead_somewhere() -> None:
    for document in [*ROOT.glob("*.md"), *ROOT.glob("ormahd/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text("utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_the_readme_names_commands_that_exist() -> None:
    from ormahctl.verbs import SECTIONS

    known = {name for commands in SECTIONS.values() for name in commands}
    text = (ROOT / "README.md").read_text("utf-8")
    for name in re.findall(r"ormahctl (?:--\S+ (?:claude-code )?)*([a-z]+)", text):
        assert name in known | {"is"}, name
