"""Who joins the space of his neighbours, and who never does."""

from __future__ import annotations

from typing import Any

import pytest

from ormahd.actions.update import update
from ormahd.api import UpdateParams
from ormahd.jobs.clusters.job import AutoCluster
from ormahd.jobs.job import apply
from ormahd.jobs.links.change import EdgeToAdd
from ormahd.model.node import ABOUT_SELF, EdgeType, Tier
from ormahd.note.read import parse
from tests.contract.conftest import unlinked
from tests.contract.linking import link
from tests.jobs_house import AGENT, JobsHouse
from tests.tables import rows

JOB = AutoCluster()
S = EdgeType.SUPPORTS


house = unlinked


def connect(house: JobsHouse, node_id: str, others: dict[str, float], *, inward: bool = False) -> None:
    wishes = [
        EdgeToAdd(*((other, node_id) if inward else (node_id, other)), S, weight) for other, weight in others.items()
    ]
    apply(house.ormah, link(house.ormah, wishes, subject="Link", body=""), AGENT, run=None)


def placed(house: JobsHouse, *spaces: str | None) -> list[str]:
    return [house.remember(f"Thing {at} {house.now}", space=space) for at, space in enumerate(spaces)]


@pytest.mark.parametrize(("neighbours", "expected"), rows(__file__, "given_these_neighbours_this_space"))
@pytest.mark.parametrize("inward", rows(__file__, "given_these_neighbours_this_space"))
def test_given_these_neighbours_this_space(
    house: JobsHouse, neighbours: list[tuple[str, float]], expected: str | None, inward: bool
) -> None:
    others = placed(house, *(space or None for space, _ in neighbours))
    node = house.remember("Nobody placed me")
    if others:
        connect(
            house, node, {other: weight for other, (_, weight) in zip(others, neighbours, strict=True)}, inward=inward
        )
    ran = house.run(JOB)
    assert (house.row(node).space, ran.proposals) == (expected, int(expected is not None))
    assert [house.row(other).space or "" for other in others] == [space for space, _ in neighbours]


def test_neighbours_that_are_outdated_have_no_say(house: JobsHouse) -> None:
    others = placed(house, "a", "a")
    node = house.remember("Nobody placed me")
    connect(house, node, dict.fromkeys(others, 0.5))
    house.update(others[0], valid_until=house.now)
    assert house.run(JOB).proposals == 0


@pytest.mark.parametrize(
    "about",
    [
        {"global": True}, {"tier": Tier.CORE}, {"type": "preference"}, {"type": "person"}, {"tags": [ABOUT_SELF]},
        {"about_self": True},
    ],
)  # fmt: skip
def test_these_are_never_moved(house: JobsHouse, about: dict[str, Any]) -> None:
    others = placed(house, "a", "a", "a")
    node = house.remember("I am for everywhere", **about)
    connect(house, node, dict.fromkeys(others, 0.9))
    before = house.data(node)
    assert house.run(JOB).proposals == 0
    assert house.data(node) == before


def test_the_self_node_is_never_moved(house: JobsHouse) -> None:
    me = house.ormah.vault.self_id
    others = placed(house, "a", "a")
    house.type_into(me, "type: person\n", "type: concept\n")
    house.type_into(me, "tier: core\n", "tier: working\n")
    house.type_into(
        me, "\n---\n", "".join(["\nsupports:", *(f'\n  - "[[{house.path(one).stem}]]"' for one in others), "\n---\n"])
    )
    assert len(house.ormah.index.edges(me)[0]) == 2
    assert house.run(JOB).proposals == 0
    assert house.row(me).space is None


@pytest.mark.parametrize("line", ["space:", "space: global", "space: null", "global: true", "global: yes"])
def test_what_a_person_wrote_stands(house: JobsHouse, line: str) -> None:
    others = placed(house, "a", "a")
    node = house.remember("Nobody placed me")
    connect(house, node, dict.fromkeys(others, 0.9))
    house.type_into(node, "tier: working\n", f"tier: working\n{line}\n")
    assert house.row(node).space is None
    assert house.run(JOB).proposals == 0


def test_made_global_by_an_update_it_stays_global(house: JobsHouse) -> None:
    others = placed(house, "a", "a")
    node = house.remember("I was in a", space="a")
    connect(house, node, dict.fromkeys(others, 0.9))
    update(house.ormah, UpdateParams(node_id=node, space=None), AGENT)
    assert b"global: true\n" in house.data(node)
    assert house.run(JOB).proposals == 0
    house.update(node, space="b")
    assert b"global: true" not in house.data(node)
    assert parse(house.data(node), house.row(node).path).space == "b"


def test_one_commit_a_run_undone_and_not_made_again(house: JobsHouse) -> None:
    others = placed(house, "a", "a", "b", "b")
    one, two = house.remember("First", title="First"), house.remember("Second", title="Second")
    connect(house, one, dict.fromkeys(others[:2], 0.5))
    connect(house, two, dict.fromkeys(others[2:], 0.5))
    before, tree, paths = house.head, house.tree, [house.row(node).path for node in (one, two)]
    assert house.run(JOB, dry=True).planned == ["Give 2 memories the space of their neighbours"]
    assert house.head == before
    ran = house.run(JOB)
    assert (ran.applied, ran.commits) == (1, [house.head])
    said = house.git("show", "-s", "--format=%an%n%B")
    assert said.startswith("job:auto_cluster\nGive 2 memories the space of their neighbours\n")
    assert f"First ({one[:8]}): a, 2 of 2 neighbours\n" in said
    assert f"Second ({two[:8]}): b, 2 of 2 neighbours\n" in said
    assert "\nOrmah-Kind: cluster\n" in said
    assert [house.row(node).path for node in (one, two)] == paths, "the file stays where it is"
    assert [house.row(node).space for node in (one, two)] == ["a", "b"]
    assert house.run(JOB).proposals == 0

    house.undo(ran.commits[0])
    assert house.tree == tree
    assert house.until_nothing_is_left(JOB)[0].proposals == 0, "taken back is taken back"


def test_it_ends_also_where_one_move_leads_to_the_next(house: JobsHouse) -> None:
    chain = placed(house, "a", "a", *[None] * 4)
    for at in range(2, 6):
        connect(house, chain[at], {chain[0]: 0.9, chain[at - 1]: 0.5})
    runs = house.until_nothing_is_left(JOB)
    assert [ran.applied for ran in runs] == [1, 1, 1, 1, 0]
    assert {house.row(node).space for node in chain} == {"a"}
