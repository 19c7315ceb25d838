"""Git typed by a person in the vault merges notes as undo does: with the daemon, without it."""

from __future__ import annotations

import pytest

from ormahd.note.edit import edit
from tests.blackbox.by_hand import HELPER_IN_THE_SOAK, Hand, overlapping


def test_revert_takes_an_op_back_under_later_edits(hand: Hand) -> None:
    node_id, commit = overlapping(hand)
    op = hand.house.json("history")[1]["op"]
    hand.leave()
    hand.git("revert", "--no-edit", commit)
    note = hand.note(node_id)
    assert (note.title, set(note.tags)) == ("Ferry", {"sea", "travel"})
    before = hand.git("rev-list", "--count", "HEAD")
    hand.follow()
    hand.as_indexed(node_id)
    assert hand.git("rev-list", "--count", "HEAD") == before, "what git committed is not committed again"
    assert hand.house.json("history", "--limit", "9")[2]["op"] == op
    assert hand.house.json("history", "--limit", "9")[2]["undone_by"] == hand.head()
    hand.git("revert", "--no-edit", "HEAD")
    hand.follow()
    assert hand.note(node_id).title == "The ferry"
    assert hand.house.json("history", "--limit", "9")[3]["undone_by"] is None


def two_sides(hand: Hand) -> str:
    """A memory with another title on `main` and other tags on `side`, one line from the other."""
    node_id = hand.remember("The ferry leaves at noon.", title="Ferry", tags=["sea"])
    hand.leave()
    hand.git("switch", "-qc", "side")
    hand.edit(node_id, subject="tags", tags=["sea", "travel"])
    hand.git("switch", "-q", "main")
    hand.edit(node_id, subject="title", title="The ferry")
    return node_id


def both(hand: Hand, node_id: str) -> None:
    note = hand.note(node_id)
    assert (note.title, set(note.tags)) == ("The ferry", {"sea", "travel"})
    hand.clean()
    hand.follow()
    hand.as_indexed(node_id)
    assert hand.house.call("agent.recall", query="ferry").results[0].id == node_id


@HELPER_IN_THE_SOAK
@pytest.mark.parametrize(
    "words", ["merge --no-edit side", "cherry-pick side", "rebase --merge side", "rebase --apply side"]
)
def test_merge_cherry_pick_and_rebase(hand: Hand, words: str) -> None:
    node_id = two_sides(hand)
    hand.git(*words.split())
    both(hand, node_id)
    if words.startswith("rebase"):
        assert hand.git("log", "-2", "--format=%s").split() == ["title", "tags"]


@HELPER_IN_THE_SOAK
def test_pull(hand: Hand) -> None:
    node_id = hand.remember("The ferry leaves at noon.", title="Ferry", tags=["sea"])
    hand.leave()
    there = hand.house.home / "elsewhere"
    hand.git("clone", "-q", ".", str(there))
    path = hand.path(node_id)
    (there / path).write_bytes(edit((there / path).read_bytes(), path, set={"tags": ["sea", "travel"]}))
    assert hand.run("commit", "-qam", "tags", cwd=there).returncode == 0
    hand.edit(node_id, subject="title", title="The ferry")
    hand.git("pull", "-q", "--no-rebase", "--no-edit", str(there), "main")
    both(hand, node_id)


@HELPER_IN_THE_SOAK
def test_stash_pop(hand: Hand) -> None:
    node_id = hand.remember("The ferry leaves at noon.", title="Ferry", tags=["sea"])
    hand.follow()
    hand.house.stop()  # a running daemon commits the edit before it can be stashed
    path = hand.path(node_id)
    file = hand.house.vault / path
    file.write_bytes(edit(file.read_bytes(), path, set={"tags": ["sea", "travel"]}))
    hand.git("stash", "-q")
    hand.edit(node_id, subject="title", title="The ferry")
    if hand.daemon:
        hand.follow()
    hand.git("stash", "pop", "-q")
    both(hand, node_id)
    assert hand.git("stash", "list") == ""


@HELPER_IN_THE_SOAK
def test_an_op_that_was_reverted_and_picked_again_is_one_op(hand: Hand) -> None:
    node_id, commit = overlapping(hand)
    op = hand.house.json("history")[1]["op"]
    hand.leave()
    hand.git("revert", "--no-edit", commit)
    hand.git("cherry-pick", commit)
    assert hand.note(node_id).title == "The ferry"
    hand.follow()
    assert hand.house.json("history", "show", op[:20])["commit"] == hand.head()
    assert hand.house.ctl("undo", op[:20]).returncode == 0
    assert (hand.note(node_id).title, set(hand.note(node_id).tags)) == ("Ferry", {"sea", "travel"})
