"""A person's edit always wins: every way in which editors save, moved, dropped in, taken away, checked out (DESIGN 2.4, 4)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.house import House, open_house, save, wait_until

PERSON = "Ada Person"


def recalled(house: House, query: str) -> list[str]:
    return [hit.id for hit in house.call("agent.recall", query=query).results]


def first(house: House, query: str) -> str | None:
    return next(iter(recalled(house, query)), None)


@pytest.fixture
def note(daemon: House) -> tuple[House, str, Path]:
    done = daemon.call("agent.remember", content="The ferry leaves at noon.", title="Ferry")
    return daemon, done.node_id, daemon.vault / done.path


def committed_by_person(house: House, path: Path) -> bool:
    author = house.git("log", "-1", "--format=%an", "--", path.relative_to(house.vault).as_posix()).strip()
    return author == PERSON and house.git("status", "--porcelain") == ""


def test_in_place(note: tuple[House, str, Path]) -> None:
    house, node_id, file = note
    file.write_text(file.read_text().replace("noon", "midnight"))
    wait_until(lambda: first(house, "midnight") == node_id, "found")
    wait_until(lambda: committed_by_person(house, file), "committed")


def test_replaced_by_rename_as_editors_save(note: tuple[House, str, Path]) -> None:
    house, node_id, file = note
    save(file, file.read_text().replace("noon", "dusk"))
    wait_until(lambda: first(house, "dusk") == node_id, "found")
    wait_until(lambda: committed_by_person(house, file), "committed")


def test_renamed_and_moved(note: tuple[House, str, Path]) -> None:
    house, node_id, file = note
    there = house.vault / "travel"
    there.mkdir()
    file.rename(there / "The ferry.md")
    wait_until(lambda: house.call("agent.get", node_id=node_id).path == "travel/The ferry.md", "followed")
    wait_until(lambda: committed_by_person(house, there / "The ferry.md"), "committed")
    assert first(house, "ferry") == node_id
    there.rename(house.vault / "voyages")
    wait_until(
        lambda: house.call("agent.get", node_id=node_id).path == "voyages/The ferry.md", "the folder is followed"
    )


def test_deleted(note: tuple[House, str, Path]) -> None:
    house, node_id, file = note
    file.unlink()
    wait_until(lambda: node_id not in recalled(house, "ferry"), "gone from the answers")
    wait_until(lambda: committed_by_person(house, file), "committed")


def test_duplicated(note: tuple[House, str, Path]) -> None:
    house, node_id, file = note
    original = house.call("agent.get", node_id=node_id).path
    copy = file.with_name("a copy.md")
    copy.write_bytes(file.read_bytes())
    wait_until(lambda: any(finding["path"] == copy.relative_to(house.vault).as_posix() for finding in
                           house.json("doctor", status=1)["findings"]), "doctor names the copy")  # fmt: skip
    assert house.call("agent.get", node_id=node_id).path == original
    house.call("admin.doctor", fix=True)
    assert house.call("admin.stats").total_nodes == 3
    assert house.call("agent.get", node_id=node_id).path == original


def test_created_without_frontmatter(daemon: House) -> None:
    file = daemon.vault / "ideas" / "sauna.md"
    file.parent.mkdir()
    file.write_bytes("Build a sauna behind the shed.\r\nÄußerst wichtig".encode())
    wait_until(lambda: daemon.call("agent.recall", query="sauna").results, "found")
    wait_until(lambda: committed_by_person(daemon, file), "committed")
    data = file.read_bytes()
    assert data.startswith(b"---\r\n")
    assert data.endswith("Build a sauna behind the shed.\r\nÄußerst wichtig".encode())


def test_checked_out_to_an_older_state(note: tuple[House, str, Path]) -> None:
    house, node_id, file = note
    before = house.git("rev-parse", "HEAD").strip()
    house.call("agent.update", node_id=node_id, content="The ferry leaves at breakfast time.")
    assert first(house, "breakfast") == node_id
    house.git("checkout", "-q", before, "--", ".")
    wait_until(lambda: first(house, "noon") == node_id, "found by its old words")
    wait_until(lambda: committed_by_person(house, file), "committed")


def test_what_people_wrote_stays_byte_for_byte(daemon: House) -> None:
    file = daemon.vault / "mine.md"
    head = (
        b"\xef\xbb\xbf---\r\n# my own comment\r\nmood: 'good'   # today\r\nid: 11111111-2222-4333-8444-555555555555\r\n"
    )
    tail = b"cssclasses:\r\n    - wide\r\ntier: working\r\nzz: [1,2,   3]\r\n---\r\n\r\nLine one \r\n\r\nno newline at the end"
    file.write_bytes(head + tail)
    wait_until(lambda: daemon.call("agent.recall", query="newline").results, "found")
    wait_until(lambda: committed_by_person(daemon, file), "committed")
    assert file.read_bytes() == head + tail, "a readable note is adopted as it is"
    daemon.ctl("update", "11111111", "--tier", "core")
    now = file.read_bytes()
    assert now.replace(b"tier: core", b"tier: working").startswith(head)
    assert now.endswith(tail.partition(b"tier: working")[2].partition(b"\r\n---")[2])
    kept = [line for line in (head + tail).split(b"\r\n") if not line.startswith((b"tier:", b"updated:"))]
    assert [line for line in now.split(b"\r\n") if not line.startswith((b"tier:", b"updated:"))] == kept


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("unclosed.md", b"---\nid: 5\ntitle: x\nThe marmalade recipe without a fence"),
        ("yaml.md", b"---\ntitle: [unclosed\n---\nmarmalade in broken yaml\n"),
        (
            "wrong.md",
            b"---\nid: 21111111-2222-4333-8444-555555555555\ntype: fact\nconfidence: 7\n---\nmarmalade too sure\n",
        ),
        ("latin.md", "Marmalade in Köln".encode("latin-1")),
    ],
)
def test_bad_files_stay_as_they_are_findable_and_named(daemon: House, name: str, data: bytes) -> None:
    file = daemon.vault / name
    file.write_bytes(data)
    findings = wait_until(
        lambda: [one for one in daemon.call("admin.doctor").findings if one.path == name], "doctor names it"
    )
    assert all(one.mend for one in findings if one.level == "error")
    assert file.read_bytes() == data
    daemon.call("agent.remember", content="life goes on")
    assert file.read_bytes() == data


@pytest.mark.parametrize("data", [b"", b"\n\n", b"x" * 11_000_000], ids=["empty", "blank", "11 MB"])
def test_odd_sizes(daemon: House, data: bytes) -> None:
    (daemon.vault / "odd.md").write_bytes(data)
    daemon.call("admin.run_task", name="index_updater")
    daemon.call("agent.remember", content="life goes on")
    assert (daemon.vault / "odd.md").read_bytes().endswith(data)
    assert daemon.call("admin.health").nodes >= 2


def test_conflict_markers_are_neither_committed_nor_indexed(note: tuple[House, str, Path]) -> None:
    house, node_id, file = note
    clean = file.read_text()
    file.write_text(
        clean.replace("The ferry leaves at noon.", "<<<<<<< HEAD\nat noon\n=======\nat lunchtime\n>>>>>>> other\n")
    )
    house.call("admin.run_task", name="index_updater")
    wait_until(lambda: [one for one in house.call("admin.doctor").findings if "conflict" in one.what.lower()], "named")
    assert (
        recalled(house, "lunchtime") == []
        or house.call("agent.get", node_id=node_id).content == "The ferry leaves at noon."
    )
    assert first(house, "noon") == node_id
    assert "lunchtime" not in house.git("show", f"HEAD:{file.relative_to(house.vault).as_posix()}")


def test_links_pipes_and_devices_are_not_opened(daemon: House) -> None:
    secret = daemon.home / "outside.md"
    secret.write_text("the outside must stay outside: xylophone")
    (daemon.vault / "link.md").symlink_to(secret)
    os.mkfifo(daemon.vault / "pipe.md")
    (daemon.vault / "linked").symlink_to(daemon.home)
    daemon.call("admin.run_task", name="index_updater")
    assert daemon.call("agent.recall", query="xylophone").results == []


def test_somebody_elses_repository(tmp_path: Path) -> None:
    with open_house() as house:
        repo = house.home / "project"
        repo.mkdir()

        def git(*args: str) -> str:
            return subprocess.run(
                ["git", *args], cwd=repo, env=house.env, check=True, capture_output=True, text=True
            ).stdout

        git("init", "-q")
        (repo / "a.txt").write_text("one\n")
        (repo / "b.txt").write_text("one\n")
        git("add", ".")
        git("commit", "-qm", "theirs")
        house.settings["ORMAH_VAULT"] = str(repo / "memory")
        house.start()
        (repo / "a.txt").write_text("staged\n")
        git("add", "a.txt")
        (repo / "b.txt").write_text("unstaged\n")
        (repo / "c.txt").write_text("untracked\n")
        kept = house.call("agent.remember", content="kept beside a project")
        gone = house.call("agent.remember", content="forgotten beside a project")
        house.call("agent.update", node_id=kept.node_id, title="Kept")
        house.call("agent.forget", node_id=gone.node_id)
        assert git("status", "--porcelain").splitlines() == ["M  a.txt", " M b.txt", "?? c.txt"]
        git("commit", "-qm", "theirs again")
        assert git("show", "--name-only", "--format=", "HEAD").split() == ["a.txt"]
        assert (repo / "b.txt").read_text() == "unstaged\n"
