"""History to look at: what an op did, a memory's life, merges and audit (a real daemon, real git)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ormahd.rpc import wire
from tests.blackbox.conftest import House, open_house, wait_until
from tests.blackbox.pasts import commit_by_hand, remember


def path_of(house: House, node_id: str) -> Path:
    return house.vault / house.call("agent.get", node_id=node_id, touch=False).path


def indexed(house: House) -> None:
    """Everything in the folder is committed and in the index."""

    def there() -> bool:
        house.call("admin.run_task", name="index_updater")
        return house.call("admin.health").index.fresh and not house.git("status", "--porcelain")

    wait_until(there, "the vault's edits to be taken in")


# ---------------------------------------------------------------- the life of a memory


@pytest.fixture(scope="module")
def lived() -> Iterator[tuple[House, dict[str, Any]]]:
    """A memory that was remembered, updated, connected, edited by a person, moved by hand, outdated, undone and forgotten."""
    with open_house() as house:
        house.start()
        other = remember(house, "We chose Vite for the front end.", title="Chose Vite", type="decision")
        kept = remember(
            house, "The user prefers TypeScript.\nFor everything.", title="Prefers TypeScript", tags=["web"]
        )
        mine = kept.node_id
        updated = house.call("agent.update", node_id=mine, title="Prefers TypeScript over JavaScript", tier="core",
                             add_tags=["languages"], remove_tags=["web"])  # fmt: skip
        linked = house.call("agent.connect", source_id=mine, target_id=other.node_id, edge="supports", weight=0.8,
                            reason="the build needs it")  # fmt: skip
        note = path_of(house, mine)
        note.write_text(note.read_text().replace("For everything.", "For most things."))
        indexed(house)
        house.git("mv", str(note), "mine.md")
        moved = commit_by_hand(house, "moved by hand\n\nbecause I like it here")
        indexed(house)
        outdated = house.call("agent.outdated", node_id=mine, reason="we write Rust now")
        undone = house.call("history.undo", ops=[outdated.op])
        house.call("agent.forget", node_id=mine)
        yield house, {
            "id": mine, "other": other.node_id, "remembered": kept.op, "updated": updated.op, "linked": linked.op,
            "moved": moved, "outdated": outdated.op, "undo": undone.undone[0].commit, "path": str(note.relative_to(house.vault)),
        }  # fmt: skip


def test_every_version_with_who_why_and_what_changed(lived: tuple[House, dict[str, Any]]) -> None:
    house, said = lived
    found = house.call("history.life", node_id=said["id"][:8])
    assert found.node_id == said["id"]
    versions = found.versions
    assert [version.kind for version in versions] == [
        "forget", "undo", "outdated", None, "edit", "link", "update", "remember"
    ]  # fmt: skip
    told = {version.kind: version for version in versions}
    assert told[None].commit == said["moved"]
    assert told[None].body == "because I like it here"
    assert (told[None].change.change, told[None].change.old_path, told[None].change.path) == (
        "moved",
        said["path"],
        "mine.md",
    )
    assert told["edit"].source == "person"
    assert "-For everything.\n+For most things." in told["edit"].change.diff
    assert told["link"].change.diff == "+ supports -> Chose Vite, weight 0.8, reason: the build needs it"
    assert told["update"].change.diff.split("\n") == [
        "title: Prefers TypeScript -> Prefers TypeScript over JavaScript", "tier: working -> core", "tags: +languages -web"
    ]  # fmt: skip
    assert told["outdated"].body == "we write Rust now"
    assert told["outdated"].undone_by == said["undo"]
    assert "outdated_reason: (none) -> we write Rust now" in told["outdated"].change.diff
    assert "outdated_reason: we write Rust now -> (none)" in told["undo"].change.diff
    assert told["remember"].change.change == "added"
    assert told["forget"].change.change == "removed"
    assert all(version.change.node_id == said["id"] for version in versions)


def test_the_life_as_a_command_for_people_and_programs(lived: tuple[House, dict[str, Any]]) -> None:
    house, said = lived
    shown = house.ctl("history", said["id"][:8])
    assert shown.returncode == 0, shown.stderr
    for line in (
        f"{said['id']}  forgotten", "  moved from " + said["path"], "  we write Rust now", f"  undone by {said['undo'][:8]}",
        "    + supports -> Chose Vite, weight 0.8, reason: the build needs it", "    tier: working -> core",
        "    -For everything.", "    +For most things.",
    ):  # fmt: skip
        assert line in shown.stdout.split("\n"), line
    listed = house.json("history", said["id"])
    assert {"op", "commit", "time", "kind", "source", "subject", "nodes", "undone_by"} <= set(listed[0])
    assert [op["op"] for op in listed] == [op.op for op in house.call("history.list", node_id=said["id"]).ops]
    page = house.json("history", said["id"], "-n", "3")
    rest = house.json("history", said["id"], "--before", page[-1]["op"] or page[-1]["commit"])
    assert page + rest == listed
    limited = house.ctl("history", said["id"], "-n", "2")
    assert "--before" in limited.stderr
    unknown = house.ctl("history", "ffffffff")
    assert (unknown.returncode, unknown.stdout) == (3, "")


def test_one_op_and_all_that_it_did(lived: tuple[House, dict[str, Any]]) -> None:
    house, said = lived
    found = house.call("history.show", op=said["updated"][:20])
    assert (found.op, found.kind, found.source, found.total) == (said["updated"], "update", "agent:test", 1)
    assert [(note.node_id, note.title, note.path, note.change, note.cut) for note in found.notes] == [
        (said["id"], "Prefers TypeScript over JavaScript", said["path"], "edited", False)
    ]  # fmt: skip
    listed = {op.op or op.commit: op for op in house.call("history.list").ops}
    fields = ("op", "commit", "time", "kind", "source", "subject", "body", "nodes", "run", "undone_by")
    assert all(getattr(found, name) == getattr(listed[said["updated"]], name) for name in fields)
    by_hand = house.call("history.show", op=said["moved"][:10])
    assert (by_hand.op, by_hand.notes[0].old_path, by_hand.notes[0].path) == (None, said["path"], "mine.md")
    first = house.call("history.list", kind="init").ops[-1]
    assert {".ormah/vault.toml"} <= {note.path for note in house.call("history.show", op=first.op).notes}
    shown = house.ctl("history", "show", said["outdated"])
    assert shown.returncode == 0, shown.stderr
    for line in (
        f"commit  {house.json('history', 'show', said['outdated'])['commit'][:8]}", "kind    outdated",
        f"undone  by {said['undo'][:8]}", "  we write Rust now",
        "1 file changed", "edited  " + said["id"][:8] + "  Prefers TypeScript over JavaScript", "        mine.md",
    ):  # fmt: skip
        assert line in shown.stdout.split("\n"), line
    assert house.json("history", "show", said["outdated"])["notes"][0]["node_id"] == said["id"]
    for words, status in ((["show", "zzzzzzzz"], 3), (["show", "abc"], 2), (["show"], 2), (["a", "b"], 2),
                          (["show", said["outdated"], "--since", "1d"], 2)):  # fmt: skip
        failed = house.ctl("history", *words)
        assert (failed.returncode, failed.stdout) == (status, ""), words
        assert "error:" in failed.stderr


# ---------------------------------------------------------------- merges and audit


def test_audit_has_the_originals_operations_with_what_was_there_before(daemon: House) -> None:
    house = daemon
    one = remember(house, "Tea is served at four.", title="Tea")
    two = remember(house, "Coffee is served at ten.", title="Coffee")
    house.call("agent.update", node_id=one.node_id, content="Tea is served at five.")
    house.call("agent.outdated", node_id=one.node_id, reason="the kitchen closed")
    forgotten = house.call("agent.forget", node_id=two.node_id)
    note = path_of(house, one.node_id)
    note.write_text(note.read_text().replace("five", "six"))
    indexed(house)
    rows = house.call("agent.audit").entries
    assert [(row.operation, row.node_id) for row in rows] == [
        ("update", one.node_id), ("delete", two.node_id), ("mark_outdated", one.node_id), ("update", one.node_id)
    ]  # fmt: skip
    edited, deleted, outdated, updated = rows
    assert (edited.source, deleted.source) == ("person", "agent:test")
    assert (deleted.id, deleted.commit, deleted.title) == (forgotten.commit, forgotten.commit, "Coffee")
    assert deleted.snapshot["content"] == "Coffee is served at ten."
    assert outdated.detail == "the kitchen closed"
    assert (outdated.snapshot["content"], outdated.snapshot["valid_until"]) == ("Tea is served at five.", None)
    assert updated.snapshot["content"] == "Tea is served at four."
    only = house.call("agent.audit", node_id=two.node_id[:8]).entries
    assert [row.operation for row in only] == ["delete"]
    assert [row.id for row in house.call("agent.audit", operation="update", limit=1).entries] == [edited.id]
    house.call("history.undo", ops=[forgotten.op])
    assert house.call("agent.audit", operation="delete").entries[0].undone_by is not None
    with pytest.raises(wire.BadRequest, match="there is no operation 'magic'"):
        house.call("agent.audit", operation="magic")
