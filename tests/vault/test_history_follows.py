"""The tables of the history: as git has it, however HEAD moves, and quick with 20,000 commits."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

from ormahd.index.database import Database
from ormahd.index.history import History, Op
from ormahd.model.change import Kind
from ormahd.vault.vault import Vault
from tests.vault.git_house import git, history_of, open_vault, put, ticking
from tests.vault.observed import uuid


def op(vault: Vault, text: str, **options) -> str:
    done = put(vault, ("a.md", text.encode()), **options)
    assert done is not None
    return done.op


def ops(history: History) -> list[Op]:
    return history.ops(limit=None, node_id=None) + history.ops(limit=None, kinds=["init"])


def as_read_anew(vault: Vault) -> None:
    """What was gathered step by step is what one reading of all gives."""
    anew = History(Database(vault.root.parent / "anew"), vault.git)
    anew.follow(anew=True)
    assert ops(history_of(vault)) == ops(anew)
    assert [history_of(vault).changed(op.commit) for op in ops(anew)] == [anew.changed(op.commit) for op in ops(anew)]


def test_it_follows_head_step_by_step(vault: Vault) -> None:
    assert [op.kind for op in history_of(vault).ops(kinds=["init"])] == ["init"]
    made = [op(vault, str(number), source=f"job:j{number % 2}", run="r") for number in range(5)]
    found = history_of(vault).ops()
    assert [one.op for one in found] == made[::-1]
    assert (found[0].run, found[0].source, found[0].commit) == ("r", "job:j0", vault.head())
    as_read_anew(vault)
    database = Database(vault.root.parent / "lost")
    history = History(database, vault.git)
    assert history.ops() == found
    database.begin_anew("it is damaged")
    assert history.ops() == found


def test_a_history_that_was_rewritten_is_read_anew(vault: Vault) -> None:
    first = op(vault, "1")
    second = op(vault, "2")
    history_of(vault).follow()
    git(vault.root, "reset", "-q", "--hard", "HEAD~1")
    assert [one.op for one in history_of(vault).ops(limit=1)] == [first]
    git(vault.root, "commit", "-q", "--amend", "-m", "by hand now")
    names = [one.op for one in history_of(vault).ops()]
    assert first not in names
    assert second not in names
    as_read_anew(vault)
    git(vault.root, "reflog", "expire", "--expire=now", "--all")
    op(vault, "3")
    old = history_of(vault).ops()[0].commit
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
        history_of(vault).follow()
        trunk = git(vault.root, "branch", "--show-current")
        git(vault.root, "switch", "-q", "-c", "other", "HEAD~1")
        theirs = put(vault, ("b.md", b"theirs"))
        undo = put(vault, ("b.md", b"undone"), kind=Kind.UNDO, trailers=[("Ormah-Undoes", base)])
        git(vault.root, "switch", "-q", trunk)
        history_of(vault).follow()
        git(vault.root, "merge", "-q", "--no-edit", "other")
        found = history_of(vault).ops()
        assert theirs is not None
        assert undo is not None
        assert [one.op for one in found[1:5]] == [undo.op, theirs.op, ours, base]
        assert history_of(vault).find(base).undone_by == undo.commit
        as_read_anew(vault)


def test_lines_of_history_whose_clocks_differ_by_years(vault: Vault) -> None:
    """Git then lists commits of `A...B` that both have."""

    def commit(year: int, *arguments: str) -> None:
        date = f"{year}-01-01T00:00:00Z"
        git(vault.root, *arguments, env={"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date})

    for number in range(3):
        commit(2030, "commit", "-q", "--allow-empty", "-m", f"base {number}")
    git(vault.root, "switch", "-q", "-c", "other")
    commit(2031, "commit", "-q", "--allow-empty", "-m", "theirs")
    git(vault.root, "switch", "-q", "main")
    for number in range(10):
        commit(2001, "commit", "-q", "--allow-empty", "-m", f"ours {number}")
    commit(2032, "merge", "-q", "--no-edit", "other")
    for tip in ["main~1", "main", "other", "main~1", "main"]:
        git(vault.root, "switch", "-q", "--detach", tip)
        as_read_anew(vault)


def test_many_threads_see_one_history(vault: Vault) -> None:
    seen: list[list[str | None]] = []
    made = []
    history = history_of(vault)

    def look() -> None:
        seen.extend([one.op for one in history.ops()] for _ in range(20))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    made = [op(vault, str(number)) for number in range(20)]
    for thread in threads:
        thread.join()
    whole = [one.op for one in history_of(vault).ops()]
    assert whole == made[::-1]
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
        assert len(history_of(vault).ops(limit=None)) == 20_000
        assert [each.op for each in history_of(vault).ops(source="job:x1", limit=3)] == [
            f"{number:026d}" for number in (19999, 19996, 19993)
        ]
        assert history_of(vault).find(f"{7:026d}").subject == "update: number 7"
        assert len(history_of(vault).ops(limit=10_000)) == 10_000
