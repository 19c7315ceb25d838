"""Coming back from the archive: what returns to working, what stays there, and that it is found meanwhile."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ormahd.actions.recall import search
from ormahd.jobs.decay.job import DecayManager, ImportanceScorer
from ormahd.model.node import EdgeType, LinkRequest, SearchQuery, Tier
from tests.contract.fading_notes import busy_house, fact, opened, spread, tier
from tests.jobs_house import JobsHouse
from tests.tables import rows

house = busy_house


def archived(house: JobsHouse) -> str:
    node_id = fact(house)
    house.go(days=22)
    assert house.run(DecayManager()).applied == 1
    house.go(hours=1)
    return node_id


def archived_by_a_person(house: JobsHouse) -> str:
    node_id = fact(house)
    opened(house, node_id)
    house.go(hours=1)
    house.type_into(node_id, "tier: working", "tier: archival")
    house.go(hours=1)
    return node_id


def successor(house: JobsHouse, node_id: str, edge: EdgeType) -> str:
    return house.remember("The printers are on the fourth floor now", tier=Tier.CORE, title="Printers",
                          connections=[LinkRequest(target=node_id, edge=edge)])  # fmt: skip


def test_opened_in_the_archive_it_comes_back(house: JobsHouse) -> None:
    node_id = archived(house)
    before = house.data(node_id)
    opened(house, node_id)
    at = house.head
    dry = house.run(DecayManager(), dry=True)
    assert (dry.planned, house.head) == (["Bring back: Printer"], at)
    ran = house.run(DecayManager())
    assert (ran.applied, tier(house, node_id)) == (1, Tier.WORKING)
    said = house.git("show", "-s", "--format=%B")
    assert said.startswith("Bring back: Printer\n\nUsed on 2026-12-13; in the archive since 2026-12-13.\n")
    assert "Ormah-Kind: promote\n" in said
    assert "Ormah-Source: job:decay_manager\n" in said
    assert house.run(DecayManager()).proposals == 0
    (commit,) = ran.commits
    house.undo(commit)
    assert house.data(node_id) == before
    assert house.run(DecayManager()).proposals == 0  # the same use is no reason a second time
    house.go(days=1)
    opened(house, node_id)
    assert house.run(DecayManager()).applied == 1


@pytest.mark.parametrize("folded", [False, True])
def test_what_had_faded_and_is_whispered_comes_back(house: JobsHouse, folded: bool) -> None:
    node_id = archived(house)
    whispered(house, node_id)
    if folded:
        house.run(ImportanceScorer())
    assert house.run(DecayManager()).planned == ["Bring back: Printer"]
    assert house.git("show", "-s", "--format=%b").startswith(
        "Whispered from the archive on 2026-12-13; in the archive since"
    )
    assert (tier(house, node_id), house.row(node_id).strength.use_count) == (Tier.WORKING, 0)
    assert house.run(DecayManager()).proposals == 0
    house.go(days=14 * spread(node_id) - 0.1)
    assert house.run(DecayManager()).proposals == 0, "the whisper began its lease anew"
    house.go(days=1)
    assert house.run(DecayManager()).applied == 1, "and made it no longer"


def nothing_happened(house: JobsHouse, node_id: str) -> None:
    """Not even looked at."""


def found_by_a_recall(house: JobsHouse, node_id: str) -> None:
    """First of all: a recall always finds something."""
    wish = SearchQuery(query="where does the printer stand", limit=3)
    assert search(house.ormah, wish, space=None).results[0].id == node_id


def whispered(house: JobsHouse, node_id: str) -> None:
    house.ormah.state.glance([node_id], how="whisper", session_id="s", at=house.now)


def whispered_before(house: JobsHouse, node_id: str) -> None:
    house.ormah.state.glance([node_id], how="whisper", session_id="s", at=house.now - timedelta(days=2))


def replaced_by_a_newer_belief(house: JobsHouse, node_id: str) -> None:
    successor(house, node_id, EdgeType.EVOLVED_FROM)
    opened(house, node_id)


def replaced_by_a_summary(house: JobsHouse, node_id: str) -> None:
    successor(house, node_id, EdgeType.DERIVED_FROM)
    opened(house, node_id)


def outdated(house: JobsHouse, node_id: str) -> None:
    house.update(node_id, valid_until=house.ormah.moment())
    opened(house, node_id)


def opened_long_ago(house: JobsHouse, node_id: str) -> None:
    opened(house, node_id)
    house.go(days=30)


@pytest.mark.parametrize(("prepare", "happens"), rows(__file__, "what_stays_in_the_archive"))
@pytest.mark.parametrize("folded", [False, True])
def test_what_stays_in_the_archive(house: JobsHouse, prepare: str, happens: str, folded: bool) -> None:
    node_id = globals()[prepare](house)
    globals()[happens](house, node_id)
    if folded:
        house.run(ImportanceScorer())
    assert [planned for planned in house.run(DecayManager()).planned if "Printer" in planned] == []
    assert tier(house, node_id) is Tier.ARCHIVAL


def test_archived_it_is_found_when_nothing_nearer_answers(house: JobsHouse) -> None:
    node_id = archived(house)
    assert house.found("printer on the third floor") == [node_id]
    near = house.remember("Beside the kitchen, on the third floor, stands the printer.", title="Printer")
    assert house.found("printer on the third floor")[:2] == [near, node_id]
