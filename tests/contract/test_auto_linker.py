"""What the linker draws: given these memories, these edges; once, within limits, and so that it can be taken back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from ormahd.actions.transfer import import_lines
from ormahd.api import ImportParams
from ormahd.jobs.links.job import FEW, AutoLinker
from ormahd.jobs.neighbours import NearMemories
from ormahd.judge.port import Group, JudgeGone, Linked
from ormahd.model.node import EdgeType
from tests.jobs_house import AGENT, JobsHouse
from tests.jobs_judge import SECRET, Faults, ScriptedJudge
from tests.tables import rows

JOB = AutoLinker()
BOAT = "the blue boat in the old harbour has {} sails and one mast"
"""Two of these are near: 11 of 12 words are the same."""


@dataclass
class Links(ScriptedJudge):
    """Says of each pair what the test says; the rest is open."""

    says: dict[str, Linked | None] = field(default_factory=dict)
    calls: list[int] = field(default_factory=list)

    def links(self, pairs: Sequence[Group]) -> Sequence[Linked | None]:
        self.calls.append(len(pairs))
        return [self.says.get(f"{a.title} {b.title}") for a, b in pairs]


def store(house: JobsHouse, *memories: dict[str, Any]) -> dict[str, str]:
    """Imported, so that nothing is linked on the way in: title to id. Each is a minute younger than the one before."""
    lines = []
    for at, memory in enumerate(memories):
        lines.append(json.dumps({"created": f"2026-11-0{1 + at // 60}T10:{at % 60:02}:00Z", **memory}))
    done = import_lines(house.ormah, ImportParams(lines=lines), AGENT)
    assert not done.failed, done.failed
    rows = house.ormah.index.notes(house.ormah.index.ids())
    return {row.title: row.id for row in rows.values() if row.title}


def boat(name: str, sails: str, **more: Any) -> dict[str, Any]:
    return {"title": name, "content": BOAT.format(sails), **more}


def edges(house: JobsHouse, ids: dict[str, str]) -> set[str]:
    names = {node_id: name for name, node_id in ids.items()}
    return {
        f"{names[one.source]} {one.edge} {names[one.target]}"
        for one in house.ormah.index.edges_of()
        if one.edge is not EdgeType.DEFINES
    }


BREAD = {"title": "Bread", "content": "rye dough rests a night in a cool cellar before it is baked"}


def boats_and_bread(house: JobsHouse) -> dict[str, str]:
    """Two pairs that are near each other."""
    rye = {**BREAD, "title": "Rye", "content": BREAD["content"] + " well"}
    return store(house, boat("A", "two"), boat("B", "three"), BREAD, rye)


@pytest.mark.parametrize(("memories", "expected"), rows(__file__, "edges"))
def test_given_these_memories_these_edges(
    house: JobsHouse, memories: list[dict[str, Any]], expected: list[str]
) -> None:
    texts = [{"content": BOAT.format(one.get("sails")), **one} for one in memories]
    ids = store(house, *({key: one[key] for key in one.keys() - {"sails", "edges"}} for one in texts))
    for source, target, edge in [(one["title"], *wish) for one in memories for wish in one.get("edges", {}).items()]:
        house.type_into(ids[source], "---\n", f'---\n{edge}: ["[[{house.path(ids[target]).stem}]]"]\n')
    assert house.until_nothing_is_left(JOB)[-1].skipped == 0
    assert edges(house, ids) == set(expected)


def test_the_other_space_costs_something(house: JobsHouse) -> None:
    near = [("A", "one two"), ("B", "one three")]
    text = "seven grey geese fly over {} fields"
    ids = store(house, *({"title": name, "content": text.format(words)} for name, words in near))
    assert 0.65 <= dict(NearMemories(house.ormah.index).of(ids["A"]))[ids["B"]] < 0.75
    house.update(ids["A"], space="fields")
    assert house.run(JOB).proposals == 0
    assert edges(house, ids) == set()


def test_one_commit_that_a_person_understands(house: JobsHouse) -> None:
    ids = store(house, boat("Blue boat", "two"), boat("Other boat", "three", space="sea"), BREAD)
    before = house.head
    ran = house.run(JOB)
    assert (ran.proposals, ran.applied, ran.skipped, ran.commits) == (1, 1, 0, [house.head])
    assert house.git("rev-parse", "HEAD^") == before
    said = house.git("show", "-s", "--format=%an%n%B")
    assert said.startswith(
        "job:auto_linker\nLink 1 pair of memories\n\nEach is among the nearest of the other in meaning.\n"
    )
    pair = f"Other boat ({ids['Other boat'][:8]}) related_to Blue boat ({ids['Blue boat'][:8]}): cosine 0."
    assert pair in said
    assert "less 0.10 for another space" in said
    for trailer in ("Ormah-Kind: link", "Ormah-Source: job:auto_linker", "Ormah-Run: "):
        assert f"\n{trailer}" in said
    ((edge,), _) = house.ormah.index.edges(ids["Other boat"])
    assert 0.65 <= edge.weight <= 1
    assert house.git("show", "--name-only", "--format=") == house.row(ids["Other boat"]).path
    assert house.until_nothing_is_left(JOB)[0].proposals == 0, "and once is enough"


def test_none_becomes_a_hub(house: JobsHouse) -> None:
    ids = store(house, *(boat(f"N{at}", f"{at} white") for at in range(12)))
    house.until_nothing_is_left(JOB)
    for node_id in ids.values():
        assert len(house.ormah.index.edges_of([node_id])) <= FEW
    assert edges(house, ids)


def test_what_is_new_finds_what_is_old(house: JobsHouse) -> None:
    store(house, boat("A", "two"), BREAD)
    assert house.run(JOB).proposals == 0
    ids = store(house, boat("B", "three", created="2026-11-12T00:00:00Z"))
    assert house.run(JOB).applied == 1
    assert edges(house, ids) == {"B related_to A"}


def test_a_changed_text_is_looked_at_again(house: JobsHouse) -> None:
    ids = store(house, boat("A", "two"), BREAD)
    house.run(JOB)
    house.update(ids["Bread"], content=BOAT.format("four"))
    assert house.run(JOB).applied == 1
    assert edges(house, ids) == {"Bread related_to A"}


def test_undone_by_command_it_stays_undone(house: JobsHouse) -> None:
    ids = boats_and_bread(house)
    before = house.tree
    ran = house.run(JOB)
    assert len(edges(house, ids)) == 2
    house.undo(ran.commits[0])
    assert house.tree == before
    assert house.until_nothing_is_left(JOB)[0].proposals == 0


# With a judge


def test_a_judge_gives_types_or_nothing_and_is_asked_once(house: JobsHouse) -> None:
    ids = store(house, boat("A", "two"), boat("B", "three"), boat("C", "four"))
    judge = Links(says={
        "B A": Linked("depends_on", "B needs A"), "C A": Linked("none", "no"), "C B": Linked("related_to", "alike"),
    })  # fmt: skip
    ran = house.run(JOB, judge)
    assert (ran.applied, judge.calls) == (1, [3])
    assert edges(house, ids) == {"B depends_on A", "C related_to B"}
    said = house.git("show", "-s", "--format=%B")
    assert f"B ({ids['B'][:8]}) depends_on A ({ids['A'][:8]}): similarity 0." in said
    assert "; B needs A" in said
    assert "Judged by scripted." in said
    assert house.until_nothing_is_left(JOB, judge)[0].proposals == 0
    assert house.run(JOB).proposals == 0, "and what was judged is not linked for nearness"
    assert judge.calls == [3]
    house.undo(ran.commits[0])
    house.update(ids["A"], confidence=0.5)
    assert house.until_nothing_is_left(JOB, judge)[0].proposals == 0
    assert (edges(house, ids), judge.calls) == (set(), [3])


def test_a_judge_types_what_was_linked_for_nearness(house: JobsHouse) -> None:
    ids = store(house, boat("A", "two"), boat("B", "three"), boat("C", "four"))
    house.run(JOB)
    assert edges(house, ids) == {"B related_to A", "C related_to A", "C related_to B"}
    judge = Links(says={"B A": Linked("supports", "it does"), "C A": Linked("none", "no")})
    house.run(JOB, judge)
    assert edges(house, ids) == {"B supports A", "C related_to A", "C related_to B"}
    judge.says["C B"] = Linked("part_of", "it is")
    house.run(JOB, judge)
    assert judge.calls == [3, 1], "only the open one"
    assert edges(house, ids) == {"B supports A", "C related_to A", "C part_of B"}


def test_a_judge_that_is_gone_leaves_everything_open(house: JobsHouse) -> None:
    ids = store(house, boat("A", "two"), boat("B", "three"))

    @dataclass
    class Away(Links):
        def links(self, pairs: Sequence[Group]) -> Sequence[Linked | None]:
            super().links(pairs)
            raise JudgeGone("nobody there")

    ran = house.run(JOB, Away())
    assert (ran.proposals, ran.more, ran.error) == (0, True, None)
    house.run(JOB, Links(says={"B A": Linked("supports", "yes")}))
    assert edges(house, ids) == {"B supports A"}


def test_hostile_answers_harm_nothing(house: JobsHouse) -> None:
    ids = store(house, *(boat(f"N{at}", f"{at} white") for at in range(8)))
    judge = ScriptedJudge(faults=Faults(malformed=0.7, wrong=0.2))
    for _ in range(6):
        judge.seed += 1
        ran = house.run(JOB, judge)
        assert ran.error is None
    assert {one.split()[1] for one in edges(house, ids)} <= {"supports", "part_of", "depends_on", "related_to"}
    for node_id in ids.values():
        data = house.data(node_id)
        assert len(data) < 10_000
        assert SECRET.encode() not in data
    assert SECRET not in house.git("log", "--format=%B")
    assert "\ufffd" not in house.git("log", "--format=%s")
    assert house.ormah.verify() == []


# For two-phase maintenance
