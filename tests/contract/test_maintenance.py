"""Two-phase maintenance, what is handed out: questions with a ceiling, receipts, and whether it is time."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from ormahd.actions.amend import Caller
from ormahd.api import MaintenanceResult
from ormahd.errors import Conflict, NotFound, OrmahError
from ormahd.jobs.maintenance.issue import size
from ormahd.jobs.maintenance.kinds import CLUSTERS, CONFLICTS, LINKS, MERGES
from tests.contract import maintenance_house
from tests.contract.maintenance_house import AGENT, House, batches, edge, merge
from tests.jobs_house import START

house = maintenance_house.house
two = maintenance_house.two


# ---------------------------------------------------------------- phase one


def test_the_seeds_keys_and_a_receipt(two: House) -> None:
    handed = two.maintenance().hand_out()
    assert set(batches(handed)) == {LINKS, CONFLICTS, MERGES, CLUSTERS}
    assert datetime.fromisoformat(str(handed.expires)) == START + timedelta(hours=1)
    (first, *_) = batches(handed)[MERGES]
    assert first["similarity"] == 0.8125
    assert {first["node_a"]["id"], first["node_b"]["id"]} == {two.ids["uv"], two.ids["also uv"]}
    assert first["node_a"]["content"] == "Python packages are installed with uv here."
    assert [[node["title"] for node in one] for one in batches(handed)[CLUSTERS]] == [
        ["Receipts", "Width of the paper", "Where the paper is"],
        ["Weekday hours", "Saturday hours"],
    ]
    assert "4 pairs to merge" in handed.summary
    assert "2 clusters to unite" in handed.summary


def test_who_asks_while_a_receipt_is_open_gets_the_same(two: House) -> None:
    first = two.maintenance().hand_out()
    two.told("late", "Came in meanwhile.")
    two.found[LINKS].append(("a", "late"))
    again = two.maintenance().hand_out()  # also after a restart
    assert (again.receipt, batches(again)) == (first.receipt, batches(first))


def test_nothing_to_judge_is_a_receipt_too(house: House) -> None:
    handed = house.maintenance().hand_out()
    assert handed.summary == "There is nothing to judge."
    assert not any(batches(handed).values())
    done = house.maintenance().settle(handed.receipt, {}, AGENT)
    assert (done.run, done.commits, done.refused) == (None, [], [])


@pytest.mark.parametrize("text", ["word " * 1_000, "\u65e5\u672c\u8a9e\u3002" * 1_500])
def test_the_payload_has_a_ceiling(house: House, text: str) -> None:
    names = [f"m{number}" for number in range(12)]
    for number, name in enumerate(names):
        house.told(name, f"{number} {text}", title=f"{name} " + "long title " * 20)
    pairs: list[tuple[str, ...]] = [tuple(two) for two in itertools.combinations(names, 2)][:20]
    house.found.update({LINKS: pairs, CONFLICTS: pairs, MERGES: pairs, CLUSTERS: [tuple(names[:5])]})
    handed = house.maintenance().hand_out()
    assert size(batches(handed)) <= 40_000
    assert [len(batches(handed)[one]) for one in (LINKS, CONFLICTS, MERGES)] == [8, 8, 8]
    assert batches(handed)[CLUSTERS] == []  # their texts would have to be whole
    for batch in (LINKS, CONFLICTS, MERGES):
        for pair in batches(handed)[batch]:
            for node in (pair["node_a"], pair["node_b"]):
                assert node["cut"]
                assert node["content"].endswith(" …")
                assert len(node["title"]) <= 160


# ---------------------------------------------------------------- receipts


def raised(act: Callable[[], object]) -> OrmahError:
    with pytest.raises(OrmahError) as found:
        act()
    return found.value


def test_a_receipt_is_used_once(two: House) -> None:
    maintenance = two.maintenance()
    handed = maintenance.hand_out()
    maintenance.settle(handed.receipt, two.named({"merges": [merge()]}), AGENT)
    head = two.ormah.vault.head()
    error = raised(lambda: two.maintenance().settle(handed.receipt, two.named({"edges": [edge()]}), Caller("codex")))
    assert isinstance(error, Conflict)
    assert "was used" in error.message
    assert two.ormah.vault.head() == head


def test_a_receipt_expires_and_the_questions_come_again(two: House) -> None:
    maintenance = two.maintenance()
    handed = maintenance.hand_out()
    two.wait(minutes=60)
    error = raised(lambda: maintenance.settle(handed.receipt, two.named({"merges": [merge()]}), AGENT))
    assert isinstance(error, Conflict)
    assert "expired" in error.message
    again = maintenance.hand_out()
    assert again.receipt != handed.receipt
    assert batches(again) == batches(handed)


def test_an_agent_that_died_holds_nothing_up_for_longer_than_ten_minutes(two: House) -> None:
    maintenance = two.maintenance()
    first = maintenance.hand_out()
    two.wait(minutes=9)
    assert maintenance.hand_out().receipt == first.receipt
    two.wait(minutes=1)
    second = maintenance.hand_out()
    assert second.receipt != first.receipt
    for receipt in (second.receipt, first.receipt):  # the first one was only slow
        assert maintenance.settle(receipt, {}, AGENT).status == "applied"


@pytest.mark.parametrize("receipt", ["born", "", "*", "%", "x" * 900])
def test_a_receipt_that_nobody_got(two: House, receipt: str) -> None:
    error = raised(lambda: two.maintenance().settle(receipt, {}, AGENT))
    assert isinstance(error, NotFound)


def test_what_the_state_keeps_is_no_text(two: House) -> None:
    two.maintenance().hand_out()
    with two.ormah.state.transaction() as db:
        kept = json.dumps(db.execute("SELECT * FROM receipt").fetchall())
    assert two.ids["a"] in kept
    assert "thermal" not in kept


# ---------------------------------------------------------------- whether it is time


def test_due_after_a_day_and_only_when_there_is_something(two: House) -> None:
    maintenance = two.maintenance()

    def due() -> bool:
        maintenance.search_if_due()
        return maintenance.due()

    assert not due(), "the first day is a grace"
    two.wait(hours=23, minutes=59)
    assert not due()
    two.wait(minutes=1)
    assert due()
    handed: MaintenanceResult = maintenance.hand_out()
    assert not due(), "somebody is at it"
    two.wait(minutes=10)
    assert due(), "nobody came back"
    handed = maintenance.hand_out()
    maintenance.settle(handed.receipt, {}, AGENT)
    assert not due()
    two.wait(hours=24)
    assert not due(), "there is nothing left to judge"
    two.told("n", "The shop closes at six.")
    two.found[LINKS].append(("n", "x"))
    assert due()
    assert two.maintenance().due() is False, "a new life has not looked yet"
