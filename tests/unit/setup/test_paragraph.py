"""The paragraph in CLAUDE.md and its like: between its marks, and out again to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from ormahctl.setup import change as entry
from ormahctl.setup import paragraph
from ormahctl.setup.change import Record
from tests.unit.setup.connecting import CLAUDE, CODEX, GEMINI, JSON

MINE = [
    b"",
    b"# Mine\n",
    b"no end of line",
    b"two\n\n",
    b"dos\r\nlines\r\n",
    "日本語\n".encode(),
    b"\xef\xbb\xbfbom\n",
    b"\xff latin\n",
]


def write(path: Path, program: str = "ormahctl") -> paragraph.State:
    change = paragraph.plan("claude-code", path, program)
    change.make()
    return change.state


def take_out() -> list[Path]:
    changes, edited = paragraph.removal("claude-code")
    entry.make_restores(changes)
    return edited


@pytest.mark.parametrize("mine", [None, *MINE])
def test_it_goes_in_once_is_renewed_and_goes_out_to_the_byte(home: Path, mine: bytes | None) -> None:
    path = home / "CLAUDE.md"
    if mine is not None:
        path.write_bytes(mine)
    assert write(path) == "added"
    once = path.read_bytes()
    assert once.startswith(mine or b"")
    assert once.count(b"ormah:begin") == once.count(b"ormah:end") == 1
    assert (b"\r\n" in once) == (b"\r\n" in (mine or b""))
    assert write(path) == "there"
    assert path.read_bytes() == once
    assert write(path, program="/opt/my tools/ormahctl") == "renewed"
    assert b"`/opt/my tools/ormahctl show ID`" in path.read_bytes()
    assert take_out() == []
    assert (path.read_bytes() if path.exists() else None) == mine
    assert Record.all("instructions.*") == []


@pytest.mark.parametrize("mine", [b"# Mine\n", b"no end of line"])
def test_what_is_written_around_it_meanwhile_stays(home: Path, mine: bytes) -> None:
    path = home / "CLAUDE.md"
    path.write_bytes(mine)
    write(path)
    path.write_bytes(b"before\n" + path.read_bytes() + b"after\n")
    assert write(path, program="/x/ormahctl") == "renewed"
    assert write(path, program="/y/ormahctl") == "renewed"
    assert take_out() == []
    assert path.read_bytes() == b"before\n" + mine + b"after\n"


def test_one_that_was_edited_is_the_persons(home: Path) -> None:
    path = home / "CLAUDE.md"
    write(path)
    path.write_bytes(path.read_bytes().replace(b"no secrets", b"no secrets, please"))
    edited = path.read_bytes()
    assert write(path, program="/x/ormahctl") == "edited"
    assert take_out() == [path]
    assert path.read_bytes() == edited
    half = edited.partition(b"<!-- ormah:end")[0]
    path.write_bytes(half)
    assert write(path) == "edited"
    assert path.read_bytes() == half


def test_one_that_was_taken_out_stays_out_until_uninstall(home: Path) -> None:
    path = home / "CLAUDE.md"
    path.write_bytes(b"# Mine\n")
    write(path)
    path.write_bytes(b"# Mine\n")
    assert write(path) == "removed"
    assert path.read_bytes() == b"# Mine\n"
    assert take_out() == []
    assert write(path) == "added"


def test_it_is_known_and_renewed_without_a_record(home: Path) -> None:
    """Dotfiles bring it to a second machine, where git may have changed the ends of its lines."""
    path = home / "CLAUDE.md"
    path.write_bytes(b"# Mine\r\n\r\n" + paragraph.block("/first/ormahctl").replace(b"\n", b"\r\n") + b"\r\n")
    assert write(path, program="/second/ormahctl") == "renewed"
    assert b"/first/" not in path.read_bytes()
    assert take_out() == []
    assert path.read_bytes() == b"# Mine\r\n\r\n"


def test_what_is_no_text_is_left_alone(home: Path) -> None:
    path = home / "CLAUDE.md"
    path.write_bytes("# Mine\n".encode("utf-16"))
    assert write(path) == "unreadable"
    assert path.read_bytes() == "# Mine\n".encode("utf-16")


@JSON
def test_the_file_that_the_agent_reads(home: Path, harness) -> None:
    name = {"claude-code": "CLAUDE.md", "codex": "AGENTS.md", "gemini": "GEMINI.md"}[harness.name]
    assert harness.instructions() == harness.home() / name


def test_names_that_a_person_gave_it(home: Path) -> None:
    CODEX.home().mkdir()
    (CODEX.home() / "AGENTS.override.md").write_text("mine")
    assert CODEX.instructions().name == "AGENTS.override.md"
    GEMINI.home().mkdir()
    for said, name in (
        ('["AGENTS.md", "X.md"]', "AGENTS.md"),
        ('"NOTES.md"', "NOTES.md"),
        ('["GEMINI.md"]', "GEMINI.md"),
        ("7", "GEMINI.md"),
    ):
        GEMINI.target().write_text(f'{{"context": {{"fileName": {said}}}}}')
        assert GEMINI.instructions().name == name
    assert CLAUDE.found() is None
    write(CLAUDE.instructions())
    assert CLAUDE.found() is None, "a directory that holds our file alone is no agent"
