"""The Obsidian vault that other tests are about: as large as a person's, always the same, and free of accidents."""

import subprocess
from pathlib import Path

from tests.obsidian_vault import NOTES, build


def test_two_builds_are_the_same_bytes(tmp_path: Path) -> None:
    one, other = build(tmp_path / "one"), build(tmp_path / "other")
    assert one.files == other.files
    assert 290 <= len(one.files) <= 350
    assert set(NOTES) < set(one.groups)
    assert len(one.notes) >= 280
    assert not one.changed()
    (one.root / one.notes[0]).write_text("edited")
    (one.root / one.notes[1]).unlink()
    assert one.changed() == one.notes[:2]


def test_every_note_has_a_word_that_stands_in_no_other(tmp_path: Path) -> None:
    vault = build(tmp_path / "v")
    assert len(set(vault.words.values())) == len(vault.notes)
    for path, word in vault.words.items():
        assert [other for other, data in vault.files.items() if word.encode() in data] == [path]


def test_the_repository_has_staged_and_unstaged_work(tmp_path: Path) -> None:
    vault = build(tmp_path / "v", repository=True)
    status = subprocess.run(
        ["git", "-C", vault.root, "status", "--porcelain"], check=True, capture_output=True, text=True
    )
    assert sorted(line[:2] for line in status.stdout.splitlines()) == [" M", "A "]
    assert not vault.changed()
