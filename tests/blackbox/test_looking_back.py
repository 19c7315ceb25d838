"""History to look at: what an op did, a memory's life, what was known then, merges and audit (a real daemon, real git)."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ormahd.rpc import schema, wire
from tests.blackbox.conftest import House, open_house, wait_until


def remember(house: House, content: str, **more: Any) -> schema.RememberResult:
    return house.call("agent.remember", content=content, space=None, **more)


def path_of(house: House, node_id: str) -> Path:
    return house.vault / house.call("agent.get", node_id=node_id, touch=False).path


def indexed(house: House) -> None:
    """Everything in the folder is committed and in the index."""

    def there() -> bool:
        house.call("admin.run_task", name="index_updater")
        return house.call("admin.health").index.fresh and not house.git("status", "--porcelain")

    wait_until(there, "the vault's edits to be taken in")


def commit_by_hand(house: House, message: str, when: datetime | None = None) -> str:
    """What a person commits, with trailers and a date of their own where the test needs them."""
    house.git("add", "-A")
    date = [] if when is None else ["--date", when.isoformat()]
    env = {} if when is None else {"GIT_COMMITTER_DATE": when.isoformat()}
    before, house.settings = house.settings, house.settings | env
    try:
        house.git("commit", "-q", *date, "-m", message)
    finally:
        house.settings = before
    return house.git("rev-parse", "HEAD").strip()


def accesses(house: House) -> int:
    with sqlite3.connect(f"file:{house.state / 'state.sqlite3'}?mode=ro", uri=True) as database:
        return int(database.execute("SELECT count(*) FROM access").fetchone()[0])


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
            "moved": moved, "outdated": outdated.op, "undo": undone.undone[0].undo_op, "path": str(note.relative_to(house.vault)),
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
        f"{said['id']}  forgotten", "  moved from " + said["path"], "  we write Rust now", f"  undone by {said['undo']}",
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
    short = house.ctl("history", said["id"], "--no-diff").stdout.splitlines()
    assert len(short) == len(listed)
    assert any("moved by hand" in line for line in short)
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
        f"op      {said['outdated']}", "kind    outdated", f"undone  by {said['undo']}", "  we write Rust now",
        "1 file changed", "edited  " + said["id"][:8] + "  Prefers TypeScript over JavaScript", "        mine.md",
    ):  # fmt: skip
        assert line in shown.stdout.split("\n"), line
    assert house.json("history", "show", said["outdated"])["notes"][0]["node_id"] == said["id"]
    for words, status in ((["show", "zzzzzzzz"], 3), (["show", "abc"], 2), (["show"], 2), (["a", "b"], 2),
                          (["show", said["outdated"], "--kind", "edit"], 2)):  # fmt: skip
        failed = house.ctl("history", *words)
        assert (failed.returncode, failed.stdout) == (status, ""), words
        assert "error:" in failed.stderr


def test_an_import_is_listed_up_to_a_limit_and_its_run_is_found(lived: tuple[House, dict[str, Any]]) -> None:
    house, _ = lived
    lines = "\n".join(json.dumps({"content": f"imported thing {number}"}) for number in range(120))
    run = house.json("import", "-", input=lines)["run"]
    ops = house.json("history", "--run", run)
    assert {op["kind"] for op in ops} == {"import"}
    assert sum(len(op["nodes"]) for op in ops) == 120
    largest = max(ops, key=lambda op: len(op["nodes"]))
    shown = house.ctl("history", "show", largest["op"], "-n", "5")
    assert f"{len(largest['nodes'])} files changed" in shown.stdout
    assert shown.stdout.count("added   ") == 5
    assert "more are not shown" in shown.stderr
    found = house.call("history.show", op=largest["op"], limit=5)
    assert (len(found.notes), found.total) == (5, len(largest["nodes"]))


def test_a_person_who_commits_a_revert_is_told_of(lived: tuple[House, dict[str, Any]]) -> None:
    house, _ = lived
    op = remember(house, "A passing thought about bees.").op
    house.git("revert", "--no-edit", "HEAD")
    indexed(house)
    revert = house.git("rev-parse", "HEAD").strip()
    assert house.call("history.show", op=op).undone_by == revert
    assert house.call("history.show", op=revert).notes[0].change == "removed"


# ---------------------------------------------------------------- what was known then


@pytest.fixture(scope="module")
def known() -> Iterator[tuple[House, dict[str, Any]]]:
    """Three states: one decision, then another in its place, then the first one forgotten."""
    with open_house() as house:
        house.start()
        first = remember(house, "The database is Postgres, hosted by ourselves.", title="Database choice")
        house.git("tag", "old")
        second = house.call("agent.update", node_id=first.node_id, content="The database is SQLite, in one file.")
        garden = remember(house, "The garden has apple trees.")
        house.git("branch", "before-forgetting")
        forgotten = house.call("agent.forget", node_id=first.node_id)
        yield house, {"id": first.node_id, "first": first, "second": second, "garden": garden, "forgotten": forgotten}


def recall(house: House, query: str, as_of: str | None = None, **more: Any) -> schema.RecallResult:
    return house.call("agent.recall", query=query, as_of=as_of, **more)


def test_the_notes_answer_as_they_were(known: tuple[House, dict[str, Any]]) -> None:
    house, said = known
    assert said["id"] not in [hit.id for hit in recall(house, "database").results]
    for as_of, word in (
        (said["first"].op, "Postgres"), (said["first"].commit[:12], "Postgres"), ("old", "Postgres"),
        (said["second"].op, "SQLite"), ("before-forgetting", "SQLite"), ("HEAD~1", "SQLite"),
    ):  # fmt: skip
        found = recall(house, "database", as_of)
        assert word in found.results[0].content, as_of
        assert found.results[0].id == said["id"]
        assert found.degraded == []
    assert isinstance(found.as_of, schema.AsOf)
    head = house.git("rev-parse", "HEAD~1").strip()
    assert (found.as_of.commit, found.as_of.op, found.as_of.notes) == (head, said["garden"].op, 3)
    assert found.text.startswith("As of ")
    assert recall(house, "garden apple", said["first"].op).results == []
    assert recall(house, "database", "today").results == recall(house, "database").results
    assert not isinstance(recall(house, "database").as_of, schema.AsOf)


def test_the_same_state_again_is_quick_and_says_so(known: tuple[House, dict[str, Any]]) -> None:
    house, _ = known
    recall(house, "garden", "HEAD~2")
    again = recall(house, "database", "HEAD~2").as_of
    assert isinstance(again, schema.AsOf)
    assert again.cached
    other = recall(house, "database", "HEAD~1").as_of
    assert isinstance(other, schema.AsOf)
    assert not other.cached
    kept = house.index_dir / "as-of"
    assert len(list(kept.iterdir())) == 1, "one state takes disk, not every one that was asked about"
    assert (kept.stat().st_mode & 0o777, next(kept.iterdir()).stat().st_mode & 0o777) == (0o700, 0o700)


def test_looking_back_is_no_use_of_a_memory_and_changes_nothing(known: tuple[House, dict[str, Any]]) -> None:
    house, said = known
    before, head = accesses(house), house.git("rev-parse", "HEAD")
    recall(house, "garden", "HEAD~1")
    house.call("agent.get", node_id=said["id"], as_of="HEAD~1")
    assert accesses(house) == before
    recall(house, "garden")
    assert accesses(house) == before + 1
    assert (house.git("rev-parse", "HEAD"), house.git("status", "--porcelain")) == (head, "")
    assert house.call("admin.verify").ok


def test_a_memory_as_it_was_with_its_connections_of_then(known: tuple[House, dict[str, Any]]) -> None:
    house, said = known
    node = house.call("agent.get", node_id=said["id"][:8], as_of=said["first"].op)
    assert (node.content, node.as_of.op) == ("The database is Postgres, hosted by ourselves.", said["first"].op)
    shown = house.ctl("show", said["id"][:8], "--as-of", "old")
    assert "The database is Postgres" in shown.stdout
    assert "as of" in shown.stderr
    assert house.json("show", said["id"], "--as-of", "old")["as_of"]["op"] == said["first"].op
    assert house.ctl("show", said["id"]).returncode == 3
    early = house.ctl("show", said["garden"].node_id, "--as-of", "old")
    assert early.returncode == 3
    assert "then" in early.stderr


def test_the_command_says_which_state_it_was(known: tuple[House, dict[str, Any]]) -> None:
    house, said = known
    shown = house.ctl("recall", "database", "--as-of", said["first"].op)
    assert "The database is Postgres" in shown.stdout
    assert f"commit {said['first'].commit[:8]}, 2 memories" in shown.stderr
    found = house.json("recall", "database", "--as-of", "old")
    assert found["as_of"]["commit"] == said["first"].commit
    assert {"commit", "time", "notes", "seconds", "cached"} <= set(found["as_of"])
    assert "as_of" not in house.json("recall", "database")
    for wrong, status in (("2020-01-01", 3), ("no-such-branch", 3), ("1800d", 3), ("2026-99-99", 2), ("", 2)):
        failed = house.ctl("recall", "database", "--as-of", wrong)
        assert (failed.returncode, failed.stdout) == (status, ""), wrong
        assert failed.stderr.startswith("error:"), wrong
    assert "history begins at" in house.ctl("recall", "x", "--as-of", "2020-01-01").stderr


def test_progress_is_told_while_a_state_is_brought_back(known: tuple[House, dict[str, Any]]) -> None:
    house, _ = known
    recall(house, "garden", "HEAD~1")
    seen: list[str] = []
    with house.connect() as connection:
        connection.call(
            "agent.recall", {"query": "garden", "as_of": "old"}, on_progress=lambda one: seen.append(one.stage)
        )
    assert seen[:1] == ["copying"]


def test_by_date_the_last_commit_before_its_end_and_ages_as_of_then(house: House) -> None:
    """A past of days: commits dated by the test, the latest in 2026."""
    house.start()
    house.stop()
    days = [datetime(2024, 3, day, 12, tzinfo=UTC) for day in (1, 2, 3)]
    house.git("commit", "-q", "--amend", "--no-edit", "--date", days[0].isoformat())
    base = {"GIT_COMMITTER_DATE": (days[0] - timedelta(days=1)).isoformat()}
    before, house.settings = house.settings, house.settings | base
    house.git("commit", "-q", "--amend", "--no-edit")
    house.settings = before
    ids = [f"{number:08x}-0000-4000-8000-00000000000{number}" for number in (1, 2, 3)]

    def note(number: int, text: str, more: str = "") -> None:
        (house.vault / f"n{number}.md").write_text(
            f"---\nid: {ids[number]}\ntype: fact\ncreated: 2024-03-01T12:00:00Z\n{more}---\n{text}\n"
        )

    note(0, "bees like clover", "valid_until: 2024-03-02T20:00:00Z\n")
    commit_by_hand(house, "day one", days[0])
    note(1, "bees like lavender")
    commit_by_hand(house, "day two", days[1])
    (house.vault / "n0.md").unlink()
    note(2, "bees sleep in winter")
    commit_by_hand(house, "day three", days[2])
    house.start()

    def found(as_of: str, query: str = "bees") -> set[str]:
        return {hit.id for hit in recall(house, query, as_of).results}

    assert found("2024-03-01") == {ids[0]}
    assert found("2024-03-02T18:00:00Z") == {ids[0], ids[1]}
    assert found("2024-03-02T21:00:00Z") == {ids[1]}, "expired by then"
    assert found("2024-03-02") == {ids[1]}
    assert found("2024-03-03") == {ids[1], ids[2]}
    assert found("yesterday") == {ids[1], ids[2]}
    assert found("2024-03-01", "what did we learn about bees today") == {ids[0]}, "today is the day of then"
    with pytest.raises(wire.NotFound, match="begins at 2024-02-29"):
        recall(house, "bees", "2024-02-01")
    shown = house.ctl("recall", "bees", "--as-of", "2024-03-01", env={"TZ": "UTC"})
    assert "as of 2024-03-01 23:59" in shown.stderr


def test_a_killed_daemon_leaves_no_state_behind(house: House) -> None:
    house.start()
    op = remember(house, "The garden has apple trees.").op
    recall(house, "garden", op)
    assert list((house.index_dir / "as-of").iterdir())
    house.kill()
    house.start()
    place = house.index_dir / "as-of"
    assert not place.exists() or not list(place.iterdir())
    assert recall(house, "garden", op).results
    assert house.stop() == 0
    assert not list(place.iterdir()), "nor does one that stops"


def test_others_are_answered_while_a_state_is_brought_back(house: House) -> None:
    """More questions about the past at once than there are places for them; today's questions and writes pass by."""
    house.start()
    lines = "\n".join(json.dumps({"content": f"thing {number} of the garden and the harbour"}) for number in range(600))
    house.json("import", "-", input=lines)
    asked = [f"HEAD~{number % 2}" for number in range(8)]
    done: list[str] = []

    def ask(as_of: str) -> None:
        recall(house, "garden", as_of)
        done.append(as_of)

    threads = [threading.Thread(target=ask, args=(as_of,)) for as_of in asked]
    for thread in threads:
        thread.start()
    for number in range(10):
        assert recall(house, "harbour").results
        remember(house, f"written meanwhile, number {number}")
    for thread in threads:
        thread.join(120)
    assert sorted(done) == sorted(asked)


# ---------------------------------------------------------------- merges and audit


def test_merges_are_told_by_the_history(house: House) -> None:
    house.start()
    keeper = remember(house, "uv installs Python packages quickly.", title="uv is quick")
    loser = remember(house, "uv is a fast installer for Python.", title="uv is fast")
    neighbour = remember(house, "Our scripts run under uv.", title="Scripts")
    house.call("agent.connect", source_id=neighbour.node_id, target_id=loser.node_id, edge="depends_on")
    paths = {one.node_id: path_of(house, one.node_id) for one in (keeper, loser, neighbour)}
    merged = paths[keeper.node_id].read_text().replace("quickly", "quickly; it is a fast installer")
    stems = {node_id: path.stem for node_id, path in paths.items()}
    pointed = paths[neighbour.node_id].read_text().replace(stems[loser.node_id], stems[keeper.node_id])
    house.stop()
    paths[keeper.node_id].write_text(merged)
    paths[neighbour.node_id].write_text(pointed)
    paths[loser.node_id].unlink()
    op = "01m7y3vhpvbpqyz29cgv4ykf0q"
    nodes = " ".join((keeper.node_id, loser.node_id, neighbour.node_id))
    commit = commit_by_hand(
        house, "merge: two notes on uv became one\n\ncosine .93, same type\n\n"
        f"Ormah-Op: {op}\nOrmah-Kind: merge\nOrmah-Source: job:duplicate_merger\nOrmah-Nodes: {nodes}"
    )  # fmt: skip
    house.start()
    (row,) = house.call("agent.merges").merges
    assert (row.id, row.commit, row.source, row.reason) == (op, commit, "job:duplicate_merger", "cosine .93, same type")
    assert (row.kept, row.kept_title, row.removed, row.removed_title) == (
        keeper.node_id, "uv is quick", loser.node_id, "uv is fast"
    )  # fmt: skip
    assert row.snapshot["content"] == "uv is a fast installer for Python."
    assert (row.undone_at, row.undone_by) == (None, None)
    assert [one["op"] for one in house.json("history", "--kind", "merge")] == [op]
    undone = house.call("agent.undo_merge", merge_id=op)
    (row,) = house.call("agent.merges").merges
    assert row.undone_by == undone.undo_op
    assert row.undone_at == house.call("history.show", op=undone.undo_op).time
    assert house.call("agent.get", node_id=loser.node_id).content == "uv is a fast installer for Python."


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
    assert (deleted.id, deleted.commit, deleted.title) == (forgotten.op, forgotten.commit, "Coffee")
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


def test_the_past_is_searched_by_meaning_with_a_real_model() -> None:
    """Texts that no note has today are embedded for it; no word is shared with the question."""
    with open_house(ORMAH_EMBEDDING_MODEL=os.environ.get("ORMAH_TEST_MODEL", "all-MiniLM-L6-v2")) as house:
        house.start()
        cat = remember(house, "My kitten sleeps on the windowsill all day.")
        remember(house, "Invoices are paid within thirty days.")
        house.call("agent.update", node_id=cat.node_id, content="The parrot talks too much.")
        wait_until(lambda: not house.call("admin.health").index.pending_vectors, "vectors")
        found = recall(house, "pets such as cats", cat.op)
        assert found.degraded == []
        assert found.results[0].id == cat.node_id
        assert "kitten" in found.results[0].content
