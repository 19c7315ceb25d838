"""What `ormahctl undo` refuses, and what it says: ops that there are not, edits under way, git that is held, conflicts."""

from __future__ import annotations

import json

import pytest

from ormahd.model.change import Kind
from ormahd.model.node import Tier
from ormahd.note.read import parse
from tests.blackbox import undoing
from tests.blackbox.tours import as_job, changed, edited, head, path_of, remember, walk_home
from tests.blackbox.undoing import refused, update
from tests.house import House, open_house, wait_until

house = undoing.house


def test_ops_that_there_are_not(house: House) -> None:
    refused(house, "ffffffffffffffff", status=3, says="no change begins with")
    refused(house, "zzz", status=2, says="no id of a change")
    refused(house, "../..", status=2, says="no id of a change")
    refused(house, "HEAD", status=3, says="no change begins with")
    for number in range(2):
        update(house, remember(house, f"Ambiguous {number}"), tier="core")
    ops = [one["op"] for one in house.json("history", "--limit", "9") if one["kind"] == "update"]
    same = next(at for at in range(26) if ops[0][at] != ops[1][at])
    error = refused(house, ops[0][:same], status=2, says="names .* changes")
    assert set(error["data"]["ids"]) >= set(ops)
    refused(house, ops[0], "ffffffffffff", status=3, says="no change begins with")
    refused(house, "--run", "nosuchrun", status=3, says="there is no run")
    refused(house, "--job", "nosuchjob", "--since", "yesterday", status=3, says="ever changed anything")
    refused(house, "--job", "nosuchjob", status=2, says="since")
    refused(house, "--since", "yesterday", status=2, says="--job and --since go together")
    refused(house, status=2, says="say which change to undo")
    refused(house, ops[0], "--run", ops[1], status=2, says="exclude each other")


def test_commits_by_hand_are_gits(house: House) -> None:
    (house.vault / "by hand.md").write_text("---\nid: 0badc0de-0000-4000-8000-000000000001\n---\nby hand\n")
    house.git("add", "-A")
    house.git("commit", "-qm", "by hand")
    walk_home(house)
    error = refused(house, head(house), status=4, says="made by hand")
    assert f"revert {head(house)[:8]}" in error["hint"]


def test_what_is_undone_already_and_what_cannot_be(house: House) -> None:
    op = update(house, remember(house, "Undone once"), tier="core")
    by = house.json("undo", op)["undone"][0]["commit"]
    error = refused(house, op, status=4, says=f"is undone already, by {by[:8]}")
    assert error["data"]["undone_by"] == by
    reverted = update(house, remember(house, "Reverted by hand"), tier="core")
    house.git("revert", "--no-edit", "HEAD")
    walk_home(house)
    refused(house, reverted, status=4, says=f"is undone already, by {head(house)[:8]}")
    first = house.git("rev-list", "--max-parents=0", "HEAD").strip()
    refused(house, first, status=4, says="the vault's beginning")


def test_purges_and_what_sync_only_moved_forward(house: House) -> None:
    node = remember(house, "Kinds that have no way back")
    purge = as_job(house, Kind.PURGE, changed(house, node, set={"tier": Tier.CORE}))
    refused(house, purge, status=4, says="gone from the history")
    sync = as_job(house, Kind.SYNC, changed(house, node, set={"tier": Tier.WORKING}))
    refused(house, sync, status=4, says="brought nothing together")


def test_a_note_that_is_being_edited_is_not_touched() -> None:
    """Typing, not yet at rest: refused. At rest but not yet taken in: it is taken in first, as an edit."""
    with open_house(ORMAH_VAULT_QUIET_SECONDS="3600") as house:
        house.start()
        node = house.call("agent.remember", content="Being\n\nedited\n\nnow", title="Edited").node_id
        op = update(house, node, title="Updated")
        file = house.vault / path_of(house, node)
        typed = file.read_bytes() + b"\ntyped\n"
        file.write_bytes(typed)
        done = house.ctl("undo", op)
        assert done.returncode == 4
        assert "has changes that are not committed yet" in done.stderr
        assert "wait, or commit it" in done.stderr
        (conflict,) = json.loads(house.ctl("--json", "undo", op).stderr)["error"]["data"]["conflicts"]
        assert (conflict["field"], conflict["node_id"]) == ("uncommitted", node)
        file.unlink()
        assert "not committed yet" in house.ctl("undo", op).stderr
        file.write_bytes(typed)
        house.git("commit", "-qam", "typed by hand")
        assert house.json("undo", op)["undone"][0]["merged"] == [node]
        note = parse(file.read_bytes(), "x")
        assert (note.title, note.content.endswith("typed")) == ("Edited", True)


def test_an_edit_at_rest_is_taken_in_on_the_way(house: House) -> None:
    node = remember(house, "Edited just before", title="Just")
    op = update(house, node, title="Justly")
    file = house.vault / path_of(house, node)
    file.write_bytes(edited(file.read_bytes()))
    wait_until(lambda: house.ctl("undo", op).returncode == 0, "undone as soon as the file rests")
    note = parse(file.read_bytes(), "x")
    assert (note.title, note.content.endswith("A later word of mine.")) == ("Just", True)
    walk_home(house)


@pytest.mark.parametrize("what", ["index.lock", "MERGE_HEAD", "rebase-merge"])
def test_while_git_is_held_nothing_happens_and_nothing_follows(house: House, what: str) -> None:
    op = update(house, remember(house, f"While {what} is there"), tier="core")
    walk_home(house)
    blocker = house.vault / ".git" / what
    blocker.mkdir() if what == "rebase-merge" else blocker.write_text(head(house))
    before = house.notes(), head(house)
    try:
        done = house.ctl("--json", "undo", op)
        assert done.returncode == 75
        error = json.loads(done.stderr)["error"]
        assert error["code"] == "vault_busy"
        assert not list((house.vault / ".ormah/tmp").iterdir())
    finally:
        blocker.rmdir() if what == "rebase-merge" else blocker.unlink()
    house.call("agent.remember", content=f"Something after {what}")  # what had waited would be written before this
    assert head(house) != before[1]
    assert house.git("log", "-1", "--format=%s", f"{before[1]}..HEAD").startswith("Remember: ")
    assert {path: house.notes()[path] for path in before[0]} == before[0]
    assert house.json("undo", op)["undone"][0]["op"] == op


def test_conflicts_are_shown_with_their_three_versions(house: House) -> None:
    node = remember(house, "The door is open", title="Door")
    op = update(house, node, title="Red door", content="The door is shut\n\nand locked")
    update(house, node, title="Green door", content="The door is ajar\n\nand locked")
    done = house.ctl("undo", op)
    assert done.returncode == 4
    for line in (
        "- Red door", "+ Green door", "+ Door",
        "- The door is shut", "+ The door is ajar", "+ The door is open", "nothing was changed", f"ormahctl edit {node[:8]}",
    ):  # fmt: skip
        assert line in done.stderr
    walk_home(house)
