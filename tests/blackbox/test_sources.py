"""An Obsidian vault as a source: found and whispered in place, in its space only, and not one byte of it changed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.blackbox import conftest
from tests.house import House, save, wait_until
from tests.obsidian_vault import ObsidianVault, build
from tests.unit.ingest.test_sections import pdf

DEPLOY = "The kestrel release goes out by running make ship from the lighthouse laptop."


house = conftest.shared


@pytest.fixture(scope="module")
def notes(house: House) -> ObsidianVault:
    made = build(house.home / "Notes", repository=True)
    (made.root / "Deploying.md").write_text(
        f"---\ntags: [ops]\naliases: [shipping]\ndate: 2024-03-05\n---\n{DEPLOY} #rota\n"
    )
    house.json("sources", "add", str(made.root), "--space", "kestrel")
    wait_until(lambda: listed(house)[0]["read"], "the first scan")
    return made


def listed(house: House) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = house.json("sources")["sources"]
    return found


def found(house: House, query: str, *more: str) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = house.json("recall", query, "-n", "5", *more)["results"]
    return results


def first(house: House, query: str) -> dict[str, Any]:
    best = found(house, query)
    return best[0] if best else {}


def everything(folder: Path) -> dict[str, tuple[str, int]]:
    """Hash and time of modification of every file, those of git too."""
    files = [file for file in folder.rglob("*") if file.is_file() and not file.is_symlink()]
    return {str(one): (hashlib.sha256(one.read_bytes()).hexdigest(), one.stat().st_mtime_ns) for one in files}


def git_status(folder: Path) -> str:
    env = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    return subprocess.run(
        ["git", "status", "--porcelain"], cwd=folder, env=env, capture_output=True, text=True, check=True
    ).stdout


def test_all_notes_are_found_and_no_byte_is_changed(house: House, notes: ObsidianVault) -> None:
    before, status = everything(notes.root), git_status(notes.root)
    (one,) = listed(house)
    assert (one["name"], one["space"]) == ("Notes", "kestrel")
    assert [Path(wrong).suffix for wrong in one["troubles"]] == [".pdf"]
    assert one["files"] > 80
    for path in notes.notes[::15]:
        best = first(house, notes.words[path])
        assert Path(best["path"].rpartition(":")[0]) == notes.root / path
        assert (best["origin"], best["space"]) == ("source:Notes", "kestrel")
    for path in notes.groups["template"] + notes.groups["trash"]:
        assert all(path not in one["path"] for one in found(house, Path(path).stem))
    deploy = first(house, "make ship")
    shown = house.json("show", deploy["id"])
    assert shown["path"] == f"{notes.root}/Deploying.md:1"
    assert set(shown["tags"]) == {"ops", "rota"}
    assert shown["created"].startswith("2024-03-05")
    assert first(house, "shipping")["id"] == deploy["id"]
    assert house.json("verify")["ok"]
    house.json("jobs", "run", "all")
    assert house.json("rebuild")
    wait_until(lambda: first(house, "make ship").get("id") == deploy["id"], "the rebuilt index has the same ids")
    assert (everything(notes.root), git_status(notes.root)) == (before, status)
    assert deploy["id"] not in house.git("log", "-p"), "nothing of it is committed, not even that it was used"
    assert "make ship" not in house.git("log", "-p")


def test_it_is_whispered_in_its_own_space_only(house: House, notes: ObsidianVault) -> None:
    prompt = "how does the kestrel release go out from the lighthouse laptop, by make ship?"
    there = house.json("whisper", prompt, "--space", "kestrel")
    assert DEPLOY in there["text"]
    assert "Deploying.md · 2024-03-05" in there["text"]
    section = first(house, "make ship")["short_id"]
    assert DEPLOY in house.call("agent.whisper", prompt=prompt, space="kestrel", session_id="s").text
    assert house.ctl("feedback", section, "+1").returncode == 0
    assert house.json("whisper", prompt, "--space", "falcon")["text"] == ""
    assert house.json("whisper", prompt, "--space", "global")["text"] == ""


def test_writes_are_refused_with_the_file_and_what_to_do(house: House, notes: ObsidianVault) -> None:
    section = first(house, "make ship")["short_id"]
    memory = house.json("remember", "Bjarne keeps the lighthouse laptop charged.", "--space", "kestrel")["short_id"]
    for words in (
        ("update", section, "--title", "Mine"),
        ("forget", section),
        ("forget", section, "--purge", "--yes"),
        ("outdated", section),
        ("connect", section, "supports", memory),
        ("connect", memory, "supports", section),
    ):
        done = house.ctl(*words)
        assert done.returncode == 5, words
        assert f"{notes.root}/Deploying.md:1 is a file of yours, of the source 'Notes'" in done.stderr
        assert f"ormahctl remember TEXT --replaces {section}" in done.stderr
    assert "Deploying.md" in house.ctl("show", section).stdout


def test_a_memory_is_put_in_front_of_a_section(house: House, notes: ObsidianVault) -> None:
    section = first(house, "make ship")
    text = "The kestrel release goes out by running just ship, no longer make ship."
    done = house.json("remember", text, "--space", "kestrel", "--replaces", section["short_id"])
    assert done["replaced"] == [section["id"]]
    ranked = [(one["id"], one["older_than"]) for one in found(house, "kestrel release make ship lighthouse laptop")]
    assert ranked[:2] == [(done["id"], None), (section["id"], done["id"])]
    assert f"source_{section['short_id']}" in (house.vault / done["path"]).read_text()
    assert (notes.root / "Deploying.md").read_text().endswith("#rota\n")
    house.json("forget", done["id"])


def test_edits_moves_and_deletions_are_noticed(house: House, notes: ObsidianVault) -> None:
    file = notes.root / "Walrus.md"
    save(file, "A walrus sleeps under the pontoon.\n")
    wait_until(lambda: first(house, "walrus pontoon").get("title") == "Walrus", "a new file")
    known = first(house, "walrus pontoon")["id"]
    save(file, "A walrus sleeps under the jetty, [[Deploying]].\n")
    wait_until(lambda: "jetty" in house.json("show", known)["content"], "the edit, under the same id")
    assert [one["title"] for one in house.json("show", known)["connections"]["out"]] == ["Deploying"]
    (notes.root / "Deep").mkdir()
    file.rename(notes.root / "Deep" / "Moved.md")
    wait_until(lambda: "Deep/Moved.md" in house.json("show", known)["path"], "the move, under the same id")
    shutil.rmtree(notes.root / "Deep")
    wait_until(lambda: house.ctl("show", known).returncode == 3, "the deletion")


def test_what_cannot_be_a_source_is_refused(house: House, notes: ObsidianVault, tmp_path: Path) -> None:
    inside = notes.root / "Inside"
    inside.mkdir()
    for folder, why in (
        (house.home / "nowhere", "is no folder"),
        (house.vault, "folder of Ormah itself"),
        (house.home, "folder of Ormah itself"),
        (inside, "is a source already"),
        (notes.root, "is a source already"),
    ):
        refused = house.ctl("sources", "add", str(folder))
        assert (refused.returncode, why in refused.stderr) == (2, True), refused.stderr
    inside.rmdir()
    assert house.ctl("sources", "remove", "nothing").returncode == 3
    assert house.ctl("sources", "add").returncode == 2
    assert house.ctl("sources", "--space", "x").returncode == 2


def test_globs_pdfs_troubles_and_leaving(house: House, notes: ObsidianVault, tmp_path: Path) -> None:
    file = Path(house.env["XDG_CONFIG_HOME"]) / "ormah" / "config.toml"
    file.write_text("# mine\n" + file.read_text())
    folder = tmp_path / "repo" / "docs"
    (folder / "drafts").mkdir(parents=True)
    (tmp_path / "repo" / ".git").mkdir()
    (folder / "map.pdf").write_bytes(pdf("The osprey nests on the northern beacon."))
    (folder / "drafts" / "no.md").write_text("The osprey draft is not to be found.\n")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 broken")
    os.mkfifo(folder / "pipe.md")
    done = house.json("sources", "add", str(folder), "--exclude", "drafts/")
    assert (done["space"], done["running"]) == ("repo", True)
    wait_until(lambda: listed(house)[1]["read"], "the second source")
    assert [one["title"] for one in found(house, "osprey")] == ["map"]
    (trouble,) = listed(house)[1]["troubles"]
    assert trouble.endswith("broken.pdf")
    for one in folder.iterdir():
        shutil.rmtree(one) if one.is_dir() else one.unlink()
    wait_until(lambda: "all its files are gone" in json.dumps(listed(house)[1]["troubles"]), "the folder is empty")
    assert "all its files are gone" in house.ctl("doctor").stdout
    assert [one["title"] for one in found(house, "osprey")] == ["map"]
    assert house.ctl("sources", "remove", "docs").returncode == 0
    assert "map" not in [one["title"] for one in found(house, "osprey")]
    assert house.ctl("sources", "remove", str(notes.root)).returncode == 0
    assert (found(house, "make ship"), listed(house)) == ([], [])
    assert file.read_text().startswith("# mine\n")
    assert notes.changed() == []
