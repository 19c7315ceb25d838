"""A person's edit always wins: every way in which editors save, moved, dropped in, taken away, checked out (DESIGN 2.4, 4)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.house import House, save, wait_until

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


def test_saved_moved_checked_out_and_deleted(note: tuple[House, str, Path]) -> None:
    house, node_id, file = note
    before = house.git("rev-parse", "HEAD").strip()
    save(file, file.read_text().replace("noon", "dusk"))
    wait_until(lambda: first(house, "dusk") == node_id, "found by its new words")
    wait_until(lambda: committed_by_person(house, file), "committed")
    house.git("checkout", "-q", before, "--", ".")
    wait_until(lambda: first(house, "noon") == node_id, "found by its old words")
    wait_until(lambda: committed_by_person(house, file), "committed")
    there = house.vault / "travel"
    there.mkdir()
    file.rename(there / "The ferry.md")
    wait_until(lambda: house.call("agent.get", node_id=node_id).path == "travel/The ferry.md", "followed")
    there.rename(house.vault / "voyages")
    wait_until(
        lambda: house.call("agent.get", node_id=node_id).path == "voyages/The ferry.md", "the folder is followed"
    )
    (house.vault / "voyages/The ferry.md").unlink()
    wait_until(lambda: node_id not in recalled(house, "ferry"), "gone from the answers")
    wait_until(lambda: committed_by_person(house, house.vault / "voyages/The ferry.md"), "committed")


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


@pytest.mark.parametrize("data", [b"", b"\n\n", b"x" * 11_000_000], ids=["empty", "blank", "11 MB"])
def test_odd_sizes(shared: House, data: bytes) -> None:
    (shared.vault / "odd.md").write_bytes(data)
    shared.call("admin.run_task", name="index_updater")
    shared.call("agent.remember", content="life goes on")
    assert (shared.vault / "odd.md").read_bytes().endswith(data)
    assert shared.call("admin.health").nodes >= 2


def test_links_pipes_and_devices_are_not_opened(shared: House) -> None:
    secret = shared.home / "outside.md"
    secret.write_text("the outside must stay outside: xylophone")
    (shared.vault / "link.md").symlink_to(secret)
    os.mkfifo(shared.vault / "pipe.md")
    (shared.vault / "linked").symlink_to(shared.home)
    shared.call("admin.run_task", name="index_updater")
    assert shared.call("agent.recall", query="xylophone").results == []
