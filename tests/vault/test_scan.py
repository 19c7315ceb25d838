"""The walk over real folders: what it finds, what it never opens, what it never takes for deleted."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import traceback
from pathlib import Path

import pytest

from ormahd.errors import Unavailable
from ormahd.model.change import FileState
from ormahd.vault.excluded import Excluded, template_folders
from ormahd.watch.walk import MARKER, WalkResult, walk
from tests.tables import rows


def git_ignored(root: Path):
    def ask(paths):
        done = subprocess.run(
            ["git", "check-ignore", "-z", "--stdin"], cwd=root, input="\0".join(paths).encode(), capture_output=True
        )
        assert done.returncode in {0, 1}, done.stderr
        return {part.decode() for part in done.stdout.split(b"\0") if part}

    return ask


class Folder:
    def __init__(self, root: Path) -> None:
        self.root = root
        subprocess.run(["git", "init", "-q", root], check=True)
        self.write(MARKER, "")
        self.excluded = Excluded(root, git_ignored(root), [root / ".git/info/exclude"])
        self.known: dict[str, FileState] = {}

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def walk(self, **options) -> WalkResult:
        return walk(self.root, self.known, self.excluded, **options)

    def absent(self) -> list[str]:
        return self.walk().absent(self.known)

    def skipped(self) -> list[tuple[str, str]]:
        return sorted((path, one["what"]) for path, one in self.walk().skipped.items())

    def learn(self) -> None:
        for path, seen in self.walk().changed.items():
            data = (self.root / path).read_bytes()
            digest = hashlib.sha256(data).hexdigest()
            self.known[path] = FileState(path, seen.size, seen.mtime_ns, seen.inode, digest)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "vault")


def test_unchanged_files_are_not_reported_and_every_kind_of_change_is(folder: Folder) -> None:
    for name in ("a.md", "b.md", "deep/er/c.MD", "d.md", "e.md"):
        folder.write(name, "text")
    assert set(folder.walk().changed) == {"a.md", "b.md", "deep/er/c.MD", "d.md", "e.md"}
    folder.learn()
    assert folder.walk().changed == {}
    assert folder.absent() == []
    folder.write("a.md", "other text")  # size
    before = (folder.root / "b.md").stat()
    os.utime(folder.root / "b.md", ns=(before.st_atime_ns, before.st_mtime_ns + 1))  # time
    twin = folder.write("twin", "tex!")
    os.utime(twin, ns=(0, folder.known["d.md"].mtime_ns))
    os.replace(twin, folder.root / "d.md")  # inode alone
    (folder.root / "e.md").unlink()
    found = folder.walk()
    assert set(found.changed) == {"a.md", "b.md", "d.md"}
    assert found.absent(folder.known) == ["e.md"]
    since = folder.known["deep/er/c.MD"].mtime_ns
    assert set(folder.walk(since=since + 10**9).changed) <= {"a.md", "b.md", "d.md"}
    assert "deep/er/c.MD" in folder.walk(since=since).changed


def test_what_is_no_note_is_left_out(folder: Folder) -> None:
    for name in rows(__file__, "what_is_no_note_is_left_out"):  # fmt: skip
        folder.write(name, "text")
    folder.write(".obsidian/templates.json", '{"folder": "Vorlagen"}')
    folder.write("nested/.git", "gitdir: elsewhere")
    folder.write(".gitignore", "build/\nsecret.md\n")
    folder.write("x.sync-conflict-20260101-101010-ABCDEF.md", "a normal file")
    folder.write("templates/fact/2026-11/fact_ours_97acbe8e.md", "a space may be called templates")
    folder.write("deep/y.md", "a note")
    copy = folder.write("deep/y (Ada's conflicted copy 2026-11-02).md", "a copy of it").relative_to(folder.root)
    found = folder.walk()
    assert set(found.changed) == {
        "x.sync-conflict-20260101-101010-ABCDEF.md", "templates/fact/2026-11/fact_ours_97acbe8e.md", "deep/y.md"
    }  # fmt: skip
    copied = "a conflicted copy of y.md"
    assert folder.skipped() == [(str(copy), copied), ("nested", "a git repository of its own")]


def test_a_changed_ignore_file_is_noticed(folder: Folder) -> None:
    folder.write("drafts/a.md", "text")
    folder.write("b.md", "text")
    folder.learn()
    folder.write(".gitignore", "b.md\n")
    assert folder.absent() == ["b.md"]
    folder.write(".gitignore", "nothing\n")
    assert folder.absent() == []
    folder.write("new/c.md", "text")
    folder.write(".git/info/exclude", "new\n")
    assert folder.walk().changed == {}


def test_tracked_files_are_never_ignored(folder: Folder) -> None:
    folder.write("kept/a.md", "text")
    subprocess.run(["git", "add", "kept/a.md"], cwd=folder.root, check=True)
    folder.learn()
    folder.write(".gitignore", "kept/\n")
    assert folder.absent() == []


def test_a_note_replaced_by_a_link_counts_as_no_deletion(folder: Folder) -> None:
    file = folder.write("a.md", "text")
    folder.learn()
    file.unlink()
    os.symlink("/etc/hostname", file)
    assert folder.absent() == []


def as_nobody(work) -> None:
    """Run `work` in a child without root's rights; its failure is ours."""
    if os.geteuid() != 0:
        work()
        return
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            work()
            status = 0
        except BaseException:  # noqa: BLE001 - the child must end here
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_notes_below_an_unreadable_folder_are_not_gone() -> None:
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        folder = Folder(Path(place) / "vault")
        folder.excluded = Excluded(folder.root, lambda paths: set())  # git refuses another user's repository
        folder.write("closed/in/a.md", "text")
        folder.write("open/b.md", "text")
        folder.learn()
        (folder.root / "closed").chmod(0)

        def look() -> None:
            assert folder.absent() == []
            assert folder.skipped() == [("closed", "the folder cannot be read: Permission denied")]

        as_nobody(look)
        (folder.root / "closed").chmod(0o755)


def test_notes_in_a_folder_that_becomes_a_repository_are_not_gone(folder: Folder) -> None:
    folder.write("project/a.md", "text")
    folder.learn()
    subprocess.run(["git", "init", "-q", folder.root / "project"], check=True)
    assert folder.absent() == []
    assert folder.skipped() == [("project", "a git repository of its own")]


def test_a_vault_that_is_not_there_is_not_an_empty_one(folder: Folder) -> None:
    folder.write("a.md", "text")
    folder.learn()
    (folder.root / MARKER).unlink()
    with pytest.raises(Unavailable, match=MARKER):
        folder.walk()
    shutil.rmtree(folder.root)
    with pytest.raises(Unavailable, match="is gone"):
        folder.walk()


def test_the_template_of_dailies_and_unique_notes_is_one_file(folder: Folder) -> None:
    folder.write(".obsidian/daily-notes.json", '{"template": "Layouts/My day", "folder": "Daily"}')
    folder.write(".obsidian/zk-prefixer.json", '{"template": "/Zettel.md"}')
    for path in ("Layouts/My day.md", "Layouts/Other.md", "zettel.md", "Daily/a.md"):
        folder.write(path, "x")
    assert set(folder.walk().changed) == {"Layouts/Other.md", "Daily/a.md"}


def test_template_settings_may_be_anything(tmp_path: Path) -> None:
    settings = tmp_path / ".obsidian"
    settings.mkdir()
    for text in ("", "[]", '{"folder": 3}', "\xff", '{"folder": ""}', "[" * 100_000):
        (settings / "templates.json").write_text(text, "latin-1")
        assert template_folders(tmp_path) == {"templates"}
    (settings / "templates.json").unlink()
    os.mkfifo(settings / "templates.json")
    assert template_folders(tmp_path) == {"templates"}
