"""Uniting memories: what of a judge's text is taken, what is refused, and that all of it can be taken back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ormahd.actions.outdated import outdated
from ormahd.api import OutdatedParams
from ormahd.errors import BadRequest, Conflict, NotFound, OrmahError
from ormahd.jobs.consolidation.change import TAG, consolidate, successors
from ormahd.jobs.job import apply
from ormahd.judge.port import ShownMemory, Summary
from ormahd.model.node import ABOUT_SELF, EdgeType, NodeType, Tier
from ormahd.note.read import parse
from tests.contract.consolidating import DEPLOYS, JOB, Says, deploys, near, united, whole
from tests.jobs_house import AGENT, JobsHouse
from tests.jobs_judge import SECRET, ScriptedJudge

# ---------------------------------------------------------------- what is done


def test_one_commit_that_a_person_understands(house: JobsHouse) -> None:
    ids = deploys(house, tags=["ops"])
    head = house.head
    ran = house.run(JOB, Says(says=whole))
    assert (ran.proposals, ran.applied, ran.skipped, len(ran.commits)) == (1, 1, 0, 1)
    assert house.git("rev-list", f"{head}..HEAD").split() == ran.commits
    (new,) = united(house)
    subject, *body = house.git("log", "-1", "--format=%B").splitlines()
    assert subject == "Consolidate: 3 memories became “Payments deploys”"
    assert "one service" in body
    assert "Judge: scripted" in body
    assert sum(line.startswith("- Payments deploy ") for line in body) == 3
    trailers = dict(line.split(": ", 1) for line in body if line.startswith("Ormah-"))
    assert trailers["Ormah-Kind"] == "consolidate"
    assert trailers["Ormah-Source"] == "job:consolidator"
    assert set(trailers["Ormah-Nodes"].split()) == {new, *ids}
    row = house.row(new)
    assert (row.type, row.tier, row.space, row.source) == (NodeType.PROCEDURE, Tier.WORKING, "shop", "job:consolidator")
    assert row.tags == (TAG, "ops")
    out, into = house.ormah.index.edges(new)
    assert {(edge.edge, edge.target, edge.weight) for edge in out} == {(EdgeType.DERIVED_FROM, one, 1.0) for one in ids}
    assert {(edge.edge, edge.source) for edge in into} == {(EdgeType.PART_OF, one) for one in ids}
    assert {house.row(one).tier for one in ids} == {Tier.ARCHIVAL}
    assert successors(house.ormah.index, ids, house.now) == dict.fromkeys(ids, new)
    assert house.ormah.verify() == []


def test_the_new_memory_answers_for_its_sources_and_they_are_still_found(house: JobsHouse) -> None:
    for name in "abcdefgh":
        house.remember(f"Deploys of the {name} service happen on some day.", title=f"Deploys of {name}", space="shop")
    ids = deploys(house)
    house.run(JOB, Says(says=lambda cluster: whole(cluster) if "Payments" in (cluster[0].title or "") else None))
    (new,) = united(house)
    for (title, content), node_id in zip(DEPLOYS, ids, strict=True):
        for query in (title, content):
            assert new in house.found(query, space="shop")[:3]
            assert node_id in house.found(query, space="shop")


def test_who_the_user_is_stays_who_the_user_is(house: JobsHouse) -> None:
    ids = [
        house.remember("The user lives in Dublin, near the canal.", title="Home", about_self=True, tags=["place"]),
        house.remember("The user lives in Dublin, near the park.", title="Home park", tags=["Place", "park"]),
    ]
    me = house.ormah.vault.self_id
    house.run(JOB, ScriptedJudge())
    (new,) = united(house)
    assert house.row(new).tags == (TAG, ABOUT_SELF, "place", "park")
    defined = {edge.target for edge in house.ormah.index.edges(me)[0] if edge.edge is EdgeType.DEFINES}
    assert defined == {new, ids[0]}
    house.undo("HEAD"[:0] + house.head)
    assert {edge.target for edge in house.ormah.index.edges(me)[0]} == {ids[0]}


def test_preferences_stay_preferences(house: JobsHouse) -> None:
    deploys(house, type=NodeType.PREFERENCE)
    house.run(JOB, Says(says=whole))
    assert [house.row(one).type for one in united(house)] == [NodeType.PREFERENCE]


# ---------------------------------------------------------------- what is refused


REFUSED = {
    "a number is lost": lambda cluster: whole(cluster, content=whole(cluster).content.replace("14:00", "noon")),
    "a name is lost": lambda cluster: whole(cluster, content=whole(cluster).content.replace("Ana", "somebody")),
    "nothing is said": lambda cluster: whole(cluster, content=" \n "),
    "more than they said": lambda cluster: whole(cluster, content=whole(cluster).content + " and so on" * 200),
    "a secret": lambda cluster: whole(cluster, content=whole(cluster).content + f" Token: {SECRET}"),
    "a secret in the title": lambda cluster: whole(cluster, title=f"Token {SECRET}"),
    "a NUL": lambda cluster: whole(cluster, content=whole(cluster).content + "\0"),
    "half of a character": lambda cluster: whole(cluster, content=whole(cluster).content + "\ud800"),
    "conflict markers": lambda cluster: whole(
        cluster, content=f"<<<<<<< a\n{whole(cluster).content}\n=======\nb\n>>>>>>> c"
    ),
    "a title without an end": lambda cluster: whole(cluster, title="Payments " * 100),
}


@pytest.mark.parametrize("says", REFUSED.values(), ids=REFUSED.keys())
def test_a_bad_summary_is_refused_and_not_asked_for_again(house: JobsHouse, says: Callable[..., Any]) -> None:
    deploys(house)
    tree, judge = house.tree, Says(says=says)
    ran = house.run(JOB, judge)
    assert (ran.proposals, ran.applied, ran.error) == (0, 0, None)
    assert house.run(JOB, judge).proposals == 0
    assert len(judge.asked) == 1
    assert house.tree == tree
    assert house.ormah.index.count() == len(DEPLOYS) + 1


def test_a_summary_that_would_not_be_found_is_refused(house: JobsHouse) -> None:
    ids = [
        house.remember(f"The lease of the {name} office ends in spring.", title=f"{name} lease") for name in
        ("alpha", "beta", "gamma")
    ]  # fmt: skip
    for number in range(6):
        house.remember(f"The lease of the alpha office ends in spring, says letter {number}.", title=f"alpha lease {number}",
                       tier=Tier.CORE)  # fmt: skip
    with pytest.raises(BadRequest, match=r"would not be among the first 3 for “.* lease”"):
        consolidate(house.ormah, ids, title="Miscellaneous", content="Sundry matters of rent.", kind=NodeType.FACT,
                    body="", source="job:consolidator")  # fmt: skip


WISHES: dict[str, tuple[Callable[[JobsHouse, list[str]], dict[str, Any]], type[OrmahError], str]] = {
    "one": (lambda h, ids: {"node_ids": ids[:1]}, BadRequest, "2 to 5"),
    "the same twice": (lambda h, ids: {"node_ids": [ids[0], ids[0]]}, BadRequest, "2 to 5"),
    "six": (lambda h, ids: {"node_ids": [*ids, *[h.remember(f"More of {n}.") for n in "abc"]]}, BadRequest, "2 to 5"),
    "one wrong character": (lambda h, ids: {"node_ids": [ids[0], ("e" if ids[1][0] == "f" else "f") + ids[1][1:]]}, NotFound, "no memory"),
    "the self node": (lambda h, ids: {"node_ids": [ids[0], h.ormah.vault.self_id]}, BadRequest, "self node"),
    "core": (lambda h, ids: {"node_ids": [ids[0], h.remember("Core.", tier=Tier.CORE)]}, BadRequest, "in core"),
    "another space": (lambda h, ids: {"node_ids": [ids[0], h.remember("Other.", space="x")]}, BadRequest, "different"),
}  # fmt: skip


@pytest.mark.parametrize("wish", WISHES.values(), ids=WISHES.keys())
def test_a_wish_that_makes_no_sense_is_refused_by_name(house: JobsHouse, wish: Any) -> None:
    make, error, says = wish
    ids = deploys(house)
    asked = {
        "node_ids": ids,
        "title": "T",
        "content": "\n".join(content for _, content in DEPLOYS),
        "kind": NodeType.FACT,
    }
    asked |= make(house, ids)
    tree = house.tree
    with pytest.raises(error, match=says):
        consolidate(house.ormah, body="b", source="agent:test", **asked)
    assert house.tree == tree


def test_what_became_part_of_another_is_not_united_again(house: JobsHouse) -> None:
    ids = deploys(house)
    house.run(JOB, Says(says=whole))
    (new,) = united(house)
    with pytest.raises(Conflict, match=f"became part of {new[:8]} already"):
        consolidate(house.ormah, ids[:2], title=None, content="Deploys.", kind=NodeType.FACT, body="", source="")
    outdated(house.ormah, OutdatedParams(node_id=new, reason="wrong"), AGENT)
    assert successors(house.ormah.index, ids, house.now) == {}, "it does not answer for them any more"


def test_a_person_who_edits_while_the_judge_thinks_wins(house: JobsHouse) -> None:
    ids = deploys(house)

    def thinks(cluster: Sequence[ShownMemory]) -> Summary:
        house.type_into(ids[1], "ArgoCD", "Flux")
        return whole(cluster)

    judge = Says(says=thinks)
    ran = house.run(JOB, judge)
    assert (ran.applied, ran.error) == (0, None)
    assert "Flux" in house.row(ids[1]).content
    judge.says = whole
    assert house.run(JOB, judge).applied == 1, "with the new text it is a new question"
    assert "Flux" in house.row(united(house)[0]).content


# ---------------------------------------------------------------- taking it back


def texts(house: JobsHouse, ids: Sequence[str]) -> list[bytes]:
    return [house.data(one) for one in ids]


@pytest.mark.parametrize("by", ["undo", "revert"])
def test_taken_back_the_sources_are_what_they_were_byte_for_byte(house: JobsHouse, by: str) -> None:
    ids = deploys(house, about_self=True)
    before, tree = texts(house, ids), house.tree
    house.run(JOB, Says(says=whole))
    assert texts(house, ids) != before
    house.undo(house.head) if by == "undo" else house.revert()
    assert texts(house, ids) == before
    assert house.tree == tree
    assert united(house) == []
    assert house.ormah.verify() == []
    assert house.run(JOB, Says(says=whole)).proposals == 0, "what was taken back is not done again"


# ---------------------------------------------------------------- spaces, certainty


@pytest.mark.parametrize(
    ("spaces", "becomes"), [(["x", "x", None], "x"), (["x", None], None), ([None, None, "x"], None), (["x", "x"], "x")]
)
def test_the_space_is_that_of_most(house: JobsHouse, spaces: list[str | None], becomes: str | None) -> None:
    ids = [house.remember(**near(name, space=space)) for name, space in zip("abc", spaces, strict=False)]
    content = "\n".join(house.row(one).content for one in ids)
    change = consolidate(house.ormah, ids, title="The nightly backup of the build server", content=content,
                         kind=NodeType.FACT, body="", source="agent:test")  # fmt: skip
    assert apply(house.ormah, change, AGENT, run=None) is not None
    (new,) = united(house)
    assert (house.row(new).space, house.row(new).source) == (becomes, "agent:test")


def test_what_is_global_on_purpose_stays_global(house: JobsHouse) -> None:
    ids = [house.remember(**near("a", space="x")), house.remember(**near("b", space="x"))]
    ids.append(house.remember(**near("c"), **{"global": True}, confidence=0.5))
    content = "\n".join(house.row(one).content for one in ids)
    change = consolidate(house.ormah, ids, title="The nightly backup of the build server", content=content,
                         kind=NodeType.FACT, body="", source="agent:test")  # fmt: skip
    assert apply(house.ormah, change, AGENT, run=None) is not None
    (new,) = united(house)
    assert house.row(new).space is None
    assert parse(house.data(new), house.row(new).path).everywhere
    assert house.row(new).confidence == 0.5
