"""Edges drawn many at once: what is refused by name, what is there already, what gives way, what a commit says."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from ormahd.errors import BadRequest, NotFound, OrmahError
from ormahd.jobs.job import apply
from ormahd.jobs.links.change import MAX_REASON, Draft, EdgeToAdd
from ormahd.model.node import ABOUT_SELF, EdgeType, LinkRequest
from ormahd.note.read import parse
from tests.contract.linking import link
from tests.jobs_house import AGENT, JobsHouse, open_jobs_house

S, P, D, R, C = (
    EdgeType.SUPPORTS, EdgeType.PART_OF, EdgeType.DEPENDS_ON, EdgeType.RELATED_TO, EdgeType.CONTRADICTS
)  # fmt: skip


@pytest.fixture(scope="module")
def house() -> Iterator[JobsHouse]:
    with open_jobs_house(**{"linking.similarity": 1.0}) as found:
        yield found


def three(house: JobsHouse) -> list[str]:
    return [house.remember(f"{word} {house.now}") for word in ("Apples", "Bridges", "Clouds")]


def drawn(house: JobsHouse, *wishes: EdgeToAdd, subject: str = "Link some") -> str | None:
    done = apply(house.ormah, link(house.ormah, wishes, subject=subject, body="why"), AGENT, run=None)
    return None if done is None else done.commit


def edges(house: JobsHouse, *ids: str) -> set[tuple[str, str, str]]:
    found = house.ormah.index.edges_of(list(ids))
    names = {node_id: str(at) for at, node_id in enumerate(ids)}
    return {(names.get(one.source, "?"), str(one.edge), names.get(one.target, "?")) for one in found}


def test_many_edges_are_one_commit_in_the_notes_of_their_sources(house: JobsHouse) -> None:
    a, b, c = three(house)
    before = house.data(b)
    commit = drawn(
        house, EdgeToAdd(a, b, S, 0.8, "they  hold\nthe bridge"), EdgeToAdd(a, c, R, 0.7), EdgeToAdd(c, b, P)
    )
    assert commit == house.head
    assert edges(house, a, b, c) == {("0", "supports", "1"), ("0", "related_to", "2"), ("2", "part_of", "1")}
    assert house.data(b) == before
    (out, _) = house.ormah.index.edges(a)
    assert {(one.edge, one.weight, one.reason) for one in out} == {(S, 0.8, "they hold the bridge"), (R, 0.7, None)}
    said = house.git("show", "-s", "--format=%B")
    assert said.startswith("Link some\n\nwhy\n")
    assert "Ormah-Kind: link\n" in said
    assert all(one in said for one in (a, c))


@pytest.mark.parametrize(
    ("weight", "kept"), [(None, 0.5), (0.0, 0.5), (-3.0, 0.5), (0.001, 0.5), (0.456, 0.46), (1.0, 1.0), (7.0, 1.0)]
)
def test_a_weight_is_never_nothing(house: JobsHouse, weight: float | None, kept: float) -> None:
    a, b, _ = three(house)
    drawn(house, EdgeToAdd(a, b, S, weight))
    assert house.ormah.index.edges(a)[0][0].weight == kept


def test_what_is_there_is_not_drawn_again(house: JobsHouse) -> None:
    a, b, c = three(house)
    drawn(house, EdgeToAdd(a, b, R), EdgeToAdd(a, c, S))
    head = house.head
    assert drawn(house, EdgeToAdd(a, b, R), EdgeToAdd(b, a, R), EdgeToAdd(a, c, S), EdgeToAdd(c, a, R)) is None
    draft = Draft(house.ormah)
    assert draft.add(EdgeToAdd(b, c, C))
    assert not draft.add(EdgeToAdd(c, b, C)), "the same within one draft"
    assert not draft.add(EdgeToAdd(b, c, R))
    assert house.head == head


def test_a_plain_related_to_gives_way_to_what_says_more(house: JobsHouse) -> None:
    a, b, c = three(house)
    drawn(house, EdgeToAdd(a, b, R, 0.9), EdgeToAdd(a, c, R, 0.8, "somebody said why"))
    house.type_into(b, "Bridges", f"See [[{house.path(c).stem}]]. Bridges")
    drawn(house, EdgeToAdd(b, a, D, 0.7), EdgeToAdd(c, a, S, 0.7), EdgeToAdd(b, c, P, 0.7))
    assert edges(house, a, b, c) == {
        ("1", "depends_on", "0"), ("0", "related_to", "2"), ("2", "supports", "0"), ("1", "part_of", "2"),
    }  # fmt: skip
    assert b"[[" in house.data(b).split(b"\n---\n", 1)[1], "a person's link stays in the text"


def test_a_chain_that_comes_back_is_refused(house: JobsHouse) -> None:
    a, b, c = three(house)
    drawn(house, EdgeToAdd(a, b, P), EdgeToAdd(b, c, P))
    for wish in (EdgeToAdd(b, a, P), EdgeToAdd(c, a, P)):
        with pytest.raises(BadRequest, match="circle"):
            drawn(house, wish)
    with pytest.raises(BadRequest, match="circle"):
        drawn(house, EdgeToAdd(a, b, D), EdgeToAdd(b, c, D), EdgeToAdd(c, a, D))
    drawn(house, EdgeToAdd(c, a, S))
    with pytest.raises(BadRequest, match="the other way round"):
        drawn(house, EdgeToAdd(a, c, S))


def test_what_makes_no_sense_is_refused_by_name_and_the_rest_is_drawn(house: JobsHouse) -> None:
    a, b, c = three(house)
    me = house.ormah.vault.self_id
    wrong = a[:-1] + ("0" if a[-1] != "0" else "1")
    refused: list[tuple[EdgeToAdd, type[OrmahError], str]] = [
        (EdgeToAdd(wrong, b), NotFound, wrong), (EdgeToAdd(a, "*"), NotFound, "*"), (EdgeToAdd(a, a), BadRequest, a), (EdgeToAdd(me, a), BadRequest, me),
        (EdgeToAdd(a, me, S), BadRequest, me), (EdgeToAdd(a, b, EdgeType.DEFINES), BadRequest, a), (EdgeToAdd(a, b, S, math.nan), BadRequest, a),
        (EdgeToAdd(a, b, EdgeType.EVOLVED_FROM), BadRequest, a), (EdgeToAdd(a, b, S, 0.5, "x" * (MAX_REASON + 1)), BadRequest, a),
    ]  # fmt: skip
    draft = Draft(house.ormah)
    assert draft.add(EdgeToAdd(a, c, S))
    for wish, error, named in refused:
        with pytest.raises(error) as told:
            draft.add(wish)
        assert told.value.data["id"] == named
    assert [(one.source_id, one.target_id) for one in draft.made] == [(a, c)]
    apply(house.ormah, draft.change(subject="One edge", body=""), AGENT, run=None)
    assert edges(house, a, b, c) == {("0", "supports", "2")}


def test_a_secret_in_a_reason_is_taken_out(house: JobsHouse) -> None:
    a, b, _ = three(house)
    token = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    drawn(house, EdgeToAdd(a, b, S, 0.5, f"the token is {token}"))
    assert token.encode() not in house.data(a)
    assert b"the token is" in house.data(a)


def test_edges_that_a_person_wrote_in_the_same_note_stay(house: JobsHouse) -> None:
    a, b, c = three(house)
    house.type_into(a, "---\n", f"---\n# mine\nrelated_to: ['[[{house.path(b).stem}|the bridge]]', \"[[nowhere]]\"]\n")
    drawn(house, EdgeToAdd(a, c, R, 0.7))
    text = house.data(a).decode()
    assert "# mine\n" in text
    assert "|the bridge]]" in text
    assert "[[nowhere]]" in text
    assert len(parse(house.data(a), house.row(a).path).links) == 3


def test_identity_may_be_connected_but_not_by_defines(house: JobsHouse) -> None:
    me = house.ormah.vault.self_id
    a = house.remember(f"Lives in a boat {house.now}", tags=[ABOUT_SELF])
    b = house.remember(f"Boats {house.now}", connections=[LinkRequest(target=a, edge=S)])
    drawn(house, EdgeToAdd(a, b, R), EdgeToAdd(a, b, D))
    assert edges(house, a, b) == {("?", "defines", "0"), ("1", "supports", "0"), ("0", "depends_on", "1")}
    assert {one.source for one in house.ormah.index.edges(a)[1] if one.edge is EdgeType.DEFINES} == {me}
