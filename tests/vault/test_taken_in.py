"""The reconciler over real git and real files: what a person writes ends in history and index, once, or is left alone."""

from __future__ import annotations

import codecs
import os
import random
import shutil
import subprocess
import threading
from collections import Counter
from pathlib import Path

from ormahd.note.read import parse
from ormahd.note.values import NoteKind
from tests.obsidian_vault import build
from tests.vault.observed import ONE, House, trailers, uuid


def test_an_edit_in_place_is_committed_in_the_persons_name_byte_for_byte(house: House) -> None:
    path = house.remember("the old words", title="Title", node_id=ONE)
    house.settle()
    data = house.read(path)
    odd = (
        data.replace(b"tier:", b"mood:   sunny   # a comment\ntier:").replace(b"\n", b"\r\n")
        + b"new words, no final newline"
    )
    house.write(path, odd)
    assert house.scan().edited == 1
    assert house.index.find("new words") == [path]
    assert house.index.nodes()[ONE] == path
    assert house.log() == ["Edit: Title"]
    assert house.git("log", "-1", "--format=%an <%ae>") == "Ada Example <ada@example.org>"
    said = trailers(house)
    assert (said["Ormah-Kind"], said["Ormah-Source"], said["Ormah-Nodes"]) == ("edit", "person", ONE)
    assert subprocess.run(["git", "show", f"HEAD:{path}"], cwd=house.root, capture_output=True).stdout == odd
    assert house.read(path) == odd
    assert house.clean()
    house.settle()


def test_a_scan_of_named_files_looks_at_no_others(house: House) -> None:
    one, two, three = (house.remember(f"text {number}", node_id=uuid(number)) for number in (1, 2, 3))
    house.settle()
    for path in (one, two):
        house.write(path, house.read(path) + b"more\n")
    (house.root / three).unlink()
    assert (house.scan(only=[one]).edited, house.scan(only=[one, three]).edited) == (1, 0)
    assert house.index.find("more") == [one]
    house.git("commit", "-q", "--allow-empty", "-m", "by hand")  # HEAD has moved: it looks at the whole folder
    result = house.scan(only=[one])
    assert (result.edited, result.removed) == (1, 1)
    assert house.index.find("more") == sorted([one, two])
    house.settle()


def test_our_own_writes_cause_nothing(house: House) -> None:
    for number in range(5):
        house.remember(f"text {number}", node_id=uuid(number + 1))
    calls = len(house.index.calls)
    house.settle()
    assert len(house.index.calls) == calls


def test_a_note_without_an_id_gets_one_with_the_smallest_edit(house: House) -> None:
    plain = house.write("Ideas/A thought.md", "# A thought\r\n\r\nabout rivers\r\n")
    middle = house.write("Ideas/Tagged.md", "---\ntags: [x]  # mine\ncolour: blue\n---\nabout hills")
    os.utime(plain, (1_600_000_000, 1_600_000_000))
    assert house.scan().edited == 2
    for path in ("Ideas/A thought.md", "Ideas/Tagged.md"):
        note = parse(house.read(path), path)
        assert note.kind is NoteKind.NOTE
        assert house.index.nodes()[note.id] == path
    first = house.read("Ideas/A thought.md")
    assert first.endswith(b"# A thought\r\n\r\nabout rivers\r\n")
    assert b"\n" not in first.replace(b"\r\n", b"")
    assert parse(first, "x.md").created.year == 2020
    lines = house.read("Ideas/Tagged.md").split(b"\n")
    assert [line for line in lines if not line.startswith(b"id:")] == middle_lines()
    assert house.log() == ["Add 2 notes: Tagged, A thought"]
    assert house.index.calls[-1][0] == set() or "Ideas/Tagged.md" not in house.index.calls[-1][0]
    assert middle.exists()
    assert house.clean()
    house.settle()


def middle_lines() -> list[bytes]:
    return b"---\ntags: [x]  # mine\ncolour: blue\n---\nabout hills".split(b"\n")


def test_a_secret_is_left_alone_and_not_a_memory(house: House) -> None:
    path = house.remember("harmless", title="Title", node_id=ONE)
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    house.write("keys.md", f"# Keys\n\ngithub {secret}\n")
    house.write(path, house.read(path) + f"my token is {secret}\n".encode())
    result = house.scan()
    assert result.edited == 0
    assert secret.encode() in house.read("keys.md")
    assert not any(secret.encode() in data for data, _ in house.index.rows.values())
    assert house.index.find("my token is") == [path]
    assert ONE not in house.index.nodes()
    assert {(p["path"], p["line"]) for p in house.reconciler.problems()} >= {("keys.md", 3)}
    assert secret not in house.git("log", "-p", "--all")
    house.settle()


def test_boards_of_a_plugin_and_broken_notes_are_kept_as_they_are(house: House) -> None:
    files = {
        "board.md": b"---\nkanban-plugin: basic\n---\n\n## About whales\n",
        "unclosed.md": b"---\ntitle: [oops\nabout ships\n",
        "latin.md": b"caf\xe9 about coffee\n",
    }
    for path, data in files.items():
        house.write(path, data)
    result = house.scan()
    assert result.edited == 2
    for path, data in files.items():
        assert house.read(path) == data
        if path == "board.md":
            continue
        assert subprocess.run(["git", "show", f"HEAD:{path}"], cwd=house.root, capture_output=True).stdout == data
    assert house.index.find("About whales") == ["board.md"]
    levels = {problem["path"]: problem["level"] for problem in house.reconciler.problems()}
    assert levels == {"board.md": "info", "unclosed.md": "error", "latin.md": "error"}
    house.settle()
    house.reconciler = house.new_reconciler()
    assert {p["path"] for p in house.reconciler.problems(fresh=True)} == set(files)


def test_every_note_of_a_persons_vault_becomes_a_memory_and_keeps_its_lines(house: House) -> None:
    """Zettelkasten numbers, `type: meeting`, dates of plug-ins, odd properties, CRLF, byte order marks."""
    theirs = build(house.root)
    result = house.scan()
    nodes = {path: node_id for node_id, path in house.index.nodes().items()}
    assert [path for path in theirs.notes if path not in nodes] == []
    assert result.edited == len(theirs.notes)
    assert [problem for problem in house.reconciler.problems() if problem["level"] == "error"] == []
    for path in theirs.notes:
        before, after = (
            data.removeprefix(codecs.BOM_UTF8).splitlines() for data in (theirs.files[path], house.read(path))
        )
        added = list((Counter(after) - Counter(before)).elements())
        assert not Counter(before) - Counter(after), path
        if before[0] == b"---":
            assert [line.partition(b":")[0] in {b"id", b"ormah_id"} for line in added] == [True], path
        note = parse(house.read(path), path)
        assert (note.id, note.kind) == (nodes[path], NoteKind.NOTE)
    zettel = [
        path for path in theirs.groups["zettel"] if b"\nid: " in theirs.files[path] or b"\nid: " in house.read(path)
    ]
    assert all(house.read(path).count(b"ormah_id: ") == 1 for path in zettel)
    assert len(zettel) == 50
    assert parse(house.read(theirs.groups["daily"][0]), theirs.groups["daily"][0]).created is not None
    assert [path for path in theirs.left_out if house.read(path) != theirs.files[path]] == []
    assert not [path for path in theirs.left_out if path in nodes]
    house.settle()


def test_an_id_that_a_person_takes_for_something_else_moves_aside(house: House) -> None:
    house.write("a.md", "---\ntags: [x]\n---\nabout rivers\n")
    house.scan()
    (node_id,) = [one for one, path in house.index.nodes().items() if path == "a.md"]
    house.write("a.md", house.read("a.md").replace(f"id: {node_id}".encode(), b"id: 202301011200"))
    house.scan()
    assert house.index.nodes()[node_id] == "a.md"
    assert house.read("a.md") == f"---\normah_id: {node_id}\nid: 202301011200\ntags: [x]\n---\nabout rivers\n".encode()


def test_untracked_files_that_are_no_notes_stay_untracked(house: House) -> None:
    house.write("picture.png", b"\x89PNG")
    house.write(".gitignore", "private/\n")
    house.write("private/diary.md", "mine alone")
    house.scan()
    assert "picture.png" not in house.git("ls-files")
    assert "private" not in house.git("ls-files")
    assert house.index.find("mine alone") == []
    house.settle()


def test_a_file_that_is_being_written_waits(tmp_path: Path) -> None:
    house = House(tmp_path / "vault", quiet=3600)
    house.write("note.md", "half a sen")
    result = house.scan()
    assert result.waiting == {"note.md"}
    assert result.waiting_until is not None
    assert house.read("note.md") == b"half a sen"
    assert "note.md" not in house.index.rows
    path = house.remember("text", title="Title", node_id=ONE)
    (house.root / path).unlink()
    assert path in house.scan().waiting
    assert house.scan(rested=[path]).removed == 1  # whoever names a path has waited already
    house.close()


def test_a_time_in_the_future_does_not_wait_for_ever(house: House) -> None:
    file = house.write("note.md", "from tomorrow")
    os.utime(file, (4_000_000_000, 4_000_000_000))
    house.scan()
    house.settle()
    assert house.index.find("from tomorrow") == ["note.md"]
    note = parse(house.read("note.md"), "note.md")
    assert note.created.year < 2090


def test_touch_and_chmod_change_nothing(house: House) -> None:
    path = house.remember("text", title="Title", node_id=ONE)
    house.settle()
    calls = len(house.index.calls)
    os.utime(house.root / path, (1_600_000_000, 1_600_000_000))
    (house.root / path).chmod(0o600)
    assert house.scan().indexed == 0
    assert len(house.index.calls) == calls
    house.settle()


def test_a_vault_that_was_copied_is_read_once(house: House) -> None:
    """What is known of each file afterwards is its stat now, so that the next life need not read it either."""
    paths = [house.remember(f"text {number}", title=f"T{number}", node_id=uuid(number + 1)) for number in range(5)]
    house.settle()
    for path in paths:
        copy = house.root / f"{path}.copy"
        shutil.copyfile(house.root / path, copy)
        os.utime(copy, (1_600_000_000, 1_600_000_000))
        copy.rename(house.root / path)
    (house.root / paths[0]).write_text((house.root / paths[0]).read_text("utf-8") + "and more\n", "utf-8")
    house.settle()
    for path in paths:
        stat, known = (house.root / path).stat(), house.index.known_files()[path]
        assert (known.inode, known.mtime_ns, known.size) == (stat.st_ino, stat.st_mtime_ns, stat.st_size)
    assert house.index.find("and more") == [paths[0]]


def test_a_same_size_edit_within_the_same_tick_is_seen(house: House) -> None:
    path = house.remember("text one", title="Title", node_id=ONE)
    state = house.index.known_files()[path]
    with open(house.root / path, "r+b") as file:
        data = file.read()
        file.seek(0)
        file.write(data.replace(b"text one", b"text two"))
    os.utime(house.root / path, ns=(state.mtime_ns, state.mtime_ns))
    house.scan()
    assert house.index.find("text two") == [path]


def test_a_lost_index_comes_back_the_same(house: House) -> None:
    for number in range(10):
        house.remember(f"text {number}", title=f"T{number}", node_id=uuid(number + 1))
    house.write("book.md", "---\ntype: book\n---\nwhales\n")
    house.write("plain.md", "rivers\n")
    house.scan()
    house.settle()
    shutil.copy(house.root / "plain.md", house.root / "plain copy.md")
    house.scan()
    house.settle()
    before = {path: (data, state.digest) for path, (data, state) in house.index.rows.items()}
    assert before == {path: (data, state.digest) for path, data, state in house.reconciler.files()}
    house.index.rows.clear()
    house.reconciler = house.new_reconciler()
    house.scan()
    assert {path: (data, state.digest) for path, (data, state) in house.index.rows.items()} == before
    house.settle()


def test_a_save_in_the_last_moment_wins(tmp_path: Path) -> None:
    saves = []

    def at(step: str) -> None:
        if step == "locked" and saves:
            house.write("idea.md", saves.pop())

    house = House(tmp_path / "vault", at=at)
    house.write("idea.md", "half")
    house.write("other.md", "whole")
    saves.append("half a sentence more")
    result = house.scan()
    assert result.edited == 1
    assert result.waiting == {"idea.md"}
    assert house.read("idea.md") == b"half a sentence more"
    assert house.log() == ["Add: other"]
    house.settle()
    assert house.index.find("half a sentence more") == ["idea.md"]
    assert house.clean()
    house.close()


def test_a_rebuild_does_not_swallow_an_edit_that_still_waits(tmp_path: Path) -> None:
    house = House(tmp_path / "vault", quiet=3600)
    path = house.remember("first words", title="Title", node_id=ONE)
    house.write(path, house.read(path).replace(b"first", b"second"))
    house.write("idea.md", "about rivers")
    house.index.rows = {path: (data, state) for path, data, state in house.reconciler.files()}
    assert house.index.find("first words") == [path]
    assert house.index.find("rivers") == []
    house.close()
    again = House(tmp_path / "vault")
    again.index.rows = house.index.rows
    result = again.scan()
    assert result.edited == 2
    assert again.index.find("second words") == [path]
    again.close()


def test_agents_write_while_scans_run_and_people_edit(house: House) -> None:
    """Whatever the order, in the end the index has what the folder has, and every state is in the history."""
    people = [house.write(f"mine/{number}.md", f"mine {number}\n").name for number in range(10)]
    house.settle()
    rng = random.Random(7)
    stop = threading.Event()
    faults: list[BaseException] = []

    def looping(work) -> threading.Thread:
        def run() -> None:
            try:
                while not stop.is_set():
                    work()
            except BaseException as exc:  # noqa: BLE001 - handed to the test
                faults.append(exc)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def person() -> None:
        path = f"mine/{rng.choice(people)}"
        house.write(path, house.read(path) + b"more\n")

    threads = [looping(house.scan), looping(house.scan), looping(person)]
    try:
        for number in range(60):
            house.remember(f"text {number}", title=f"T{number}", node_id=uuid(number + 1))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert faults == []
    house.settle()
    assert house.clean()
    expected = {path: (data, state.digest) for path, data, state in house.reconciler.files()}
    assert {path: (data, state.digest) for path, (data, state) in house.index.rows.items()} == expected
    house.git("fsck", "--strict")
