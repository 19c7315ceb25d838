"""A vault of 300 realistic notes is adopted, used and released: every file is as it was, and git says what it said before."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.blackbox.tours import head
from tests.house import House, open_house, save, wait_until
from tests.obsidian_vault import ObsidianVault, build


@pytest.fixture
def house() -> Iterator[House]:
    with open_house(ORMAH_VAULT_ADOPT="all") as found:
        yield found


def everything(root: Path) -> dict[str, tuple[bytes, int, int]]:
    """Bytes, mode and mtime of every file that is not git's or Ormah's own."""
    found = {}
    for folder, names, files in os.walk(root):
        names[:] = [
            name for name in names if name != ".git" and not (folder == str(root) and name in {".ormah", "ormah"})
        ]
        for name in files:
            path = Path(folder, name)
            stat = path.lstat()
            found[str(path.relative_to(root))] = (path.read_bytes(), stat.st_mode, stat.st_mtime_ns)
    return found


def status(root: Path) -> set[str]:
    out = subprocess.run(
        ["git", "status", "--porcelain", "-z", "--untracked-files=all"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    return {line for line in out.stdout.split("\0") if line}


def adopted(house: House, vault: ObsidianVault) -> list[str]:
    """Wait until the notes are adopted; those that were changed for it."""
    wait_until(lambda: len(vault.changed()) > 150, "the notes are adopted", 120)
    seen = [-1]

    def rests() -> bool:
        before, seen[0] = seen[0], len(house.git("rev-list", "HEAD").split())
        return before == seen[0] and house.call("admin.verify").ok

    wait_until(rests, "nothing is left to adopt", 120, every=0.5)
    return vault.changed()


def used(house: House, changed: list[str]) -> None:
    """Recall, connect, feedback and jobs, so that lines of ours come into files of the person's."""
    ids = [line.split(": ", 1)[1] for path in changed[:40] for line in (house.vault / path).read_text("utf-8-sig").splitlines()
           if line.startswith(("id: ", "ormah_id: ")) and len(line) >= 40]  # fmt: skip
    for one, other in zip(ids[:6], ids[6:12], strict=True):
        house.json("connect", one, "supports", other)
    house.json("recall", "sourdough")
    whisper = house.call("agent.whisper", prompt="what did we decide about the boiler and the cellar?")
    assert whisper is not None
    house.json("update", ids[0], "--tag", "seen")
    house.json("outdated", ids[1], "--reason", "it moved")
    house.json("jobs", "run", "all")
    house.call("agent.remember", content="Ormah wrote this one.")


@pytest.mark.parametrize("repository", [False, True])
def test_three_hundred_notes_are_as_they_were(house: House, repository: bool) -> None:
    root = house.vault
    vault = build(root, repository=repository)
    before, said = everything(root), status(root) if repository else set()
    config = (root / ".git/config").read_bytes() if repository else b""
    house.start()
    changed = adopted(house, vault)
    used(house, changed)
    assert len(everything(root)) >= len(before)
    others = ["--format=", "--name-only", "-z", "-E", "--grep=^Ormah-Kind: [b-z]"]
    touched = set(house.git("log", *others).replace("\n", "").split("\0"))
    first = house.json("vault", "release", "--all", "--dry-run")
    assert set(changed) <= set(first["released"])
    refused = house.ctl("vault", "release", "--all")
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    done = house.json("vault", "release", "--all", "--remove-data", "--yes", timeout=300)
    assert done["kept"] == []
    wait_until(lambda: house.process is None or house.process.poll() is not None, "the daemon has ended")
    after = everything(root)
    assert {path: one[:2] for path, one in after.items()} == {path: one[:2] for path, one in before.items()}
    late = [path for path in before if after[path][2] != before[path][2]]
    assert set(late) <= touched, "only what was used has another time"
    assert not (root / ".ormah").exists()
    assert any("Ormah wrote" in what and "ormah/" in what for what in done["stays"])
    if repository:
        assert status(root) == said
        assert (root / ".git/config").read_bytes() == config
    again = subprocess.run(
        [sys.executable, "-m", "ormahd", "run"], env=house.env, capture_output=True, text=True, check=False
    )
    assert again.returncode == 69, "no daemon begins a vault there unasked"
    assert "was released" in again.stderr
    assert not (root / ".ormah").exists()


def test_a_released_file_keeps_what_the_person_wrote_since(house: House) -> None:
    root = house.vault
    root.mkdir()
    (root / "Sub").mkdir()
    files = {
        "Sub/One.md": "---\ntags: [a]\n---\nfirst line\n\nlast line\n",
        "Two.md": "two\n",
        "Sub/Three.md": "three\n",
    }
    for path, text in files.items():
        (root / path).write_text(text)
    house.start()
    wait_until(lambda: all("id: " in (root / path).read_text() for path in files), "they are adopted")
    wait_until(lambda: house.git("status", "--porcelain") == "", "they are committed")
    one, three = (
        (root / path).read_text().split("id: ", 1)[1].split("\n")[0] for path in ("Sub/One.md", "Sub/Three.md")
    )
    house.json("connect", one, "supports", three)
    save(root / "Sub/One.md", (root / "Sub/One.md").read_text().replace("last line\n", "last line, edited\n"))
    wait_until(lambda: house.git("log", "-1", "--format=%s").startswith("Edit"), "the edit is taken in")
    house.json("connect", one, "related_to", three)
    house.json("update", one, "--tag", "ours")
    kept = (root / "Two.md").read_bytes()
    done = house.json("vault", "release", "Sub", "--yes")
    assert (root / "Sub/One.md").read_text() == files["Sub/One.md"].replace("last line\n", "last line, edited\n")
    assert (root / "Sub/Three.md").read_text() == files["Sub/Three.md"]
    assert (root / "Two.md").read_bytes() == kept
    assert house.git("status", "--porcelain", "--untracked-files=all").splitlines() == [
        "?? Sub/One.md",
        "?? Sub/Three.md",
    ]
    before = head(house)
    house.json("jobs", "run", "index_updater")
    house.restart()
    assert head(house) == before
    (root / "Two.md").write_text((root / "Two.md").read_text() + "more\n")
    all_of_it = house.json("vault", "release", "--all", "--yes")
    assert (root / "Two.md").read_text() == "two\nmore\n"
    (root / "New.md").write_text("dropped in later\n")
    house.json("jobs", "run", "index_updater")
    house.restart()
    assert (root / "New.md").read_text() == "dropped in later\n", "nothing is adopted here any more"
    house.json("undo", *all_of_it["ops"], *done["ops"], "--yes")
    assert "id: " in (root / "Sub/One.md").read_text()
    wait_until(lambda: "id: " in (root / "New.md").read_text(), "the folder is Ormah's to look after again")
