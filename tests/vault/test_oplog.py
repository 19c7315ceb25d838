"""The ops in memory: as git has them, however HEAD moves, and quick with 20,000 of them."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

from ormahd.git.oplog import OpLog
from ormahd.model.change import Kind
from ormahd.vault.history import find_op, list_ops
from ormahd.vault.vault import Vault
from tests.vault.git_house import git, open_vault, put, ticking
from tests.vault.observed import uuid


def op(vault: Vault, text: str, **options) -> str:
    done = put(vault, ("a.md", text.encode()), **options)
    assert done is not None
    return done.op


def as_read_anew(vault: Vault) -> None:
    """What was gathered step by step is what one reading of all gives."""
    assert vault.oplog.view() == OpLog(vault.git).view()


def test_it_follows_head_step_by_step(vault: Vault) -> None:
    assert [entry.kind for entry in vault.oplog.view().entries] == ["init"]
    made = [op(vault, str(number), source=f"job:j{number % 2}", run="r") for number in range(5)]
    view = vault.oplog.view()
    assert [entry.op for entry in view.entries[:-1]] == made[::-1]
    assert (view.entries[0].run, view.entries[0].source, view.head) == ("r", "job:j0", vault.head())
    assert vault.oplog.view() is view
    as_read_anew(vault)


def test_the_newest_page_does_not_wait_for_all_of_it(vault: Vault) -> None:
    made = [op(vault, str(number)) for number in range(5)]
    undo = op(vault, "3", kind=Kind.UNDO, trailers=[("Ormah-Undoes", made[-1])])
    log = OpLog(vault.git)
    page = log.recent(2)
    assert [entry.op for entry in page.entries] == [undo, made[-1]]
    assert page.undone_by(page.entries[1]) == page.entries[0].commit
    whole = log.view()
    assert log.recent(2) is whole


def test_a_history_that_was_rewritten_is_read_anew(vault: Vault) -> None:
    first = op(vault, "1")
    second = op(vault, "2")
    vault.oplog.view()
    git(vault.root, "reset", "-q", "--hard", "HEAD~1")
    assert [entry.op for entry in vault.oplog.view().entries[:1]] == [first]
    git(vault.root, "commit", "-q", "--amend", "-m", "by hand now")
    names = [entry.op for entry in vault.oplog.view().entries]
    assert first not in names
    assert second not in names
    as_read_anew(vault)
    git(vault.root, "reflog", "expire", "--expire=now", "--all")
    op(vault, "3")
    old = vault.oplog.view().head
    git(vault.root, "reset", "-q", "--hard", "HEAD~1")
    git(vault.root, "reflog", "expire", "--expire=now", "--all")
    git(vault.root, "prune", "--expire=now")
    assert old is not None
    assert vault.git.resolve(old) is None
    as_read_anew(vault)


def test_two_lines_of_history_go_together_by_time(tmp_path: Path) -> None:
    with open_vault(tmp_path / "vault") as vault:
        base = op(vault, "base")
        ours = op(vault, "ours")
        vault.oplog.view()
        trunk = git(vault.root, "branch", "--show-current")
        git(vault.root, "switch", "-q", "-c", "other", "HEAD~1")
        theirs = put(vault, ("b.md", b"theirs"))
        undo = put(vault, ("b.md", b"undone"), kind=Kind.UNDO, trailers=[("Ormah-Undoes", base)])
        git(vault.root, "switch", "-q", trunk)
        vault.oplog.view()
        git(vault.root, "merge", "-q", "--no-edit", "other")
        view = vault.oplog.view()
        assert theirs is not None
        assert undo is not None
        assert [entry.op for entry in view.entries[1:5]] == [undo.op, theirs.op, ours, base]
        assert find_op(vault, base).undone_by == undo.commit
        as_read_anew(vault)


def test_many_threads_see_one_history(vault: Vault) -> None:
    seen: list[list[str | None]] = []
    made = []

    def look() -> None:
        seen.extend([entry.op for entry in vault.oplog.view().entries] for _ in range(20))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    made = [op(vault, str(number)) for number in range(20)]
    for thread in threads:
        thread.join()
    whole = [entry.op for entry in vault.oplog.view().entries]
    assert whole[:20] == made[::-1]
    for some in seen:
        assert whole[len(whole) - len(some) :] == some


def test_twenty_thousand_commits(tmp_path: Path) -> None:
    with open_vault(tmp_path / "vault", clock=ticking()) as vault:
        head = vault.head()
        lines = []
        for number in range(20_000):
            text = f"update: number {number}\n\nOrmah-Op: {number:026d}\nOrmah-Kind: update\nOrmah-Source: job:x{number % 3}\n"
            text += f"Ormah-Nodes: {uuid(number % 10 + 1)}\n"
            lines.append(f"commit {vault.git.branch()}\ncommitter A <a@b.c> {1_800_000_000 + number} +0000\n"
                         f"data {len(text)}\n{text}" + (f"from {head}\n" if number == 0 else "\n"))  # fmt: skip
        subprocess.run(["git", "fast-import", "--quiet"], cwd=vault.root, input="".join(lines).encode(), check=True)
        assert len(vault.oplog.view().entries) == 20_001
        assert [each.op for each in list_ops(vault, job="x1", limit=3)] == [
            f"{number:026d}" for number in (19999, 19996, 19993)
        ]
        assert find_op(vault, f"{7:026d}").subject == "update: number 7"
        assert len(list_ops(vault, limit=10_000)) == 10_000
