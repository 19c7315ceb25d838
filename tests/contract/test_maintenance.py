"""Two-phase maintenance: what is handed out, what is taken of what comes back, what is refused and why."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ormahd.actions.caller import Caller
from ormahd.actions.connect import connect
from ormahd.actions.forget import forget
from ormahd.actions.remember import remember
from ormahd.actions.undo import Wish as Undo
from ormahd.actions.undo import undo
from ormahd.actions.update import Update, update
from ormahd.config import load
from ormahd.core.node import CreateNodeRequest, EdgeType, NodeType
from ormahd.errors import Conflict, NotFound, OrmahError
from ormahd.jobs.batches import CLUSTERS, CONFLICTS, LINKS, MERGES, Search, cut, size
from ormahd.jobs.job import Turn
from ormahd.jobs.maintenance import Handed, Maintenance, Settled
from ormahd.judge.port import Pair, Shown
from ormahd.ormah import Ormah
from tests.surroundings import surroundings

AGENT = Caller("claude-code")
START = datetime(2026, 11, 21, 20, 0, tzinfo=UTC)
SECRET = "AKIA" + "IOSFODNN7EXAMPLE"


@dataclass
class House:
    """A vault whose clock a test can move, and what its jobs would find: pairs and clusters by the names that a test gave the memories."""

    ormah: Ormah
    clock: list[datetime]
    ids: dict[str, str] = field(default_factory=dict)
    found: dict[str, list[tuple[str, ...]]] = field(
        default_factory=lambda: {LINKS: [], CONFLICTS: [], MERGES: [], CLUSTERS: []}
    )

    def told(self, name: str, content: str, **more: Any) -> str:
        request = CreateNodeRequest(
            **{"content": content, "title": name, "type": NodeType.FACT, "space": "shop"} | more
        )
        self.ids[name] = remember(self.ormah, request, AGENT).node_id
        return self.ids[name]

    def shown(self, name: str) -> Shown:
        row = self.ormah.index.note(self.ids[name])
        return Shown(row.id, row.type, row.space, row.title, row.content, row.created)

    def _alive(self, batch: str) -> Iterator[tuple[str, ...]]:
        for names in self.found[batch]:
            if len(self.ormah.index.notes([self.ids[name] for name in names])) == len(names):
                yield names

    def search(self) -> Search:
        def pairs(batch: str) -> Callable[[Turn], Iterator[Pair]]:
            return lambda _: (Pair(self.shown(a), self.shown(b), 0.8125) for a, b in self._alive(batch))

        def clusters(_: Turn) -> Iterator[Sequence[Shown]]:
            return ([self.shown(name) for name in names] for names in self._alive(CLUSTERS))

        return Search({batch: pairs(batch) for batch in (LINKS, CONFLICTS, MERGES)}, clusters)

    def maintenance(self) -> Maintenance:
        return Maintenance(self.ormah, self.search())

    def named(self, value: Any, key: str = "") -> Any:
        """`value` with the names of memories replaced by their ids."""
        if isinstance(value, str):
            return self.ids.get(value, value) if key.endswith(("_id", "_ids")) else value
        if isinstance(value, list):
            return [self.named(one, key) for one in value]
        if isinstance(value, dict):
            return {field: self.named(one, field) for field, one in value.items()}
        return value

    def judge(self, **lists: Any) -> Settled:
        """Both phases: hand out, and settle with these results (memories by name)."""
        maintenance = self.maintenance()
        return maintenance.settle(maintenance.hand_out().receipt, self.named(lists), AGENT)

    def wait(self, **span: float) -> None:
        self.clock[0] += timedelta(**span)

    def ops(self, run: str | None = None) -> list[Any]:
        return [one for one in self.ormah.vault.oplog.view().entries if run is None or one.run == run]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    environ = surroundings(tmp_path) | {"ORMAH_VAULT": str(tmp_path / "vault"), "ORMAH_EMBEDDING_MODEL": "hashing"}
    environ |= {"ORMAH_LINKING_SIMILARITY": "1.0"}  # no edge that a test did not draw
    clock = [START]
    ormah = Ormah.open(load(None, environ), clock=lambda: clock[0])
    ormah.warm()
    made = House(ormah, clock)
    made.ids["me"] = ormah.vault.self_id
    try:
        yield made
    finally:
        ormah.close()


@pytest.fixture
def two(house: House) -> House:
    """Six memories; `uv` and `also uv` are one question to link, to merge and to oppose, `a` and `b` another, with `c` in a
    cluster of its own, `x` and `y` in another."""
    house.told("uv", "Python packages are installed with uv here.")
    house.told("also uv", "We install Python packages with uv.")
    house.told("a", "The till prints receipts on thermal paper.", title="Receipts")
    house.told("b", "The till's thermal paper is eighty millimetres wide.", title="Width of the paper")
    house.told("c", "Thermal paper for the till is in the left drawer.", title="Where the paper is")
    house.told("x", "The shop opens at nine on weekdays.", title="Weekday hours")
    house.told("y", "On Saturdays the shop opens at ten.", title="Saturday hours")
    house.found[LINKS] = [("uv", "also uv"), ("a", "b"), ("b", "c"), ("a", "c")]
    house.found[MERGES] = [("uv", "also uv"), ("a", "b"), ("b", "c"), ("a", "c")]
    house.found[CONFLICTS] = [("uv", "also uv"), ("x", "y")]
    house.found[CLUSTERS] = [("a", "b", "c"), ("x", "y")]
    return house


# ---------------------------------------------------------------- phase one


def test_the_seeds_keys_and_a_receipt(two: House) -> None:
    handed = two.maintenance().hand_out()
    assert set(handed.batches) == {LINKS, CONFLICTS, MERGES, CLUSTERS}
    assert handed.expires == START + timedelta(hours=1)
    (first, *_) = handed.batches[MERGES]
    assert first["similarity"] == 0.8125
    assert {first["node_a"]["id"], first["node_b"]["id"]} == {two.ids["uv"], two.ids["also uv"]}
    assert first["node_a"]["content"] == "Python packages are installed with uv here."
    assert [[node["title"] for node in one] for one in handed.batches[CLUSTERS]] == [
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
    assert (again.receipt, again.batches) == (first.receipt, first.batches)


def test_what_changed_meanwhile_is_not_shown_again(two: House) -> None:
    first = two.maintenance().hand_out()
    update(two.ormah, two.ids["uv"], Update({"content": "Packages come from the distribution."}), AGENT)
    again = two.maintenance().hand_out()
    assert again.receipt == first.receipt
    assert not [one for one in again.batches[MERGES] if two.ids["uv"] in (one["node_a"]["id"], one["node_b"]["id"])]
    assert len(again.batches[MERGES]) == 3


def test_a_receipt_with_nothing_left_makes_room(two: House) -> None:
    first = two.maintenance().hand_out()
    for name in ("uv", "a", "b", "c", "x"):
        forget(two.ormah, two.ids[name], AGENT)
    two.told("z", "The shop is closed on Sundays.")
    two.found[LINKS] = [("y", "z")]
    two.found[MERGES] = two.found[CONFLICTS] = two.found[CLUSTERS] = []
    again = two.maintenance().hand_out()
    assert again.receipt != first.receipt
    assert len(again.batches[LINKS]) == 1


def test_nothing_to_judge_is_a_receipt_too(house: House) -> None:
    handed = house.maintenance().hand_out()
    assert handed.summary == "There is nothing to judge."
    assert not any(handed.batches.values())
    done = house.maintenance().settle(handed.receipt, {}, AGENT)
    assert (done.run, done.commits, done.refused) == (None, [], [])


@pytest.mark.parametrize("text", ["word " * 4_000, "x" * 20_000, '"\n\\' * 7_000, "\u65e5\u672c\u8a9e\u3002" * 5_000])
def test_the_payload_has_a_ceiling(house: House, text: str) -> None:
    names = [f"m{number}" for number in range(12)]
    for number, name in enumerate(names):
        house.told(name, f"{number} {text}", title=f"{name} " + "long title " * 20)
    pairs: list[tuple[str, ...]] = [tuple(two) for two in itertools.combinations(names, 2)][:20]
    house.found.update({LINKS: pairs, CONFLICTS: pairs, MERGES: pairs, CLUSTERS: [tuple(names[:5])]})
    handed = house.maintenance().hand_out()
    assert size(handed.batches) <= 40_000
    assert [len(handed.batches[one]) for one in (LINKS, CONFLICTS, MERGES)] == [8, 8, 8]
    assert handed.batches[CLUSTERS] == []  # their texts would have to be whole
    for batch in (LINKS, CONFLICTS, MERGES):
        for pair in handed.batches[batch]:
            for node in (pair["node_a"], pair["node_b"]):
                assert node["cut"]
                assert node["content"].endswith(" …")
                assert len(node["title"]) <= 160


def test_clusters_keep_their_texts_whole_beside_full_pairs(house: House) -> None:
    names = [f"m{number}" for number in range(16)]
    for number, name in enumerate(names):
        house.told(name, f"{number} " + "The till prints receipts. " * 25)
    pairs: list[tuple[str, ...]] = [tuple(two) for two in itertools.combinations(names, 2)][:8]
    house.found.update({LINKS: pairs, CONFLICTS: pairs, MERGES: pairs})
    house.found[CLUSTERS] = [tuple(names[at : at + 4]) for at in (0, 4, 8, 12)]
    handed = house.maintenance().hand_out()
    assert size(handed.batches) <= 40_000
    assert len(handed.batches[CLUSTERS]) >= 3
    assert not any(node["cut"] for one in handed.batches[CLUSTERS] for node in one)


def test_a_cut_is_between_words() -> None:
    assert cut("one two three", 13) == "one two three"
    assert cut("one two three four", 12) == "one two …"
    assert cut("one two three four", 16) == "one two three …"
    assert cut("x" * 30, 12) == "x" * 10 + " …"


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
    assert done.summary == {"edges": 1, "merges": 1, "consolidations": 1, "conflicts": 1, "skipped": 0}
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
    undo(two.ormah, Undo(run=done.run), Caller("person"), lambda *_: None)
    assert {path: data for path, data, _ in two.ormah.files()} == before
    handed = two.maintenance().hand_out()
    assert not any(handed.batches.values()), "a person took it back: that is an answer too"


def test_silence_is_no_and_is_remembered(two: House) -> None:
    maintenance = two.maintenance()
    done = maintenance.settle(maintenance.hand_out().receipt, {}, AGENT)
    assert done.summary == {"edges": 0, "merges": 0, "consolidations": 0, "conflicts": 0, "skipped": 0}
    assert maintenance.hand_out().summary == "There is nothing to judge."
    update(two.ormah, two.ids["uv"], Update({"content": "Python packages come with uv, pinned."}), AGENT)
    again = maintenance.hand_out()
    assert [len(again.batches[one]) for one in (LINKS, CONFLICTS, MERGES, CLUSTERS)] == [1, 1, 1, 0]


def test_none_may_be_said(two: House) -> None:
    done = two.judge(
        edges=[{"source_id": "a", "target_id": "b", "edge_type": "none"}],
        conflicts=[{"source_id": "x", "target_id": "y", "kind": "none", "reason": "weekdays and Saturdays"}],
    )
    assert (done.refused, done.summary["skipped"], done.commits) == ([], 2, [])


Make = Callable[[House], dict[str, Any]]
LONG = "a text " * 150_000
GOOD = {"source_id": "x", "target_id": "y", "kind": "tension", "reason": "beside it"}
"""Beside every wrong item stands a right one, which is applied."""
ALMOST = "0000"


def edge(**changed: Any) -> dict[str, Any]:
    return {"source_id": "a", "target_id": "b", "edge_type": "supports"} | changed


def merge(**changed: Any) -> dict[str, Any]:
    return {"keep_id": "a", "remove_id": "b"} | changed


def unite(**changed: Any) -> dict[str, Any]:
    text = "The till prints receipts on thermal paper, eighty millimetres wide, from the left drawer."
    return {"node_ids": ["a", "b", "c"], "content": text, "type": "fact"} | changed


WRONG: list[tuple[str, str, Any, str, str]] = [
    ("edges", "an unknown id", edge(target_id="11111111-2222-4333-8444-555555555555"), "1111", "not issued in link_candidates"),
    ("merges", "an unknown id", merge(remove_id="11111111-2222-4333-8444-555555555555"), "1111", "not issued in merge_cand"),
    ("consolidations", "an unknown id", unite(node_ids=["a", "b", "nobody"]), "nobody", "not issued in consolidation_clusters"),
    ("conflicts", "an unknown id", GOOD | {"source_id": "*"}, "*", "not issued in conflict_candidates"),
    ("edges", "issued in another batch only", edge(source_id="x", target_id="y"), "x", "not issued in link_candidates"),
    ("edges", "no pair", edge(source_id="uv", target_id="a"), "uv", "not issued as a pair"),
    ("merges", "the keeper of another pair", merge(keep_id="uv"), "uv", "not issued as a pair"),
    ("edges", "the same memory twice", edge(target_id="a"), "a", "the same memory twice"),
    ("consolidations", "of two clusters", unite(node_ids=["a", "x"]), "a", "different clusters"),
    ("consolidations", "one memory", unite(node_ids=["a"]), "a", "at least 2"),
    ("consolidations", "twice the same", unite(node_ids=["a", "b", "a"]), "a", "named twice"),
    ("consolidations", "six memories", unite(node_ids=["a"] * 6), "a", "at most 5"),
    ("consolidations", "no type", unite(type="secret"), "a", "type:"),
    ("consolidations", "empty text", unite(content="  \n"), "a", "empty"),
    ("consolidations", "no text", {"node_ids": ["a", "b"], "type": "fact"}, "a", "content:"),
    ("consolidations", "a megabyte", unite(content=LONG), "a", "content:"),
    ("consolidations", "longer than what it sums up", unite(content="The till. " * 200), "a", "more than what it sums up"),
    ("consolidations", "a secret", unite(content=f"The till's key is {SECRET}."), "a", "secret"),
    ("consolidations", "not found in their place", unite(content="Nothing of this kind."), "a", "among the first 3"),
    ("merges", "empty text", merge(content=""), "a", "empty"),
    ("merges", "a megabyte", merge(content=LONG), "a", "content:"),
    ("merges", "made up", merge(content="The till prints. " * 60), "a", "characters"),
    ("merges", "a megabyte of title", merge(title=LONG), "a", "title:"),
    ("merges", "a NUL", merge(content="The till\x00prints"), "a", "NUL"),
    ("merges", "half a character", merge(content="The till \ud800"), "a", "surrogate"),
    ("merges", "no loser", {"keep_id": "a"}, "a", "remove_id:"),
    ("merges", "an id that is none", merge(keep_id=["a"]), "a", "keep_id:"),
    ("merges", "a megabyte of id", merge(keep_id="a" * 1_000_000), "a" * 100, "keep_id:"),
    ("merges", "no map", "a", "", "no map"),
    ("merges", "null", None, "", "no map"),
    ("edges", "an edge that is none", edge(edge_type="destroys"), "a", "edge_type:"),
    ("edges", "who the user is", edge(edge_type="defines"), "a", "edge_type:"),
    ("edges", "without weight", edge(weight=0), "a", "weight:"),
    ("edges", "too much weight", edge(weight=1.5), "a", "weight:"),
    ("edges", "no number", edge(weight=float("nan")), "a", "weight:"),
    ("edges", "a megabyte of reason", edge(reason=LONG), "a", "reason:"),
    ("conflicts", "a kind that is none", {"source_id": "uv", "target_id": "also uv", "kind": "war"}, "uv", "kind:"),
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
    assert done.summary == {"edges": 0, "merges": 0, "consolidations": 0, "conflicts": 1, "skipped": 1}
    assert set(two.ormah.index.notes(sorted(before))) == before, "nothing is lost"
    assert SECRET.encode() not in b"".join(data for _, data, _ in two.ormah.files())


def test_one_wrong_character_is_another_id(two: House) -> None:
    wrong = two.ids["b"][:-1] + ("0" if two.ids["b"][-1] != "0" else "1")
    done = two.judge(merges=[merge(remove_id=wrong), {"keep_id": "uv", "remove_id": "also uv"}])
    (refused,) = done.refused
    assert (refused.item, refused.id) == ("merges[0]", wrong)
    assert done.summary["merges"] == 1
    again = two.maintenance().hand_out()
    assert [[one["node_a"]["id"], one["node_b"]["id"]] for one in again.batches[MERGES]] == [
        [two.ids["a"], two.ids["b"]], [two.ids["a"], two.ids["c"]],
    ], "what was refused is asked again"  # fmt: skip


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
    assert done.summary == {"edges": 2, "merges": 1, "consolidations": 0, "conflicts": 0, "skipped": 7}
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
    assert (done.summary["edges"], done.summary["merges"]) == (1, 0)
    assert len(two.ormah.index.notes([two.ids["uv"], two.ids["also uv"]])) == 2


def test_what_one_verdict_removes_no_other_can_use(two: House) -> None:
    done = two.judge(merges=[merge(), merge(keep_id="b", remove_id="c")], consolidations=[unite()])
    assert done.summary["merges"] == 1
    assert [(one.item, one.id) for one in done.refused] == [
        ("merges[1]", two.ids["b"]), ("consolidations[0]", two.ids["b"]),
    ]  # fmt: skip


def test_what_changed_since_is_refused(two: House) -> None:
    maintenance = two.maintenance()
    handed = maintenance.hand_out()
    update(two.ormah, two.ids["a"], Update({"content": "The till prints no receipts any more."}), AGENT)
    forget(two.ormah, two.ids["uv"], AGENT)
    lists = {
        "merges": [merge(), {"keep_id": "also uv", "remove_id": "uv"}],
        "edges": [edge(source_id="b", target_id="c")],
    }
    done = maintenance.settle(handed.receipt, two.named(lists), AGENT)
    assert [(one.item, one.id) for one in done.refused] == [("merges[0]", two.ids["a"]), ("merges[1]", two.ids["uv"])]
    assert "changed since" in done.refused[0].why
    assert "not in the vault" in done.refused[1].why
    assert done.summary["edges"] == 1


def test_an_edit_beside_the_text_is_no_other_text(two: House) -> None:
    maintenance = two.maintenance()
    handed = maintenance.hand_out()
    update(two.ormah, two.ids["a"], Update(add_tags=("till",)), AGENT)
    connect(two.ormah, two.ids["a"], two.ids["x"], AGENT, edge=EdgeType.SUPPORTS, weight=0.5, reason=None, remove=False)
    done = maintenance.settle(handed.receipt, two.named({"merges": [merge()]}), AGENT)
    assert done.summary["merges"] == 1
    assert two.ormah.index.note(two.ids["a"]).tags == ("till",)


def test_a_question_is_not_asked_for_ever(two: House) -> None:
    for _ in range(3):
        assert len(two.maintenance().hand_out().batches[CLUSTERS]) == 2
        two.judge(consolidations=[unite(content="Nothing of this kind."), unite(node_ids=["x", "y"], content=" ")])
    assert two.maintenance().hand_out().batches[CLUSTERS] == []


def test_a_list_that_is_none_leaves_its_questions_open(two: House) -> None:
    done = two.judge(edges={"source_id": "a"}, merges=[])
    (refused,) = done.refused
    assert (refused.item, refused.id) == ("edges", "")
    again = two.maintenance().hand_out()
    assert (len(again.batches[LINKS]), len(again.batches[MERGES])) == (4, 0)


def test_no_text_may_be_made_of_a_part(house: House) -> None:
    house.told("a", "The till prints receipts. " * 400)
    house.told("b", "The till prints all receipts. " * 400)
    house.found[MERGES] = [("a", "b")]
    done = house.judge(merges=[merge(content="The till prints receipts.")])
    assert "shown in part" in done.refused[0].why
    assert house.judge(merges=[merge()]).summary["merges"] == 1


def test_a_contradiction_among_links_is_a_conflict_of_its_own(two: House) -> None:
    done = two.judge(edges=[edge(edge_type="contradicts", reason="two papers"), edge(source_id="b", target_id="c")])
    assert done.summary["edges"] == 2
    assert sorted(one.kind for one in two.ops(done.run)) == ["conflict", "link"]


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
    assert again.batches == handed.batches


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
        maintenance.look()
        return maintenance.due()

    assert not due(), "the first day is a grace"
    two.wait(hours=23, minutes=59)
    assert not due()
    two.wait(minutes=1)
    assert due()
    handed: Handed = maintenance.hand_out()
    assert not due(), "somebody is at it"
    two.wait(hours=1)
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
    applied = sum(done.summary.values()) - done.summary["skipped"]
    assert done.summary["skipped"] + applied == 240
    kept = two.ormah.index.notes(list(before))
    merged = [one for one in two.ops(done.run) if one.kind == "merge"] if done.run else []
    assert len(kept) + len(merged) == len(before)
    if done.run:
        undo(two.ormah, Undo(run=done.run), Caller("person"), lambda *_: None)
    assert {row.id: row.content for row in two.ormah.index.notes(list(before)).values()} == before
    assert two.ormah.verify() == []
