"""What a new user meets first: an empty vault, an id that went, two memories of one day that contradict each other."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from ormahd.actions.lookup import get
from ormahd.actions.outdated import forget
from ormahd.api import ForgetParams, NodeParams
from ormahd.errors import NotFound
from ormahd.jobs.conflicts.job import ConflictDetector
from ormahd.state import proposals as book
from tests.jobs_house import AGENT, JobsHouse
from tests.vault.git_house import git

TEXT = "The mast of the pilot boat is of pine."


@pytest.mark.parametrize("query", ["who am I", "the person whose memories these are", "Ada Person", "boats"])
def test_the_node_that_stands_for_a_person_is_no_hit_before_it_says_something(house: JobsHouse, query: str) -> None:
    assert house.found(query) == []
    made = house.remember("Boats are built of pine.")
    assert set(house.found(query)) <= {made}
    house.update(house.ormah.vault.self_id, content="Ada Person builds boats, and memories.")
    assert house.ormah.vault.self_id in house.found("who builds boats?")


def by_hand(house: JobsHouse, node_id: str) -> None:
    house.path(node_id).unlink()
    house.ormah.reconciler.scan()


def by_undo(house: JobsHouse, node_id: str) -> None:
    house.undo(house.ormah.history.ops()[0].op or "")


def by_forget(house: JobsHouse, node_id: str) -> None:
    forget(house.ormah, ForgetParams(node_id=node_id), AGENT)


@pytest.mark.parametrize("way", [by_forget, by_hand, by_undo])
@pytest.mark.parametrize("length", [8, 36])
def test_an_id_that_went_says_when_and_how_to_take_it_back(
    house: JobsHouse, way: Callable[[JobsHouse, str], None], length: int
) -> None:
    made = house.remember(TEXT)
    way(house, made)
    with pytest.raises(NotFound, match=f"{house.now:%Y-%m-%d}: .*mast") as caught:
        get(house.ormah, NodeParams(node_id=made[:length]))
    back = re.fullmatch("to bring it back: ormahctl undo ([0-9a-f]{8})", caught.value.hint or "")
    assert back is not None
    house.undo(git(house.ormah.vault.root, "rev-parse", back[1]))
    assert get(house.ormah, NodeParams(node_id=made[:length])).content == TEXT


@pytest.mark.parametrize("node_id", ["ffffffff", "0000", "nonsense"])
def test_an_id_that_never_was_says_only_that(house: JobsHouse, node_id: str) -> None:
    with pytest.raises(Exception, match=r"no memory|no id") as caught:
        get(house.ormah, NodeParams(node_id=node_id))
    assert "since" not in str(caught.value)


@pytest.mark.parametrize(
    ("days", "action", "reason"),
    [
        (0, "as contradicting each other", "seem to contradict each other"), (9, "as superseded by", "seems to replace"),
    ],
)  # fmt: skip
def test_a_proposal_says_one_thing(house: JobsHouse, days: int, action: str, reason: str) -> None:
    house.remember("The staging server of the pilots runs on port 8443.", space="shop")
    house.go(days=days)
    house.remember("The staging server of the pilots runs on port 9443.", space="shop")
    house.run(ConflictDetector())
    (found,) = book.rows(house.ormah.state, (book.PENDING,))
    assert action in found.action
    assert reason in found.reason
