"""Conflicts through a real daemon: found, proposed, decided on, shown by recall and `ormahctl insights`, taken back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from ormahd.note.read import parse
from tests.blackbox.tours import edited, head, path_of, walk_home
from tests.house import House, open_house
from tests.vault.git_house import kinds_since

FRIDAYS, TUESDAYS = "Deploys of the shop happen on Fridays.", "Deploys of the shop happen on Tuesdays."


@pytest.fixture
def house() -> Iterator[House]:
    with open_house(ORMAH_LINKING_SIMILARITY="1", ORMAH_JOBS_ENABLED="false") as found:
        found.start()
        yield found


def told(house: House, content: str, days_ago: float, **more: object) -> str:
    """A memory of some days ago; its id."""
    created = (datetime.now(UTC) - timedelta(days=days_ago)).isoformat()
    done = house.call("admin.import", lines=[json.dumps({"content": content, "created": created} | more)])
    assert done.added == 1, done
    walk_home(house)
    (node_id,) = [
        str(note.id) for path, data in house.notes().items() if (note := parse(data, path)).content == content
    ]
    return node_id


def found(house: House, query: str, *more: str) -> list[tuple[str, str]]:
    return [(hit["id"], hit["source"]) for hit in house.json("recall", query, *more)["results"]]


def test_from_two_beliefs_to_one_and_back(house: House) -> None:
    older, newer = told(house, FRIDAYS, 90, title="Deploy day"), told(house, TUESDAYS, 3, title="Deploy day")
    before, notes = head(house), house.notes()

    dry = house.ctl("jobs", "run", "conflict_detector", "--dry-run")
    assert f"Mark “{FRIDAYS[:-1]}” as superseded by “{TUESDAYS[:-1]}”" in dry.stdout
    assert house.call("agent.proposals").proposals == []
    (ran,) = house.json("jobs", "run", "conflict_detector")
    assert (ran["job"], ran["proposals"], ran["applied"], ran["commits"]) == ("conflict_detector", 1, 0, [])
    assert head(house) == before
    assert house.json("jobs", "run", "conflict_detector")[0]["proposals"] == 0

    (proposal,) = house.call("agent.proposals").proposals
    assert (proposal.type, proposal.source_nodes) == ("conflict", [newer, older])
    assert FRIDAYS in proposal.preview
    assert TUESDAYS in proposal.preview
    house.call("agent.resolve_proposal", proposal_id=proposal.id, action="approved")
    assert kinds_since(house.vault, before) == ["conflict", "init"], "and the empty file of decisions, before it"
    said = house.git("show", "-s", "--format=%B")
    assert said.startswith(f"Superseded: {FRIDAYS[:-1]}, by: {TUESDAYS[:-1]}\n")
    assert "Ormah-Kind: conflict\n" in said

    assert found(house, "deploys of the shop") == [(newer, "search")]
    assert found(house, "deploys of the shop", "--as-of", before[:12]) == [(newer, "search"), (older, "search")]
    shown = house.json("show", older)
    assert shown["outdated_reason"] == f"superseded by Deploy day ({newer[:8]})"
    assert shown["connections"]["in"][0]["edge"] == "evolved_from"
    assert house.json("history", older)

    (evolution,) = house.call("agent.insights").evolutions
    assert (evolution.newer.id, evolution.older.id) == (newer, older)
    assert "seems to replace" in (evolution.reason or "")

    later = house.vault / path_of(house, older)
    later.write_bytes(edited(later.read_bytes()))
    walk_home(house)
    op = house.json("history", "--limit", "5")[1]["op"]
    assert house.ctl("undo", op).returncode == 0
    walk_home(house)
    assert {node_id for node_id, _ in found(house, "deploys of the shop")} == {newer, older}
    assert house.notes() == notes | {path_of(house, older): edited(notes[path_of(house, older)])}
    assert house.call("agent.insights").evolutions == []


def test_what_contradicts_is_there_however_many_answer(house: House) -> None:
    when = datetime.now(UTC).isoformat()  # of one moment, so that none of them is the newer one of two
    lines = [
        json.dumps({"content": f"The anchor of ship {number} weighs tons", "space": "harbour", "created": when})
        for number in range(30)
    ]
    assert house.call("admin.import", lines=lines).added == 30
    against = house.call("agent.remember", content="Nobody has ever seen one of those", space="harbour").node_id
    plain = found(house, "anchor weighs tons", "--space", "harbour", "-n", "10")
    assert against not in {node_id for node_id, _ in plain}
    house.call("agent.connect", source_id=against, target_id=plain[0][0], edge="contradicts", weight=0.9)
    hits = found(house, "anchor weighs tons", "--space", "harbour", "-n", "10")
    assert len(hits) == 10
    assert hits[:9] == plain[:9]
    assert hits[9] == (against, "conflict")
    assert "conflict" in house.ctl("recall", "anchor weighs tons", "--space", "harbour").stdout
    said = house.call("agent.recall", query="anchor weighs tons", spaces=["harbour"]).text
    assert said.index("Conflicting context:") < said.index(against)
    assert found(house, "anchor weighs tons", "--space", "harbour", "-n", "1") == plain[:1]


def test_of_two_that_contradict_each_other_the_lesser_hit_says_so(house: House) -> None:
    one = house.call("agent.remember", content="The wall of the kitchen is red").node_id
    other = house.call("agent.remember", content="The kitchen has a wall of blue tiles").node_id
    house.call("agent.connect", source_id=one, target_id=other, edge="contradicts", weight=0.9)
    assert found(house, "wall of the kitchen is red") == [(one, "search"), (other, "conflict")]
    (tension,) = house.json("review")["contradictions"]
    assert {tension["a"]["id"], tension["b"]["id"]} == {one, other}
    assert not tension["settled"]
    house.call("agent.outdated", node_id=other, reason="painted over")
    assert house.call("agent.insights").tensions[0].settled
    assert house.json("review")["contradictions"] == []
