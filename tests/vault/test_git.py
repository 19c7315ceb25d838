"""Reading the repository: objects through the long-lived child, commands, and what happens when they fail."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from ormahd.errors import Unavailable
from ormahd.model.change import Kind
from ormahd.vault.vault import Vault
from tests.vault.git_house import children, git, put, sound


def test_the_child_sees_what_others_write_and_pack(vault: Vault) -> None:
    put(vault, ("a.md", b"a\n"))
    (vault.root / "theirs.txt").write_text("x\n")
    git(vault.root, "add", "-A")
    git(vault.root, "commit", "-qm", "theirs")
    assert vault.committed("theirs.txt") == b"x\n"
    git(vault.root, "repack", "-adq")
    git(vault.root, "prune-packed")
    put(vault, ("b.md", b"b\n"))
    git(vault.root, "repack", "-adq")
    assert (vault.committed("a.md"), vault.committed("b.md"), vault.committed("theirs.txt")) == (b"a\n", b"b\n", b"x\n")
    assert vault.head() == git(vault.root, "rev-parse", "HEAD")


def test_the_child_is_replaced_when_it_dies(vault: Vault) -> None:
    put(vault, ("a.md", b"a\n"))
    child = vault.git._child
    assert child is not None
    os.kill(child.pid, signal.SIGKILL)
    assert vault.committed("a.md") == b"a\n"
    assert put(vault, ("a.md", b"b\n")) is not None


def test_the_child_answers_many_threads(vault: Vault) -> None:
    files = [(f"{i}.md", b"%d\n" % i * (i + 1)) for i in range(40)]
    put(vault, *files)
    wrong: list[str] = []

    def read() -> None:
        wrong.extend(path for path, data in files * 5 if vault.committed(path) != data)

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_what_is_not_there(vault: Vault) -> None:
    assert vault.committed("no.md") is None
    assert vault.committed("global") is None
    assert vault.committed("global/person/x/y") is None
    assert vault.git.resolve("no-such-branch") is None
    assert vault.git.resolve("HEAD\nHEAD") is None
    assert vault.git.resolve("") is None
    assert vault.git.resolve("HEAD~99") is None
    assert vault.git.resolve("main") == vault.head()
    with pytest.raises(Unavailable, match="lacks the blob"):
        vault.blob("0" * 40)


def test_a_log_may_be_left_early(vault: Vault) -> None:
    for i in range(20):
        put(vault, ("a.md", b"%d" % i))
    before = children()
    log = vault.git.log("--format=%s")
    assert next(log) == b"remember: a thing"
    log.close()  # type: ignore[attr-defined]
    assert len(list(vault.git.log("--format=%s"))) == 21
    assert children() <= before


def test_ignored_paths(vault: Vault) -> None:
    (vault.root / ".gitignore").write_text("*.log\n/drafts/\n!keep.log\n")
    put(vault, ("tracked.log", b"x"))
    paths = ["a.md", "b.log", "drafts/c.md", "keep.log", ":(top)x.log", "*.log", "s p/ü.log", "tracked.log"]
    assert vault.ignored_paths(paths) == {"b.log", "drafts/c.md", ":(top)x.log", "*.log", "s p/ü.log"}
    assert vault.ignored_paths([]) == set()


def test_loose_objects_are_packed_while_the_vault_goes_on(vault: Vault) -> None:
    from ormahd.git.packs import loose_objects, tidy

    stop = threading.Event()
    written: list[bytes] = []

    def write() -> None:
        while not stop.is_set():
            written.append(b"%d\n" % len(written))
            put(vault, ("a.md", written[-1]))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        while loose_objects(vault.git) == 0 and len(written) < 500:
            stop.wait(0.01)
        for _ in range(3):
            assert tidy(vault.git, beyond=-1)
    finally:
        stop.set()
        thread.join()
    assert vault.tidy() is False
    assert vault.committed("a.md") == written[-1]
    assert len(list(vault.git.log("--format=%s"))) == len(written) + 1
    sound(vault.root)


def test_what_each_commit_changed_is_noted_when_objects_are_packed(vault: Vault) -> None:
    from ormahd.git.packs import tidy

    def life(path: str) -> list[str]:
        return git(vault.root, "log", "--format=%s", "--", path).splitlines()

    graph = vault.git.git_dir / "objects/info/commit-graphs"
    for number in range(5):
        put(vault, ("a.md", b"%d\n" % number), (f"b{number}.md", b"b\n"))
    before = life("a.md")
    assert len(before) == 5
    assert not graph.exists()
    for turn in (1, 2):
        assert tidy(vault.git, beyond=-1)
        git(vault.root, "commit-graph", "verify")
        assert list(graph.glob("*.graph"))
        assert len(life("a.md")) == 4 + turn
        put(vault, ("a.md", b"again %d\n" % turn))
        assert len(life("a.md")) == 5 + turn
    assert life("b3.md") == [before[1]]
    assert git(vault.root, "-c", "core.commitGraph=false", "log", "--format=%s", "--", "a.md").splitlines() == life(
        "a.md"
    )
    sound(vault.root)


def test_a_vault_that_is_moved_away_is_named(vault: Vault, tmp_path: Path) -> None:
    put(vault, ("a.md", b"a"))
    os.rename(vault.root, tmp_path / "elsewhere")
    with pytest.raises((Unavailable, OSError)):
        put(vault, ("a.md", b"b"))
    assert not vault.root.exists()
    os.rename(tmp_path / "elsewhere", vault.root)
    assert put(vault, ("a.md", b"b")) is not None
    sound(vault.root)


def test_a_missing_index_is_written_with_all_files(vault: Vault) -> None:
    """Else the person's next commit would delete every note that the new index lacks."""
    put(vault, ("a.md", b"1"), ("b.md", b"1"))
    (vault.root / ".git/index").unlink()
    assert put(vault, ("a.md", b"2")) is not None
    assert git(vault.root, "status", "--porcelain") == ""


def test_an_index_that_cannot_be_replaced_after_the_branch_moved(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit stands; nobody can commit from the old index meanwhile; it is completed as soon as it can be."""
    from ormahd.git import index as git_index

    real = os.replace
    failures = [True]

    def replace(source: object, target: object) -> None:
        if failures and str(target).endswith(".git/index"):
            raise OSError(5, "Input/output error")
        real(source, target)  # type: ignore[call-overload]

    monkeypatch.setattr(git_index.os, "replace", replace)
    assert put(vault, ("a.md", b"1")) is not None
    assert (vault.root / ".git/index.lock").exists()
    assert vault.committed("a.md") == b"1"
    failures.clear()
    assert put(vault, ("b.md", b"1"), kind=Kind.UPDATE) is not None
    assert git(vault.root, "log", "--format=%s").split("\n").count("remember: a thing") == 2
    sound(vault.root)
