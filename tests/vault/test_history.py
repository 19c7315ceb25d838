"""Ops as git tells them: trailers, commits by hand, what was undone, and pages of a long history."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ormahd.errors import Ambiguous, BadRequest, NotFound
from ormahd.index.history import moment
from ormahd.model.change import Kind
from ormahd.note.write import compose
from ormahd.vault.vault import Vault
from tests.vault.git_house import START, git, history_of, sha
from tests.vault.observed import uuid

ONE, TWO = uuid(0x1A2B3C4D), uuid(0x22222222)
PATH = "work/fact/2026-11/fact_words_1a2b3c4d.md"


def note(node_id: str, text: str) -> bytes:
    return compose(
        id=node_id, type="fact", tier="working", space=None, title=None, tags=[], source="agent:test", confidence=1.0,
        created=START, updated=START, content=text,
    )  # fmt: skip


def store(vault: Vault, path: str, node_id: str, text: str, subject: str = "remember: a thing", **options) -> str:
    given = {"kind": Kind.REMEMBER, "source": "agent:test"} | options
    with vault.transaction(subject, **given) as tx:
        tx.put(path, note(node_id, text), node_id=node_id, expect=sha(vault.read(path)))
    return tx.op


def test_an_op_says_what_was_done(vault: Vault) -> None:
    op = store(vault, PATH, ONE, "words", "merge: two became one", kind=Kind.MERGE, source="job:duplicate_merger",
               body="cosine .93\n\nverdict: same", run="run-1")  # fmt: skip
    first = history_of(vault).ops()[0]
    assert (first.op, first.kind, first.source, first.run) == (op, "merge", "job:duplicate_merger", "run-1")
    assert (first.subject, first.body) == ("merge: two became one", "cosine .93\n\nverdict: same")
    assert (first.nodes, first.undone_by, first.time.tzinfo) == ((ONE,), None, UTC)
    assert first.commit == vault.head()
    assert [[op.kind for op in history_of(vault).ops(kinds=kind and [kind])] for kind in (None, "init")] == [
        ["merge"],
        ["init"],
    ]


def test_filters(vault: Vault) -> None:
    one = store(vault, PATH, ONE, "a")
    two = store(vault, "b.md", TWO, "b")
    job = store(vault, PATH, ONE, "c", kind=Kind.DECAY, source="job:decay_manager")
    assert [op.op for op in history_of(vault).ops(node_id=ONE)] == [job, one]
    assert [op.op for op in history_of(vault).ops(kinds=["decay"])] == [job]
    assert [op.op for op in history_of(vault).ops(source="job:decay_manager")] == [job]
    assert [op.op for op in history_of(vault).ops(source="agent:test")] == [two, one]
    assert [op.op for op in history_of(vault).ops(source="job")] == [job]
    assert [op.op for op in history_of(vault).ops(space=("work", frozenset()))] == [job, one], "by the folder"
    assert [op.op for op in history_of(vault).ops(space=("x", frozenset({TWO})))] == [two], "by the memories of today"
    assert [op.op for op in history_of(vault).ops(limit=2)] == [job, two]
    times = {op.op: op.time.isoformat() for op in history_of(vault).ops()}
    assert [op.op for op in history_of(vault).ops(since=times[two])] == [job, two]
    assert [op.op for op in history_of(vault).ops(before=times[job])][:2] == [two, one]
    assert len(history_of(vault).ops(since="2026-11-21", before="2026-11-21")) == 3
    assert list(history_of(vault).count_months(source="agent").items()) == [(f"{START.astimezone():%Y-%m}", 2)]
    assert history_of(vault).ops(since="2026-11-22") == []
    assert history_of(vault).ops(before="2026-11-20") == []
    for wrong in ({"since": "soon"}, {"before": "2026-13-01"}, {"kinds": ["magic"]}, {"limit": 0}, {"node_id": "1a2b"}):
        with pytest.raises(BadRequest):
            history_of(vault).ops(**wrong)


def test_times_and_days() -> None:
    assert moment("2026-11-21T20:00:00+02:00") == datetime(2026, 11, 21, 18, tzinfo=UTC)
    assert (moment("2026-12"), moment("2026-12", end=True)) == (moment("2026-12-01"), moment("2026-12-31", end=True))
    assert moment("2026-11-21", end=True) == datetime(2026, 11, 22, tzinfo=UTC)
    assert moment("2026-11-21T20:00", end=True) == datetime(2026, 11, 21, 20, tzinfo=UTC)


def test_a_persons_commits_by_hand_are_part_of_it(vault: Vault) -> None:
    store(vault, PATH, ONE, "a")
    git(vault.root, "mv", PATH, "renamed.md")
    git(vault.root, "commit", "-qm", "moved by hand\n\nbecause")
    (vault.root / "renamed.md").write_bytes(note(ONE, "b"))
    git(vault.root, "commit", "-qam", "edited by hand")
    git(vault.root, "commit", "-q", "--allow-empty", "-m", "nothing")
    mine = history_of(vault).ops(node_id=ONE)
    assert [op.subject for op in mine] == ["edited by hand", "moved by hand", "remember: a thing"]
    assert [(op.op, op.kind, op.source, op.nodes) for op in mine[:2]] == [(None, None, "person", ())] * 2
    assert mine[1].body == "because"
    assert history_of(vault).ops()[0].subject == "nothing"


def test_an_undo_and_the_undo_of_an_undo(vault: Vault) -> None:
    op = store(vault, PATH, ONE, "a")
    undo = store(vault, PATH, ONE, "b", kind=Kind.UNDO, source="person", trailers=[("Ormah-Undoes", op)])
    assert history_of(vault).find(op).undone_by == history_of(vault).find(undo).commit
    assert history_of(vault).find(undo).undone_by is None
    redo = store(vault, PATH, ONE, "a", kind=Kind.UNDO, source="person", trailers=[("Ormah-Undoes", undo)])
    assert history_of(vault).find(undo).undone_by == history_of(vault).find(redo).commit
    assert history_of(vault).find(op).undone_by is None
    again = store(vault, PATH, ONE, "b", kind=Kind.UNDO, source="person", trailers=[("Ormah-Undoes", op)])
    assert history_of(vault).find(op).undone_by == history_of(vault).find(again).commit
    assert [each.undone_by for each in history_of(vault).ops(node_id=ONE)] == [
        None,
        None,
        history_of(vault).find(redo).commit,
        history_of(vault).find(again).commit,
    ]


def test_a_revert_by_hand_and_its_revert(vault: Vault) -> None:
    op = store(vault, PATH, ONE, "a")
    git(vault.root, "revert", "--no-edit", "HEAD")
    revert = vault.head()
    assert history_of(vault).find(op).undone_by == revert
    git(vault.root, "revert", "--no-edit", "HEAD")
    assert history_of(vault).find(op).undone_by is None
    assert history_of(vault).find(revert).undone_by == vault.head()


def test_an_op_is_found_by_a_unique_beginning(vault: Vault) -> None:
    first = store(vault, PATH, ONE, "a")
    second = store(vault, PATH, ONE, "b")
    commit = vault.head()
    assert history_of(vault).find(second.upper()).op == second
    assert history_of(vault).find(commit[:12]).op == second
    same = next(at for at in range(26) if first[at] != second[at])
    common = first[:same]
    assert history_of(vault).find(first[: same + 1]).op == first
    with pytest.raises(Ambiguous) as ambiguous:
        history_of(vault).find(common)
    assert set(ambiguous.value.data["ids"]) >= {first, second}
    for wrong, error in (("zzzzzzzz", NotFound), ("abc", BadRequest), ("../..", BadRequest), ("*" * 8, BadRequest),
                         ("HEAD~1", BadRequest)):  # fmt: skip
        with pytest.raises(error):
            history_of(vault).find(wrong)


def test_a_node_that_is_gone_is_found_in_the_history(vault: Vault) -> None:
    store(vault, PATH, ONE, "a")
    store(vault, "b.md", uuid(0x1A2B0000), "b")
    with vault.transaction("forget: it", kind=Kind.FORGET, source="person") as tx:
        tx.remove(PATH, node_id=ONE, expect=sha(vault.read(PATH)))
    assert history_of(vault).find_node("1a2b3") == ONE
    assert [op.kind for op in history_of(vault).ops(node_id=ONE)] == ["forget", "remember"]
    with pytest.raises(Ambiguous):
        history_of(vault).find_node("1a2b")
    with pytest.raises(NotFound):
        history_of(vault).find_node("ffff")
    with pytest.raises(BadRequest):
        history_of(vault).find_node("%%%%")
