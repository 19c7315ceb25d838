"""Lists to look through: the newest memories, and what was whispered to whom."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.house import House, open_house

TEXT = "The staging cluster of the shop runs on Hetzner in Falkenstein"


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as found:
        found.start()
        made = [
            {"content": "Deploys happen on Tuesday", "space": "shop-frontend", "type": "decision"},
            {"content": TEXT, "space": "shop-frontend", "tags": ["ops"]},
            {"content": "日本語の記憶 🎉", "type": "preference"},
        ]
        begun = datetime.now(UTC).replace(microsecond=0)
        lines = [{**one, "created": (begun + timedelta(seconds=at)).isoformat()} for at, one in enumerate(made, 1)]
        done = found.ctl("import", "-", input="\n".join(map(json.dumps, lines)))
        assert done.returncode == 0, done.stderr
        yield found


def test_the_newest_come_first_and_can_be_narrowed(house: House) -> None:
    rows = house.json("recall", "-n", "50")["results"]
    assert [row["title"] for row in rows][:3] == ["日本語の記憶 🎉", TEXT, "Deploys happen on Tuesday"]
    assert {row["type"] for row in rows} == {"preference", "fact", "decision", "person"}
    assert [
        row["title"] for row in house.json("recall", "--space", "shop-frontend", "--type", "decision")["results"]
    ] == [rows[2]["title"]]
    assert [row["title"] for row in house.json("recall", "--tag", "ops")["results"]] == [TEXT]
    assert len(house.json("recall", "-n", "2")["results"]) == 2
    assert house.json("recall", "--before", "last week")["results"] == []
    assert len(house.json("recall", "--after", "last week", "--space", "global")["results"]) == 2
    used = house.json("show", rows[1]["id"])["access_count"]
    house.json("recall", "-n", "50")["results"]
    assert house.call("agent.get", node_id=rows[1]["id"], touch=False).access_count == used
    assert house.ctl("recall", "-n", "2").stderr == "note: 2 older memories are not shown (-n)\n"


def test_archived_and_outdated_memories_are_listed_and_marked(house: House) -> None:
    made = house.json("remember", "We use Subversion", "--space", "old", "--tier", "archival")
    house.json("outdated", made["id"], "--reason", "moved to git")
    (row,) = house.json("recall", "--tier", "archival")["results"]
    assert row["id"] == made["id"]
    assert row["valid_until"] is not None
    first = house.ctl("recall", "--space", "old").stdout.splitlines()[0]
    assert first.endswith("We use Subversion  outdated")


def test_the_log_says_what_was_whispered_to_whom_and_why_nothing(house: House) -> None:
    asked = f"{TEXT}?"
    for prompt in (asked, "thanks"):
        house.ctl("--agent", "claude-code", "whisper", prompt, "--session", "s1", "--space", "shop-frontend")
    silent, spoken = house.json("whisper")[:2]
    assert (silent["prompt"], silent["silence"], silent["memories"]) == ("thanks", "acknowledgement", [])
    assert (spoken["prompt"], spoken["silence"], spoken["agent"]) == (asked, None, "agent:claude-code")
    assert (spoken["session_id"], spoken["space"]) == ("s1", "shop-frontend")
    assert TEXT in [one["title"] for one in spoken["memories"]]
    shown = house.ctl("whisper").stdout
    assert "claude-code · shop-frontend · session s1 · event" in shown
    assert f"  “{asked}”\n" in shown
    assert "  no whisper: it only answers, thanks, greets or says to go on\n" in shown
    assert [one["prompt"] for one in house.json("whisper", "-n", "1")] == ["thanks"]
