"""What the linker draws: given these memories, these edges; once, within limits, and so that it can be taken back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from ormahd.actions.transfer import import_lines
from ormahd.jobs.job import PlannedChange
from ormahd.jobs.links import job as auto_linker
from ormahd.jobs.links.job import FEW, AutoLinker, candidates
from ormahd.jobs.neighbours import NearMemories
from ormahd.judge.port import JudgeGone, Linked, Pair
from ormahd.model.node import EdgeType
from tests.jobs_house import AGENT, JobsHouse, open_jobs_house
from tests.jobs_judge import SECRET, Faults, ScriptedJudge

JOB = AutoLinker()
BOAT = "the blue boat in the old harbour has {} sails and one mast"
"""Two of these are near: 11 of 12 words are the same."""


@pytest.fixture
def house() -> Iterator[JobsHouse]:
    with open_jobs_house() as found:
        yield found


@dataclass
class Links(ScriptedJudge):
    """Says of each pair what the test says; the rest is open."""

    says: dict[str, Linked | None] = field(default_factory=dict)
    calls: list[int] = field(default_factory=list)

    def links(self, pairs: Sequence[Pair]) -> Sequence[Linked | None]:
        self.calls.append(len(pairs))
        return [self.says.get(f"{pair.a.title} {pair.b.title}") for pair in pairs]


def store(house: JobsHouse, *memories: dict[str, Any]) -> dict[str, str]:
    """Imported, so that nothing is linked on the way in: title to id. Each is a minute younger than the one before."""
    lines = []
    for at, memory in enumerate(memories):
        lines.append(json.dumps({"created": f"2026-11-0{1 + at // 60}T10:{at % 60:02}:00Z", **memory}))
    done = import_lines(house.ormah, lines, AGENT)
    assert not done.failed, done.failed
    rows = house.ormah.index.notes(house.ormah.index.ids(), connections=False)
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


@pytest.mark.parametrize(
    ("memories", "expected"),
    [
        ([], set()),
        ([boat("A", "two")], set()),
        ([boat("A", "two"), BREAD], set()),
        ([boat("A", "two"), boat("B", "three"), BREAD], {"B related_to A"}),
        ([boat("A", "two", space="sea"), boat("B", "three", space="sea")], {"B related_to A"}),
        ([boat("A", "two", space="sea"), boat("B", "three")], {"B related_to A"}),
        ([boat("A", "two"), {"title": "B", "content": "the blue boat in the old harbour was sold last year to him"}], set()),
        ([boat("A", "two", tier="archival"), boat("B", "three")], set()),
        ([boat("A", "two", valid_until="2026-11-20"), boat("B", "three")], set()),
        ([boat("A", "two", type="preference", about_self=True), boat("B", "three", tier="core")], {"B related_to A"}),
        ([boat("A", "two", connections=[{"target": "B", "edge": "contradicts"}]), boat("B", "three")], {"A contradicts B"}),
        ([boat("A", "two"), boat("B", "three", connections=[{"target": "A", "edge": "part_of"}])], {"B part_of A"}),
    ],
)  # fmt: skip
def test_given_these_memories_these_edges(house: JobsHouse, memories: list[dict[str, Any]], expected: set[str]) -> None:
    wished = [
        (memory["title"], one["target"], one["edge"]) for memory in memories for one in memory.pop("connections", ())
    ]
    ids = store(house, *memories)
    for source, target, edge in wished:
        path = house.path(ids[source])
        house.type_into(ids[source], "---\n", f'---\n{edge}: ["[[{house.path(ids[target]).stem}]]"]\n')
        assert path.exists()
    assert house.until_nothing_is_left(JOB)[-1].skipped == 0
    assert edges(house, ids) == expected


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


def test_a_dry_run_changes_nothing(house: JobsHouse) -> None:
    store(house, boat("A", "two"), boat("B", "three"))
    head, tree = house.head, house.tree
    assert house.run(JOB, dry=True).planned == ["Link 1 pair of memories"]
    judge = ScriptedJudge()
    assert house.run(JOB, judge, dry=True).planned == ["Link 1 pair of memories"]
    assert (house.head, house.tree) == (head, tree)
    assert house.run(JOB, judge).applied == 1, "and it was not taken for looked at"


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


def test_more_than_a_run_may_draw_waits_for_the_next(house: JobsHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_linker, "MOST", 4)
    ids = store(house, *(
        {"title": f"{word}{at}", "content": f"{word} {word}s {word}ing about {word}land {word}er number {at}"}
        for word in ("boat", "goat", "moat", "coat", "float", "throat", "oat") for at in range(2)
    ))  # fmt: skip
    runs = house.until_nothing_is_left(JOB)
    assert [ran.more for ran in runs] == [True, False, False]
    assert all(len(ran.commits) == 1 for ran in runs[:-1])
    assert len(edges(house, ids)) == 7


def test_a_limit_below_what_there_is(house: JobsHouse) -> None:
    store(house, *(boat(f"N{at}", f"{at} white") for at in range(10)))
    (change, *_) = JOB.plan(house.turn(limit=5))
    assert isinstance(change, PlannedChange)
    assert change.weight <= 5


def test_a_note_under_a_persons_hands_waits_and_the_rest_is_linked(house: JobsHouse) -> None:
    ids = boats_and_bread(house)
    path = house.path(ids["B"])
    path.write_text(path.read_text() + "And")
    ran = house.run(JOB)
    assert (ran.applied, ran.skipped) == (1, 1)
    assert edges(house, ids) == {"Rye related_to Bread"}
    house.ormah.reconciler.scan()
    house.run(JOB)
    assert edges(house, ids) == {"Rye related_to Bread", "B related_to A"}


def test_undone_by_command_it_stays_undone(house: JobsHouse) -> None:
    ids = boats_and_bread(house)
    before = house.tree
    ran = house.run(JOB)
    assert len(edges(house, ids)) == 2
    house.undo(ran.commits[0], node_id=ids["Rye"])
    assert edges(house, ids) == {"B related_to A"}
    house.undo(ran.commits[0])
    assert house.tree == before
    assert house.until_nothing_is_left(JOB)[0].proposals == 0


@pytest.mark.parametrize("by_hand", [False, True])
def test_undone_under_later_edits(house: JobsHouse, by_hand: bool) -> None:
    ids = store(house, boat("A", "two"), boat("B", "three"), BREAD)
    before = house.data(ids["B"])
    (commit,) = house.run(JOB).commits
    house.type_into(ids["B"], "the blue boat", "the big blue boat")
    house.type_into(ids["A"], "confidence: 1.0\n", "confidence: 1.0\nmood: mine\n")
    if by_hand:
        house.revert(commit)
    else:
        house.undo(commit)
    assert edges(house, ids) == set()
    assert house.data(ids["B"]) == before.replace(b"the blue boat", b"the big blue boat")
    assert b"mood: mine\n" in house.data(ids["A"])


# With a judge


def test_a_judge_gives_types_or_nothing_and_is_asked_once(house: JobsHouse) -> None:
    ids = store(house, boat("A", "two"), boat("B", "three"), boat("C", "four"))
    judge = Links(says={
        "B A": Linked(EdgeType.DEPENDS_ON, "B needs A"), "C A": Linked(None, "no"), "C B": Linked(EdgeType.RELATED_TO, "alike"),
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
    judge = Links(says={"B A": Linked(EdgeType.SUPPORTS, "it does"), "C A": Linked(None, "no")})
    house.run(JOB, judge)
    assert edges(house, ids) == {"B supports A", "C related_to A", "C related_to B"}
    judge.says["C B"] = Linked(EdgeType.PART_OF, "it is")
    house.run(JOB, judge)
    assert judge.calls == [3, 1], "only the open one"
    assert edges(house, ids) == {"B supports A", "C related_to A", "C part_of B"}


def test_a_judge_that_is_gone_leaves_everything_open(house: JobsHouse) -> None:
    ids = store(house, boat("A", "two"), boat("B", "three"))

    @dataclass
    class Away(Links):
        def links(self, pairs: Sequence[Pair]) -> Sequence[Linked | None]:
            super().links(pairs)
            raise JudgeGone("nobody there")

    ran = house.run(JOB, Away())
    assert (ran.proposals, ran.more, ran.error) == (0, True, None)
    house.run(JOB, Links(says={"B A": Linked(EdgeType.SUPPORTS, "yes")}))
    assert edges(house, ids) == {"B supports A"}


def test_a_judges_budget() -> None:
    with open_jobs_house() as house:
        house.questions = 3
        ids = store(house, *(
            {"title": f"{word}{at}", "content": f"{word} {word}s {word}ing about {word}land {word}er number {at}"}
            for word in ("boat", "goat", "moat", "coat", "float") for at in range(2)
        ))  # fmt: skip
        judge = Links(
            says={
                f"{word}1 {word}0": Linked(EdgeType.SUPPORTS, "") for word in ("boat", "goat", "moat", "coat", "float")
            }
        )
        runs = house.until_nothing_is_left(JOB, judge)
        assert judge.calls == [3, 2]
        assert runs[0].more
        assert len(edges(house, ids)) == 5


def test_a_budget_below_what_one_memory_asks() -> None:
    with open_jobs_house() as house:
        house.questions = 1
        ids = store(house, boat("A", "two"), boat("B", "three"), boat("C", "four"))
        yes = Linked(EdgeType.SUPPORTS, "")
        house.until_nothing_is_left(JOB, Links(says={"C A": yes, "C B": yes, "B A": yes}))
        assert edges(house, ids) == {"C supports A", "C supports B", "B supports A"}


def test_an_answer_whose_note_was_being_edited_is_kept(house: JobsHouse) -> None:
    ids = store(house, boat("A", "two"), boat("B", "three"))
    judge = Links(says={"B A": Linked(EdgeType.SUPPORTS, "yes")})
    path = house.path(ids["A"])
    text = path.read_bytes()
    path.write_bytes(text + b"And")
    assert house.run(JOB, judge).skipped == 1
    path.write_bytes(text)
    house.ormah.reconciler.scan()
    assert house.run(JOB, judge).applied == 1
    assert (edges(house, ids), judge.calls) == ({"B supports A"}, [1])


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
    assert house.ormah.index.verify(None) == []


# For two-phase maintenance


def test_candidates_are_what_nobody_was_asked_about(house: JobsHouse) -> None:
    store(house, boat("A", "two"), boat("B", "three"), BREAD)
    (pair,) = candidates(house.turn())
    assert (pair.a.title, pair.b.title) == ("B", "A")
    assert 0.65 <= pair.score <= 1
    assert len(list(candidates(house.turn()))) == 1, "asking is not answering"
    house.run(JOB, Links(says={"B A": Linked(None, "no")}))
    assert list(candidates(house.turn())) == []


def test_neighbours_searched_together_are_those_searched_alone(house: JobsHouse) -> None:
    ids = list(store(house, BREAD, *(boat(f"N{at}", f"{at} white") for at in range(40))).values())
    together, alone = NearMemories(house.ormah.index), NearMemories(house.ormah.index)
    together.ahead(ids)
    for node_id in ids:
        assert together.of(node_id) == alone.of(node_id)
        assert together.of(node_id)
