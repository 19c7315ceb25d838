"""Generated documents are fresh, and what documents name exists: links, anchors, commands and their options."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ormahd import config
from ormahd.config import keys
from tests import command_page
from tests.pages import fault

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("ormahd/*.md"), *ROOT.glob("tests/**/*.md")]
)
GUIDES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md")), ROOT / "ormahd" / "FORMAT.md"]
"""Documents whose commands are for users of this version; the changelog may name what there was before."""
NAMES = [path.relative_to(ROOT).as_posix() for path in DOCUMENTS]
FENCE = re.compile(r"^(```+|~~~+).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
README_BYTES = 12 * 1024
KINDS = ("unit", "contract", "vault", "blackbox", "crash", "quality", "architecture")
"""Folders of tests."""


def test_the_settings_page_has_every_setting(tmp_path: Path) -> None:
    copy = tmp_path / "configuration.md"
    copy.write_text((ROOT / "docs" / "configuration.md").read_text("utf-8"), "utf-8")
    assert not config.refresh_page(copy), "stale: run `python -m ormahd.config`"


def test_the_page_of_the_commands_is_fresh() -> None:
    assert command_page.FILE.read_text("utf-8") == command_page.current(), "stale: run `python -m tests.command_page`"


def test_the_glossary_is_short() -> None:
    terms = re.findall(r"^\| \*\*", (ROOT / "docs" / "glossary.md").read_text("utf-8"), re.MULTILINE)
    assert 0 < len(terms) <= 25, "a reader has to learn them all"


def test_the_changelog_is_a_list_of_features() -> None:
    """Until the first release nobody has an earlier version, so that a mended fault is no news: it belongs to its feature."""
    unreleased = (ROOT / "CHANGELOG.md").read_text("utf-8").partition("## Unreleased")[2].partition("\n## ")[0]
    entries = re.findall(r"^- (.*)$", unreleased, re.MULTILINE)
    assert [entry for entry in entries if not entry.startswith("**")] == [], "say it where its feature is described"


def test_the_readme_is_an_entrance() -> None:
    assert (ROOT / "README.md").stat().st_size <= README_BYTES, "move what is no first step to a page of docs/"


def test_the_index_lists_every_page() -> None:
    pages = {path.name for path in ROOT.glob("docs/*.md")} - {"README.md"}
    linked = set(re.findall(r"\]\((\w+\.md)\)", (ROOT / "docs" / "README.md").read_text("utf-8")))
    assert linked == pages


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_links_of_a_document_resolve(document: Path) -> None:
    prose = _prose(document)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (document.parent / name).resolve() if name else document
        assert file.exists(), f"{document.name} links to {target}, which does not exist"
        if anchor:
            assert anchor in _anchors(file), f"{document.name} links to {target}: {file.name} has no such heading"


@pytest.mark.parametrize("document", GUIDES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_in_the_text_exist(document: Path) -> None:
    """Commands in code spans: each names a command and options that exist. Those in blocks are run (test_pages.py)."""
    for span in re.findall(r"`(ormahctl [^`]+)`", re.sub(r"\s*\n\s*", " ", _prose(document))):
        wrong = fault(span)
        assert wrong is None, f"{document.name}: `{span}`: {wrong}"


@pytest.mark.parametrize("document", GUIDES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_settings_in_the_text_exist(document: Path) -> None:
    known = {f"{group}.{name}" for group, name in keys()}
    groups = "|".join({key.partition(".")[0] for key in known})
    named = set(re.findall(rf"`((?:{groups})\.(?!py\b|toml\b|jsonl\b)[a-z_]+)", _prose(document)))
    assert named - known == set(), f"{document.name} names settings that do not exist"


def _prose(document: Path) -> str:
    return FENCE.sub("", document.read_text("utf-8"))


def _anchors(document: Path) -> set[str]:
    """The anchors that GitHub gives to headings."""
    headings = re.findall(r"^#+ +(.+?) *$", _prose(document), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_map_of_the_tests_names_every_room_and_only_files_that_exist() -> None:
    said = (ROOT / "tests" / "README.md").read_text("utf-8")
    named = set(re.findall(r"`([a-z_]+/[\w*/.]*)`", said))
    files = {name for name in named if name.partition("/")[0] in KINDS and name.partition("/")[2]}
    assert not sorted(name for name in files if not list(ROOT.glob(f"tests/{name}")))
    rooms = {f"{path.parent.name}/" for path in ROOT.glob("ormahd/*/__init__.py")}
    assert not sorted(rooms - named), "rooms without tests in the map"
