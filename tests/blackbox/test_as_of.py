"""What was known then: searches and memories as of an op, a commit or a date (a real daemon, real git)."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ormahd import api
from ormahd.rpc import wire
from tests.blackbox.conftest import House, open_house, wait_until
from tests.blackbox.pasts import commit_by_hand, remember


def accesses(house: House) -> int:
    with sqlite3.connect(f"file:{house.state / 'state.sqlite3'}?mode=ro", uri=True) as database:
        return int(database.execute("SELECT count(*) FROM access").fetchone()[0])


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


def recall(house: House, query: str, as_of: str | None = None, **more: Any) -> api.RecallResult:
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
    assert isinstance(found.as_of, api.AsOf)
    head = house.git("rev-parse", "HEAD~1").strip()
    assert (found.as_of.commit, found.as_of.op, found.as_of.notes) == (head, said["garden"].op, 3)
    assert found.text.startswith("As of ")
    assert recall(house, "garden apple", said["first"].op).results == []
    assert recall(house, "database", "today").results == recall(house, "database").results
    assert not isinstance(recall(house, "database").as_of, api.AsOf)


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
    assert {"commit", "time", "notes", "seconds"} <= set(found["as_of"])
    assert "as_of" not in house.json("recall", "database")
    for wrong, status in (("2020-01-01", 3), ("no-such-branch", 3), ("1800d", 3), ("2026-99-99", 2), ("", 2)):
        failed = house.ctl("recall", "database", "--as-of", wrong)
        assert (failed.returncode, failed.stdout) == (status, ""), wrong
        assert failed.stderr.startswith("error:"), wrong
    assert "history begins at" in house.ctl("recall", "x", "--as-of", "2020-01-01").stderr


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
