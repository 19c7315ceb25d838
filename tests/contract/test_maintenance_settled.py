"""Two-phase maintenance, what comes back: what of it is applied, what is refused and why, and that nothing is lost."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ormahd.actions.amend import Caller
from ormahd.actions.outdated import forget
from ormahd.actions.undo import undo
from ormahd.actions.update import update
from ormahd.api import ForgetParams, UndoParams, UpdateParams
from ormahd.jobs.maintenance.kinds import CLUSTERS, CONFLICTS, LINKS, MERGES
from ormahd.model.node import EdgeType
from tests.contract import maintenance_house
from tests.contract.maintenance_house import AGENT, House, batches, counts, edge, merge
from tests.tables import rows

house = maintenance_house.house
two = maintenance_house.two

SECRET = "AKIA" + "IOSFODNN7QWERTYU"


# ---------------------------------------------------------------- phase two


def test_everything_that_was_judged_is_applied_in_one_run(two: House) -> None:
    done = two.judge(
        edges=[{"source_id": "c", "target_id": "b", "edge_type": "supports", "weight": 0.7, "reason": "the same drawer"}],
        merges=[{"keep_id": "also uv", "remove_id": "uv", "title": "uv", "content": "Python packages: uv.", "reason": "same"}],
        conflicts=[{"source_id": "x", "target_id": "y", "kind": "tension", "reason": "two times"}],
        consolidations=[{
            "node_ids": ["a", "b", "c"], "title": "The till's thermal paper", "type": "fact", "reason": "one thing",
            "content": "The till prints receipts on thermal paper. The till's thermal paper is eighty millimetres wide. "
            "Thermal paper for the till is in the left drawer.",
        }],
    )  # fmt: skip
    assert done.refused == []
    assert counts(done) == {"edges": 1, "merges": 1, "consolidations": 1, "conflicts": 1, "skipped": 0}
    ops = two.ops(done.run)
    assert sorted(one.kind for one in ops) == ["conflict", "consolidate", "link", "merge"]
    assert {one.source for one in ops} == {"agent:claude-code"}
    assert len(done.commits) == 4

    index = two.ormah.index
    kept = index.note(two.ids["also uv"])
    assert (kept.title, kept.content) == (
        "uv",
        "Python packages: uv.",
    )  # the keeper that was named, not the likelier one
    assert two.ids["uv"] not in index.notes([two.ids["uv"]])
    (edge,) = [one for one in index.edges_of([two.ids["c"]]) if one.edge is EdgeType.SUPPORTS]
    assert (edge.source, edge.target, edge.weight, edge.reason) == (two.ids["c"], two.ids["b"], 0.7, "the same drawer")
    assert EdgeType.CONTRADICTS in {one.edge for one in index.edges_of([two.ids["x"]])}
    assert two.ormah.verify() == []


def test_all_of_it_is_taken_back_at_once_and_not_asked_again(two: House) -> None:
    before = {path: data for path, data, _ in two.ormah.files()}
    done = two.judge(
        edges=[{"source_id": "a", "target_id": "b", "edge_type": "part_of"}],
        merges=[{"keep_id": "uv", "remove_id": "also uv"}],
        conflicts=[{"source_id": "y", "target_id": "x", "kind": "evolution", "reason": "new hours"}],
    )
    assert done.refused == []
    undo(two.ormah, UndoParams(run=done.run), Caller("person"), lambda *_: None)
    assert {path: data for path, data, _ in two.ormah.files()} == before
    handed = two.maintenance().hand_out()
    assert not any(batches(handed).values()), "a person took it back: that is an answer too"


def test_silence_is_no_and_is_remembered(two: House) -> None:
    maintenance = two.maintenance()
    done = maintenance.settle(maintenance.hand_out().receipt, {}, AGENT)
    assert counts(done) == {"edges": 0, "merges": 0, "consolidations": 0, "conflicts": 0, "skipped": 0}
    assert maintenance.hand_out().summary == "There is nothing to judge."
    update(two.ormah, UpdateParams(node_id=two.ids["uv"], content="Python packages come with uv, pinned."), AGENT)
    again = maintenance.hand_out()
    assert [len(batches(again)[one]) for one in (LINKS, CONFLICTS, MERGES, CLUSTERS)] == [1, 1, 1, 0]


Make = Callable[[House], dict[str, Any]]
LONG = "a text " * 150_000
GOOD = {"source_id": "x", "target_id": "y", "kind": "tension", "reason": "beside it"}
"""Beside every wrong item stands a right one, which is applied."""


def unite(**changed: Any) -> dict[str, Any]:
    text = "The till prints receipts on thermal paper, eighty millimetres wide, from the left drawer."
    return {"node_ids": ["a", "b", "c"], "content": text, "type": "fact"} | changed


WRONG: list[tuple[Any, ...]] = [
    *rows(Path(__file__).with_suffix(".toml"), "wrong"),
    ("consolidations", "longer than what it sums up", unite(content="The till. " * 200), "a", "more than what it sums up"),
    ("consolidations", "a secret", unite(content=f"The till's key is {SECRET}."), "a", "secret"),
    ("merges", "a megabyte", merge(content=LONG), "a", "content:"),
    ("merges", "made up", merge(content="The till prints. " * 60), "a", "characters"),
    ("merges", "half a character", merge(content="The till \ud800"), "a", "surrogate"),
    ("merges", "a megabyte of id", merge(keep_id="a" * 1_000_000), "a" * 100, "keep_id:"),
    ("edges", "no number", edge(weight=float("nan")), "a", "weight:"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "item", "blamed", "why"), [(n, i, b, w) for n, _, i, b, w in WRONG],
                         ids=[f"{n}: {what}" for n, what, *_ in WRONG])  # fmt: skip
def test_what_is_wrong_is_refused_by_name_and_the_rest_applied(
    two: House, name: str, item: Any, blamed: str, why: str
) -> None:
    before = set(two.ids.values())
    lists: dict[str, list[Any]] = {"conflicts": [GOOD]}
    lists[name] = [item, *lists.get(name, [])]
    done = two.judge(**lists)
    (refused,) = done.refused
    assert refused.item == f"{name}[0]"
    assert refused.id.startswith(two.ids.get(blamed, blamed))
    assert why in refused.why
    assert counts(done) == {"edges": 0, "merges": 0, "consolidations": 0, "conflicts": 1, "skipped": 1}
    assert set(two.ormah.index.notes(sorted(before))) == before, "nothing is lost"
    assert SECRET.encode() not in b"".join(data for _, data, _ in two.ormah.files())


OTHERWISE = rows(__file__, "otherwise")


@pytest.mark.parametrize(("name", "item", "asked"), OTHERWISE, ids=[f"{asked}: {name}" for name, _, asked in OTHERWISE])
def test_a_pair_may_be_judged_to_be_something_else_than_was_asked(
    two: House, name: str, item: dict[str, Any], asked: str
) -> None:
    done = two.judge(**{name: [item]})
    assert done.refused == []
    assert counts(done)[name] == 1
    assert len(done.commits) == 1
    assert not batches(two.maintenance().hand_out())[MERGES], "what was asked counts as answered"


def test_two_lists_that_say_different_things_of_a_pair_are_both_refused(two: House) -> None:
    done = two.judge(
        merges=[{"keep_id": "x", "remove_id": "y"}], conflicts=[GOOD], edges=[edge(source_id="a", target_id="b")]
    )
    assert {one.item for one in done.refused} == {"merges[0]", "conflicts[0]"}
    assert all("say different things" in one.why for one in done.refused)
    assert counts(done)["edges"] == 1
    assert two.ids["y"] in two.ormah.index.notes([two.ids["y"]])


def test_the_self_node_is_never_merged(two: House) -> None:
    two.found[MERGES] = [("me", "a"), ("b", "me")]
    done = two.judge(merges=[{"keep_id": "a", "remove_id": "me"}, {"keep_id": "me", "remove_id": "b"}])
    assert [one.item for one in done.refused] == ["merges[0]", "merges[1]"]
    assert {one.id for one in done.refused} <= {two.ids["me"], two.ids["b"]}
    assert done.commits == []


def test_circles_are_refused_as_a_whole(two: House) -> None:
    two.found[CONFLICTS] = [("a", "b"), ("b", "c"), ("a", "c")]
    done = two.judge(
        merges=[
            {"keep_id": "a", "remove_id": "b"}, {"keep_id": "b", "remove_id": "c"}, {"keep_id": "c", "remove_id": "a"},
            {"keep_id": "uv", "remove_id": "also uv"},
        ],
        conflicts=[
            {"source_id": "a", "target_id": "b", "kind": "evolution"}, {"source_id": "b", "target_id": "c", "kind": "evolution"},
            {"source_id": "c", "target_id": "a", "kind": "evolution"},
        ],
        edges=[edge(edge_type="part_of"), edge(source_id="b", target_id="c", edge_type="part_of"),
               edge(source_id="c", target_id="a", edge_type="part_of")],
    )  # fmt: skip
    assert counts(done) == {"edges": 2, "merges": 1, "consolidations": 0, "conflicts": 0, "skipped": 7}
    assert all("circle" in one.why for one in done.refused)
    assert [one.item for one in done.refused if one.item.startswith("edges")] == ["edges[2]"]


def test_the_same_twice_is_done_once_and_two_minds_are_none(two: House) -> None:
    done = two.judge(
        edges=[edge(reason="one"), edge(reason="other")],
        merges=[{"keep_id": "uv", "remove_id": "also uv"}, {"keep_id": "also uv", "remove_id": "uv"}],
    )
    assert [(one.item, one.why) for one in done.refused] == [
        ("edges[1]", "edges[0] says the same already"),
        ("merges[0]", "merges[1] says otherwise of the same memories"),
        ("merges[1]", "merges[0] says otherwise of the same memories"),
    ]
    assert (counts(done)["edges"], counts(done)["merges"]) == (1, 0)
    assert len(two.ormah.index.notes([two.ids["uv"], two.ids["also uv"]])) == 2


def test_what_one_verdict_removes_no_other_can_use(two: House) -> None:
    done = two.judge(merges=[merge(), merge(keep_id="b", remove_id="c")], consolidations=[unite()])
    assert counts(done)["merges"] == 1
    assert [(one.item, one.id) for one in done.refused] == [
        ("merges[1]", two.ids["b"]), ("consolidations[0]", two.ids["b"]),
    ]  # fmt: skip


def test_what_changed_since_is_refused(two: House) -> None:
    maintenance = two.maintenance()
    handed = maintenance.hand_out()
    update(two.ormah, UpdateParams(node_id=two.ids["a"], content="The till prints no receipts any more."), AGENT)
    forget(two.ormah, ForgetParams(node_id=two.ids["uv"]), AGENT)
    lists = {
        "merges": [merge(), {"keep_id": "also uv", "remove_id": "uv"}],
        "edges": [edge(source_id="b", target_id="c")],
    }
    done = maintenance.settle(handed.receipt, two.named(lists), AGENT)
    assert [(one.item, one.id) for one in done.refused] == [("merges[0]", two.ids["a"]), ("merges[1]", two.ids["uv"])]
    assert "changed since" in done.refused[0].why
    assert "not in the vault" in done.refused[1].why
    assert counts(done)["edges"] == 1


def test_a_question_is_not_asked_for_ever(two: House) -> None:
    for _ in range(3):
        assert len(batches(two.maintenance().hand_out())[CLUSTERS]) == 2
        two.judge(consolidations=[unite(content="Nothing of this kind."), unite(node_ids=["x", "y"], content=" ")])
    assert batches(two.maintenance().hand_out())[CLUSTERS] == []


def test_a_list_that_is_none_leaves_its_questions_open(two: House) -> None:
    done = two.judge(edges={"source_id": "a"}, merges=[])
    (refused,) = done.refused
    assert (refused.item, refused.id) == ("edges", "")
    again = two.maintenance().hand_out()
    assert (len(batches(again)[LINKS]), len(batches(again)[MERGES])) == (4, 0)


def test_no_text_may_be_made_of_a_part(house: House) -> None:
    house.told("a", "The till prints receipts. " * 400)
    house.told("b", "The till prints all receipts. " * 400)
    house.found[MERGES] = [("a", "b")]
    done = house.judge(merges=[merge(content="The till prints receipts.")])
    assert "shown in part" in done.refused[0].why
    assert counts(house.judge(merges=[merge()]))["merges"] == 1


def test_the_commit_says_who_judged_why_and_what_is_lost(two: House) -> None:
    two.told("p", "The printer listens on port 9100.")
    two.told("q", "The printer is a Star TSP143.")
    two.found[MERGES] = [("p", "q")]
    done = two.judge(merges=[{"keep_id": "p", "remove_id": "q", "reason": f"one printer, {SECRET}"}])
    (op,) = two.ops(done.run)
    message = two.ormah.vault.git.run("log", "-1", "--format=%B", op.commit).decode()
    assert "Judged by agent:claude-code." in message
    assert "one printer" in message
    assert "TSP143" in message
    assert SECRET not in message


# ---------------------------------------------------------------- whatever comes


ANYTHING: list[Any] = [
    None, True, 0, -1, 1e308, "", "a", "b", "none", "x" * 5_000, "\x00", "\ud800", [], {}, ["a"], [["a"]], {"a": "b"}, [None] * 3,
    "evolution", "contradicts", "part_of", ["a", "b", "c"], ["b", "b"], float("inf"), "'; DROP TABLE receipt; --", "../../etc/passwd",
]  # fmt: skip
FIELDS = ["source_id", "target_id", "edge_type", "weight", "reason", "keep_id", "remove_id", "title", "content", "node_ids", "type",
          "kind", "more"]  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_whatever_comes_nothing_is_lost(two: House, seed: int) -> None:
    chance = random.Random(seed)
    before = {row.id: row.content for row in two.ormah.index.notes(list(two.ids.values())).values()}

    def item() -> Any:
        if chance.random() < 0.1:
            return chance.choice(ANYTHING)
        return {name: chance.choice(ANYTHING) for name in FIELDS if chance.random() < 0.8}

    lists = {
        name: [item() for _ in range(60)] for name in ("edges", "merges", "consolidations", "conflicts", "receipt")
    }
    maintenance = two.maintenance()
    done = maintenance.settle(maintenance.hand_out().receipt, two.named(lists), AGENT)
    applied = sum(counts(done).values()) - counts(done)["skipped"]
    assert counts(done)["skipped"] + applied == 240
    kept = two.ormah.index.notes(list(before))
    merged = [one for one in two.ops(done.run) if one.kind == "merge"] if done.run else []
    assert len(kept) + len(merged) == len(before)
    if done.run:
        undo(two.ormah, UndoParams(run=done.run), Caller("person"), lambda *_: None)
    assert {row.id: row.content for row in two.ormah.index.notes(list(before)).values()} == before
    assert two.ormah.verify() == []
