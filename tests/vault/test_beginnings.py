"""Files of lines begin empty, in a commit of their own: then `git revert` takes back each commit that filled one."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd.model.change import Kind
from ormahd.vault.create import LINES
from ormahd.vault.merge_driver import command, install
from ormahd.vault.vault import Vault
from tests.vault.git_house import git, open_vault, put, remove, sound

STRENGTH = ".ormah/strength.jsonl"
MONTH = ".ormah/feedback/2026-11.jsonl"


def lines(*ids: str) -> bytes:
    return b"".join(json.dumps({"id": one}).encode() + b"\n" for one in ids)


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    with open_vault(tmp_path / "vault") as found:
        install(found, command(tmp_path / "nobody answers there"))
        yield found


def subjects(vault: Vault) -> list[str]:
    """Newest first."""
    return git(vault.root, "log", "--format=%s").splitlines()


def test_every_vault_begins_with_its_files_of_lines(vault: Vault) -> None:
    assert subjects(vault) == ["init: a vault for memories"]
    assert {path: vault.committed(path) for path in LINES} == dict.fromkeys(LINES, b"")


@pytest.mark.parametrize(
    "path",
    [
        STRENGTH, ".ormah/active_days.jsonl", ".ormah/renamed.jsonl", ".ormah/released.jsonl", MONTH,
        ".ormah/decisions/2026-12.jsonl", ".ormah/tombstones/2026-11.jsonl", ".ormah/anything.jsonl",
    ],
)  # fmt: skip
def test_git_revert_of_the_commit_that_filled_it_first(vault: Vault, path: str) -> None:
    first = put(vault, (path, lines("a")), kind=Kind.STRENGTH)
    put(vault, (path, lines("a", "b")), kind=Kind.STRENGTH)
    assert first is not None
    git(vault.root, "revert", "--no-edit", first.commit)
    assert vault.read(path) == lines("b")
    sound(vault.root)


def test_a_file_of_lines_that_a_person_removed_begins_again_with_its_next_line(vault: Vault) -> None:
    git(vault.root, "rm", "-q", STRENGTH)
    git(vault.root, "commit", "-qm", "not wanted")
    put(vault, ("a.md", b"three"))
    assert vault.read(STRENGTH) is None, "whoever removes an empty file is not argued with"
    put(vault, (STRENGTH, lines("a")))
    assert subjects(vault)[:2] == ["remember: a thing", "init: empty files for lines"]


def test_lines_and_a_note_in_one_commit(vault: Vault) -> None:
    """An approved proposal: the note goes back, and the line, after another decision."""
    put(vault, ("a.md", b"one\n"))
    first = put(vault, ("a.md", b"merged\n"), (MONTH, lines("a")), kind=Kind.MERGE)
    put(vault, ("c.md", b"other\n"), (MONTH, lines("a", "b")), kind=Kind.MERGE)
    assert first is not None
    git(vault.root, "revert", "--no-edit", first.commit)
    assert (vault.read("a.md"), vault.read(MONTH)) == (b"one\n", lines("b"))
    sound(vault.root)


@pytest.mark.parametrize("kind", [Kind.UNDO, Kind.SYNC, Kind.PURGE, Kind.INIT])
def test_what_brings_an_earlier_state_back_begins_nothing(vault: Vault, kind: Kind) -> None:
    before = len(subjects(vault))
    put(vault, (MONTH, lines("a")), kind=kind)
    assert len(subjects(vault)) == before + 1


def test_what_begins_no_lines_makes_one_commit(vault: Vault) -> None:
    put(vault, (MONTH, lines("a")))
    before = len(subjects(vault))
    put(vault, ("own.jsonl", lines("a")))  # not below .ormah: a person's
    put(vault, (".ormah/empty.jsonl", b""))
    put(vault, (MONTH, lines("b")))
    remove(vault, MONTH)
    assert len(subjects(vault)) == before + 4


def test_two_machines_begin_the_same_file(vault: Vault, tmp_path: Path) -> None:
    other = tmp_path / "other"
    subprocess.run(["git", "clone", "-q", vault.root, other], check=True)
    with open_vault(other) as there:
        install(there, command(tmp_path / "nobody answers there"))
        mine, theirs = put(vault, (MONTH, lines("a"))), put(there, (MONTH, lines("b")))
    assert mine is not None
    assert theirs is not None
    git(vault.root, "pull", "-q", "--no-rebase", "--no-edit", str(other), "HEAD")
    assert vault.read(MONTH) == lines("a", "b")
    git(vault.root, "revert", "--no-edit", mine.commit)
    assert vault.read(MONTH) == lines("b")
    sound(vault.root)
