"""The watcher with real files, real git and the real kernel: everything that an editor does is found without a poke."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd.note.read import parse
from ormahd.note.values import NoteKind
from ormahd.watch import watcher as watch
from ormahd.watch.watcher import FolderEvents, VaultWatcher
from tests.house import wait_until
from tests.vault.observed import House, uuid

ONE, TWO = uuid(0x1A2B3C4D), uuid(0x22222222)
QUIET = 0.3


class Watched(House):
    def __init__(self, root: Path, **options) -> None:
        super().__init__(root, quiet=QUIET, **options)
        self.watcher = VaultWatcher(self.vault, self.reconciler, self.settings)

    def start(self) -> None:
        scanned_with(self.watcher, self)

    def wait_idle(self) -> None:
        """Wait until a scan finds nothing to do."""

        def idle() -> bool:
            last = self.scan()
            return (last.indexed, last.edited, last.removed, last.waiting) == (0, 0, 0, set())

        wait_until(idle, self.watcher.state)

    def close(self) -> None:
        self.watcher.watch.stop()
        super().close()

    def found(self, words: str, *paths: str) -> None:
        self.index.wait(lambda index: index.find(words) == sorted(paths))

    def log_is(self, subject: str) -> None:
        self.wait_idle()
        assert self.log() == [subject]
        assert self.clean()


def scanned_with(watcher: VaultWatcher, house: House) -> None:
    """Start a watcher, and wait for the end of its first scan."""
    before = house.reconciler.trusted_ns
    watcher.watch.start()
    wait_until(lambda: house.reconciler.trusted_ns != before, watcher.state)


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> list[FolderEvents]:
    """The sources of events that were made."""
    made: list[FolderEvents] = []
    monkeypatch.setattr(watch, "FolderEvents", lambda notify: made.append(FolderEvents(notify)) or made[-1])
    monkeypatch.setattr(watch, "HEARTBEAT_S", 0.05)
    return made


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Watched]:
    house = Watched(tmp_path / "vault")
    house.path = house.remember("first words", title="Title", node_id=ONE)
    house.other = house.remember("other words", title="Other", node_id=TWO)
    house.start()
    yield house
    house.close()


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Watched]:
    house = Watched(tmp_path / "vault")
    house.path = house.remember("first words", title="Title", node_id=ONE)
    yield house
    house.close()


def test_edited_in_place(house: Watched) -> None:
    data = house.read(house.path).replace(b"tags: []", b"tags: []   # mine\nmood: sunny").replace(b"\n", b"\r\n")
    house.write(house.path, data.replace(b"first", b"second") + b"no final newline")
    house.found("second words", house.path)
    house.log_is("Edit: Title")
    assert house.read(house.path) == data.replace(b"first", b"second") + b"no final newline"
    assert house.git("log", "-1", "--format=%an") == "Ada Example"


def test_saved_like_vim(house: Watched) -> None:
    """4913 is tried, the file becomes a backup, a new one is written, the backup goes."""
    file = house.root / house.path
    data = file.read_bytes().replace(b"first", b"second")
    (file.parent / "4913").touch()
    (file.parent / "4913").unlink()
    backup = file.with_name(file.name + "~")
    file.rename(backup)
    file.write_bytes(data)
    backup.unlink()
    house.found("second words", house.path)
    house.log_is("Edit: Title")
    assert house.read(house.path) == data


def test_saved_by_atomic_replace(house: Watched) -> None:
    file = house.root / house.path
    data = file.read_bytes().replace(b"first", b"second")
    temporary = file.with_name("." + file.name + ".tmp-1234")
    temporary.write_bytes(data)
    os.replace(temporary, file)
    house.found("second words", house.path)
    house.log_is("Edit: Title")


def test_renamed_and_moved(house: Watched) -> None:
    target = house.root / "new folder/deep/My title.md"
    target.parent.mkdir(parents=True)
    (house.root / house.path).rename(target)
    house.found("first words", "new folder/deep/My title.md")
    house.log_is("Move: Title")
    target.rename(target.with_name("again.md"))
    house.found("first words", "new folder/deep/again.md")
    house.log_is("Move: Title")
    assert house.index.nodes()[ONE] == "new folder/deep/again.md"


def test_a_whole_folder_is_renamed_and_then_edited_in(house: Watched) -> None:
    (house.root / "work").rename(house.root / "play")
    moved = [path.replace("work/", "play/", 1) for path in (house.path, house.other)]
    house.found("words", *moved)
    house.log_is("Move 2 notes: Other, Title" if len(moved[1]) <= len(moved[0]) else "Move 2 notes: Title, Other")
    house.write(moved[0], house.read(moved[0]).replace(b"first", b"third"))
    house.found("third words", moved[0])
    house.log_is("Edit: Title")


def test_deleted_and_a_folder_deleted(house: Watched) -> None:
    (house.root / house.path).unlink()
    house.found("first words")
    house.log_is("Delete: Title")
    shutil.rmtree(house.root / "work")
    house.found("other words")
    house.log_is("Delete: Other")


def test_created_without_frontmatter_in_new_folders(house: Watched) -> None:
    for number in range(3):
        house.write(f"new/{number}/deep/idea.md", f"# Idea\r\n\r\nabout rivers {number}")
    for number in range(3):
        house.found(f"rivers {number}", f"new/{number}/deep/idea.md")
        data = house.read(f"new/{number}/deep/idea.md")
        assert parse(data, "x.md").kind is NoteKind.NOTE
        assert data.endswith(b"# Idea\r\n\r\nabout rivers %d" % number)
    house.wait_idle()
    assert house.clean()
    house.write("new/1/deep/another.md", "about hills")
    house.found("about hills", "new/1/deep/another.md")


def test_what_is_no_note_is_left_alone(plain: Watched) -> None:
    plain.write(".gitignore", "node_modules/\n")
    plain.write("nested/readme.md", "x")
    subprocess.run(["git", "init", "-q", plain.root / "nested"], check=True)
    os.symlink(plain.root / "work", plain.root / "link")
    plain.start()
    for name in ("node_modules/a/readme.md", ".trash/old.md", "nested/readme.md", "more/node_modules/b/c.md"):
        plain.write(name, "about lakes")
    plain.write("more/real/c.md", "about lakes")
    plain.found("about lakes", "more/real/c.md")
    plain.wait_idle()
    assert plain.index.find("about lakes") == ["more/real/c.md"]


def test_a_folder_with_notes_in_the_history_is_watched_whatever_git_ignores(plain: Watched) -> None:
    home = plain.path.split("/")[0]
    plain.write(".gitignore", f"{home}/\n")
    plain.start()
    plain.write(plain.path, plain.read(plain.path).replace(b"first words", b"later words"))
    plain.found("later words", plain.path)


def test_without_room_for_watches_it_polls_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "POLL_S", 0.3)

    def full(_notify):
        raise OSError(errno.ENOSPC, "inotify watch limit reached")

    monkeypatch.setattr(watch, "FolderEvents", full)
    house = Watched(tmp_path / "vault")
    path = house.remember("first words", title="Title", node_id=ONE)
    house.watcher.watch.start()
    house.write("idea.md", "about rivers")
    house.found("about rivers", "idea.md")
    (house.root / path).unlink()
    house.found("first words")
    assert house.watcher.alive
    assert house.watcher.state == "polling every 0.3 s: inotify watch limit reached"
    house.close()


def test_lost_events_are_found_by_the_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "SCAN_S", 0.5)
    monkeypatch.setattr(watch, "FolderEvents", lambda _notify: FolderEvents(lambda *_: None))
    house = Watched(tmp_path / "vault")
    house.start()
    house.write("new/idea.md", "about rivers")
    house.found("about rivers", "new/idea.md")
    house.close()


def test_another_folder_at_the_vaults_path_is_watched(tmp_path: Path, sources: list[FolderEvents]) -> None:
    house = Watched(tmp_path / "vault")
    house.start()
    shutil.copytree(house.root, tmp_path / "copy")
    house.root.rename(tmp_path / "old")
    (tmp_path / "copy").rename(house.root)
    wait_until(lambda: len(sources) > 1, "the new folder is watched")
    house.write("idea.md", "about rivers")
    house.found("about rivers", "idea.md")
    house.close()


def test_a_dead_source_is_noticed(tmp_path: Path, sources: list[FolderEvents]) -> None:
    house = Watched(tmp_path / "vault")
    house.start()
    sources[0].stop()
    house.write("idea.md", "about rivers")
    house.found("about rivers", "idea.md")
    house.close()


def test_a_vault_that_goes_away_and_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(watch, "PAUSE_S", (0.1, 0.2))
    house = Watched(tmp_path / "vault")
    house.remember("first words", title="Title", node_id=ONE)
    house.start()
    away = house.root.with_name("away")
    house.root.rename(away)
    wait_until(lambda: not house.watcher.alive, "the watcher has lost the vault")
    away.rename(house.root)
    wait_until(lambda: house.watcher.alive, "the watcher has the vault again")
    house.wait_idle()
    assert ONE in house.index.nodes()
    house.write("idea.md", "about rivers")
    house.found("about rivers", "idea.md")
    house.close()


def test_stop_leaves_nothing_behind(plain: Watched) -> None:
    plain.start()
    plain.watcher.watch.stop()
    threads, files = set(threading.enumerate()), len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        watcher = VaultWatcher(plain.vault, plain.reconciler, plain.settings)
        scanned_with(watcher, plain)
        assert watcher.state == "watching"
        watcher.watch.stop()
        assert watcher.state == "stopped"
    assert set(threading.enumerate()) <= threads  # one of an earlier test may end meanwhile
    assert len(os.listdir("/proc/self/fd")) == files


def test_one_typing_person_does_not_keep_others_waiting(plain: Watched) -> None:
    plain.start()
    stop = threading.Event()

    def type_on() -> None:
        text = "typing"
        while not stop.wait(0.05):
            text += " on"
            plain.write("typing.md", text)

    typist = threading.Thread(target=type_on)
    typist.start()
    try:
        plain.write("idea.md", "about rivers")
        plain.found("about rivers", "idea.md")
        assert plain.index.find("typing") == []
        assert b"id:" not in plain.read("typing.md")
    finally:
        stop.set()
        typist.join()
    plain.found("typing", "typing.md")


def test_own_writes_start_no_commits(plain: Watched) -> None:
    plain.start()
    for number in range(20):
        plain.remember(f"text {number}", title=f"T{number}", node_id=uuid(number + 100))
    plain.wait_idle()
    assert plain.index.calls == [] or all(not gone for _, gone in plain.index.calls)
    assert plain.log() == ["remember: T19"]
