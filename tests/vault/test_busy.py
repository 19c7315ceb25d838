"""While somebody else is at work in the repository: nothing moves, nothing is refused, and all of it follows."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

import pytest

from ormahd.errors import Conflict, VaultBusy
from ormahd.model.change import Committed, Kind
from ormahd.vault.vault import Vault
from tests import small_disk
from tests.house import wait_until
from tests.vault.git_house import git, node_of, open_vault, put, remove, sha, sound

A, B = "global/fact/2026-11/a.md", "global/fact/2026-11/b.md"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with open_vault(tmp_path / "vault") as vault:
        put(vault, (A, b"1\n"))
    return tmp_path / "vault"


def hold(root: Path) -> Path:
    lock = root / ".git/index.lock"
    lock.touch()
    return lock


def test_a_write_waits_in_its_intent_and_follows(root: Path) -> None:
    with open_vault(root) as vault:
        heard: list[Committed] = []
        vault.listen(heard.extend)
        before = vault.head()
        lock = hold(root)
        assert vault.busy() == "another git program holds index.lock"
        with pytest.raises(VaultBusy) as caught:
            put(vault, (A, b"2\n"))
        assert caught.value.data["stored"] is True
        assert caught.value.data["node_ids"] == [node_of(A)]
        assert (root / A).read_bytes() == b"1\n"
        assert vault.head() == before
        assert vault.read(A) == b"2\n"
        assert vault.waiting == 1
        lock.unlink()
        wait_until(lambda: vault.waiting == 0, "what was promised is written")
        assert (root / A).read_bytes() == b"2\n"
        assert [done.op for done in heard] == [caught.value.data["op"]]
        assert vault.busy() is None
    sound(root)


def test_a_short_hold_is_waited_for(root: Path) -> None:
    with open_vault(root, wait=60.0) as vault:
        lock = hold(root)
        timer = threading.Timer(0.1, lock.unlink)
        timer.start()
        assert put(vault, (A, b"2\n")) is not None
        timer.join()
    sound(root)


def test_later_writes_build_on_what_waits(root: Path) -> None:
    with open_vault(root) as vault:
        lock = hold(root)
        for data in (b"2\n", b"3\n"):
            with pytest.raises(VaultBusy):
                put(vault, (A, data))
        with pytest.raises(VaultBusy):
            put(vault, (B, b"1\n"))
        with pytest.raises(VaultBusy):
            remove(vault, B)
        assert vault.read(B) is None
        with pytest.raises(Conflict), vault.transaction("x", kind=Kind.UPDATE, source="agent:a") as tx:
            tx.put(A, b"4\n", node_id=None, expect=sha(b"1\n"))
        assert put(vault, (A, b"3\n")) is None
        assert vault.waiting == 4
        lock.unlink()
        wait_until(lambda: vault.waiting == 0, "what was promised is written")
        assert (vault.read(A), vault.read(B)) == (b"3\n", None)
        assert git(root, "rev-list", "--count", "HEAD") == "6"
    sound(root)


def test_what_waits_survives_the_daemon(root: Path) -> None:
    vault = open_vault(root)
    lock = hold(root)
    with pytest.raises(VaultBusy):
        put(vault, (A, b"2\n"))
    vault.close()
    with open_vault(root, recover=False) as vault:
        said = vault.recover()
        assert said == ["1 writes wait: another git program holds index.lock"]
        assert vault.read(A) == b"2\n"
        lock.unlink()
        wait_until(lambda: vault.waiting == 0, "what was promised is written")
        assert vault.committed(A) == b"2\n"
    sound(root)


MINE = b"---\nid: 11111111-1111-4111-8111-111111111111\ntype: fact\ntitle: One\ncreated: 2026-11-21T20:00:00Z\n---\nfirst line\n\nlast line\n"


def test_an_edit_of_the_person_meanwhile_is_merged(root: Path) -> None:
    with open_vault(root) as vault:
        put(vault, (B, MINE))
        lock = hold(root)
        with pytest.raises(VaultBusy):
            put(vault, (B, MINE.replace(b"title: One", b"title: Two")))
        (root / B).write_bytes(MINE.replace(b"last line", b"the person's line"))
        lock.unlink()
        wait_until(lambda: vault.waiting == 0, "what was promised is written")
        merged = MINE.replace(b"title: One", b"title: Two").replace(b"last line", b"the person's line")
        assert (root / B).read_bytes() == merged
        assert vault.committed(B) == merged
    sound(root)


def test_what_excludes_a_persons_edit_is_set_aside_and_the_edit_stays(root: Path) -> None:
    with open_vault(root) as vault:
        lock = hold(root)
        with pytest.raises(VaultBusy) as caught:
            put(vault, (A, b"2\n"), ("x.txt", b"x\n"))
        (root / A).unlink()
        lock.unlink()
        wait_until(lambda: vault.waiting == 0, "what was promised is written")
        assert not (root / A).exists()
        assert vault.committed("x.txt") == b"x\n"
        assert (root / ".ormah/conflicts" / caught.value.data["op"] / A).read_bytes() == b"2\n"


def test_an_op_that_removes_goes_whole_or_not_at_all(root: Path) -> None:
    with open_vault(root) as vault:
        put(vault, (B, b"loser\n"))
        before = vault.head()
        lock = hold(root)
        with (  # noqa: PT012 - the block is the thing under test
            pytest.raises(VaultBusy),
            vault.transaction("merge", kind=Kind.MERGE, source="job:m") as tx,
        ):
            tx.put(A, b"both\n", node_id=None, expect=sha(b"1\n"))
            tx.remove(B, node_id=None, expect=sha(b"loser\n"))
        (root / B).write_bytes(b"loser, edited\n")
        lock.unlink()
        wait_until(lambda: vault.waiting == 0, "what was promised is written")
        assert vault.head() == before
        assert (root / A).read_bytes() == b"1\n"
        assert (root / B).read_bytes() == b"loser, edited\n"
        assert not list((root / ".ormah/tmp").iterdir())


def conflicting(root: Path, command: str) -> None:
    """A merge, rebase, cherry-pick or revert of the person's that stops in the middle."""
    (root / "theirs.txt").write_text("0\n")
    git(root, "add", "theirs.txt")
    git(root, "commit", "-qm", "0")
    git(root, "branch", "side")
    (root / "theirs.txt").write_text("1\n")
    git(root, "commit", "-qam", "1")
    git(root, "switch", "-q", "side")
    (root / "theirs.txt").write_text("2\n")
    git(root, "commit", "-qam", "2")
    if command == "revert":
        (root / "theirs.txt").write_text("3\n")
        git(root, "commit", "-qam", "3")
        git(root, "revert", "--no-edit", "HEAD~1", ok=False)
    elif command == "am":
        patch = git(root, "format-patch", "-1", "main", "--stdout")
        git(root, "am", "-q", ok=False, stdin=patch + "\n")
    elif command == "bisect":
        git(root, "bisect", "start", "HEAD", "HEAD~2")
    else:
        git(root, command, "main", ok=False)


@pytest.mark.parametrize(
    ("command", "end"),
    [("merge", "merge --abort"), ("rebase", "rebase --abort"), ("cherry-pick", "cherry-pick --abort"),
     ("revert", "revert --abort"), ("am", "am --abort"), ("bisect", "bisect reset")],
)  # fmt: skip
def test_the_persons_unfinished_work_is_waited_for(root: Path, command: str, end: str) -> None:
    conflicting(root, command)
    before = git(root, "status", "--porcelain")
    with open_vault(root) as vault:
        assert "is under way" in (vault.busy() or "")
        with pytest.raises(VaultBusy, match="is under way"):
            put(vault, (A, b"2\n"))
        assert git(root, "status", "--porcelain") == before
        assert (root / A).read_bytes() == b"1\n"
        git(root, *end.split())
        wait_until(lambda: vault.waiting == 0, "what was promised is written")
        assert vault.committed(A) == b"2\n"
        assert git(root, "log", "-1", "--format=%s") == "remember: a thing"


@pytest.mark.parametrize("name", ["HEAD.lock", "refs/heads/main.lock", "packed-refs.lock"])
def test_a_ref_that_is_locked_is_waited_for(root: Path, name: str) -> None:
    with open_vault(root) as vault:
        (root / ".git" / name).touch()
        with pytest.raises(VaultBusy, match=name.rsplit("/", 1)[-1]):
            put(vault, (A, b"2\n"))
        (root / ".git" / name).unlink()
        wait_until(lambda: vault.waiting == 0, "what was promised is written")
        assert vault.committed(A) == b"2\n"
    sound(root)


def test_a_ref_locked_in_the_last_moment_takes_everything_back(root: Path) -> None:
    lock = root / ".git/refs/heads/main.lock"
    with open_vault(root, at=lambda step: lock.touch() if step == "moving" and not done else None) as vault:
        done: list[bool] = []
        before = git(root, "rev-parse", "HEAD")
        with pytest.raises(VaultBusy):
            put(vault, (A, b"2\n"), (B, b"1\n"))
        assert (root / A).read_bytes() == b"1\n"
        assert not (root / B).exists()
        assert git(root, "rev-parse", "HEAD") == before
        assert git(root, "status", "--porcelain") == ""
        done.append(True)
        lock.unlink()
        wait_until(lambda: vault.waiting == 0, "what was promised is written")
        assert (root / B).read_bytes() == b"1\n"
    sound(root)


def test_a_git_that_waits_for_its_editor_keeps_its_lock(root: Path, tmp_path: Path) -> None:
    """`git commit -a` holds index.lock, closed, while the person writes the message, for as long as that takes."""
    import subprocess

    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    (root / A).write_bytes(b"the person's\n")
    person = subprocess.Popen(["git", "commit", "-qa"], cwd=root, env={**os.environ, "GIT_EDITOR": f"cat {fifo} >"})
    try:
        wait_until((root / ".git/index.lock").exists, "git holds its lock")
        with open_vault(root) as vault:
            assert (root / ".git/index.lock").exists()
            with pytest.raises(VaultBusy):
                put(vault, (B, b"b\n"))
            fifo.write_text("the person's words\n")
            assert person.wait(120) == 0
            wait_until(lambda: vault.waiting == 0, "what was promised is written")
            assert git(root, "log", "-2", "--format=%s").split("\n") == ["remember: a thing", "the person's words"]
            assert vault.committed(A) == b"the person's\n"
    finally:
        person.kill()
        person.wait()
    sound(root)


def test_many_threads_while_git_comes_and_goes(root: Path) -> None:
    with open_vault(root, wait=0.02) as vault:
        stop = threading.Event()
        stored: list[bool] = []

        def person() -> None:
            while not stop.is_set():
                git(root, "status", env={"GIT_OPTIONAL_LOCKS": "1"})
                try:
                    os.close(os.open(root / ".git/index.lock", os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    continue
                stop.wait(0.03)
                (root / ".git/index.lock").unlink()
                stop.wait(0.03)

        def work(number: int) -> None:
            for turn in range(10):
                try:
                    put(vault, (f"{number}/{turn}.md", b"x"))
                except VaultBusy as exc:
                    stored.append(exc.data["stored"])

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        other = threading.Thread(target=person)
        other.start()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stop.set()
        other.join()
        assert all(stored)
        wait_until(lambda: vault.waiting == 0, "what was promised is written")
        assert len([path for path in vault.tree() if path[0].isdigit()]) == 40
        assert git(root, "log", "--format=%s").split("\n").count("remember: a thing") == 41
    sound(root)


def test_closing_while_something_waits_does_not_hang_or_lose(root: Path) -> None:
    before = set(threading.enumerate())  # a vault that an earlier test left open has a writer too
    vault: Vault = open_vault(root)
    lock = hold(root)
    with pytest.raises(VaultBusy):
        put(vault, (A, b"2\n"))
    vault.close()
    assert set(threading.enumerate()) <= before
    lock.unlink()
    open_vault(root).close()
    assert (root / A).read_bytes() == b"2\n"
    sound(root)


@pytest.mark.parametrize("what", ["index.lock", "MERGE_HEAD", "REBASE"])
def test_what_must_not_be_queued_is_refused_and_never_follows(root: Path, what: str) -> None:
    with open_vault(root, wait=0.05) as vault:
        before = vault.head()
        file = root / ".git" / ("rebase-merge" if what == "REBASE" else what)
        file.mkdir() if what == "REBASE" else file.write_text(before or "")
        with pytest.raises(VaultBusy) as caught:
            put(vault, (A, b"2\n"), queue=False)
        assert caught.value.data == {"stored": False}
        assert (vault.waiting, vault.read(A), vault.head()) == (0, b"1\n", before)
        assert not list((root / ".ormah/intent").glob("*.json"))
        file.rmdir() if what == "REBASE" else file.unlink()
        assert vault.recover() == []
        assert (vault.read(A), vault.head()) == (b"1\n", before)
        assert put(vault, (A, b"3\n"), queue=False) is not None
    sound(root)


def test_git_that_comes_between_the_look_and_the_write_is_no_queue_either(root: Path) -> None:
    """The lock appears when the promise is written already: the promise is taken back."""

    def at(step: str) -> None:
        if step == "promised" and begun:
            hold(root)

    begun: list[bool] = []
    with open_vault(root, wait=0.05, at=at) as vault:
        begun.append(True)
        with pytest.raises(VaultBusy) as caught:
            put(vault, (A, b"2\n"), queue=False)
        assert caught.value.data == {"stored": False}
        assert vault.waiting == 0
        begun.clear()
        (root / ".git/index.lock").unlink()
        assert put(vault, (B, b"later\n")) is not None
        assert vault.read(A) == b"1\n"
    sound(root)


def test_what_is_not_queued_waits_for_a_short_hold(root: Path) -> None:
    with open_vault(root, wait=60.0) as vault:
        lock = hold(root)
        timer = threading.Timer(0.1, lock.unlink)
        timer.start()
        assert put(vault, (A, b"2\n"), queue=False) is not None
        timer.join()
    sound(root)


def test_what_fails_after_the_branch_has_moved_is_no_refusal(root: Path) -> None:
    """What was committed stands, and nobody is told that nothing was changed."""
    note = root / ".ormah/intent/moving"

    def at(step: str) -> None:
        if step == "moving":  # now the note of where the branch goes cannot be taken away
            note.unlink()
            note.mkdir()

    with open_vault(root, at=at) as vault:
        with pytest.raises(VaultBusy) as caught:
            put(vault, (A, b"2\n"))
        assert caught.value.data["stored"] is True
        assert "nothing was changed" not in str(caught.value)
        assert git(root, "show", f"HEAD:{A}") == "2"
        assert (root / A).read_bytes() == b"2\n"
    note.rmdir()
    with open_vault(root) as vault:
        assert vault.read(A) == b"2\n"
    sound(root)


def test_the_branch_is_asked_of_git_only_when_it_may_be_another(root: Path) -> None:
    with open_vault(root) as vault:
        assert vault.git.branch() == "refs/heads/main"
        put(vault, (A, b"2\n"))
        assert vault.git.branch() == "refs/heads/main"
        git(root, "switch", "-q", "-c", "other")
        assert vault.git.branch() == "refs/heads/other"
        git(root, "switch", "-q", "--orphan", "new")
        assert vault.git.branch() == "refs/heads/new"
        git(root, "switch", "-q", "--detach", "other")
        assert vault.git.branch() is None


def test_what_was_promised_waits_for_room_also_at_a_start(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if against := small_disk.mount(small, "size=8m"):
        pytest.skip(f"needs the right to mount: {against}")
    root, ballast = small / "vault", small / "ballast"
    try:
        with open_vault(root) as vault:
            lock = hold(root)
            with pytest.raises(VaultBusy):
                put(vault, (A, b"promised\n"))
        lock.unlink()
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        with open_vault(root, recover=False) as vault:
            assert any("1 writes wait" in said for said in vault.recover())
            assert vault.read(A) == b"promised\n"
            ballast.unlink()
            wait_until(lambda: vault.waiting == 0, "what was promised is written")
            assert (root / A).read_bytes() == b"promised\n"
        sound(root)
    finally:
        small_disk.unmount(small)
