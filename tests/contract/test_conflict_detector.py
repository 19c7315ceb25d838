"""The conflict detector through the runner: given these memories, these proposals; with a judge, these edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from ormahd.actions.amend import PERSON, Caller
from ormahd.jobs.conflicts.change import approved_conflict
from ormahd.jobs.conflicts.job import ConflictDetector
from ormahd.jobs.job import apply
from ormahd.judge.port import Contrast, Group, JudgeGone, Task
from ormahd.model.node import EdgeType
from ormahd.state import proposals as book
from tests.contract.conftest import unlinked
from tests.jobs_house import JobsHouse
from tests.jobs_judge import Faults, ScriptedJudge
from tests.tables import rows

JOB = ConflictDetector()
FRIDAYS, TUESDAYS = "Deploys of the shop happen on Fridays", "Deploys of the shop happen on Tuesdays"


house = unlinked


@dataclass
class Says:
    """A judge with one answer for all. `asked`: the pairs, in order."""

    verdict: Contrast | None
    asked: list[frozenset[str]] = field(default_factory=list)
    gone: bool = False
    name: str = "oracle"

    def answer(self, task: Task, groups: Sequence[Group]) -> Sequence[Contrast | None]:
        assert task.name == "conflict"
        if self.gone:
            raise JudgeGone
        self.asked += [frozenset(one.id for one in pair) for pair in groups]
        return [self.verdict] * len(groups)


EVOLVED, TENSE, NONE = Contrast("evolution", "it moved"), Contrast("tension", "both"), Contrast("none", "no")


def two(house: JobsHouse, days: float = 10, **more: object) -> tuple[str, str]:
    """(newer, older)."""
    older = house.remember(FRIDAYS, **({"space": "shop"} | more))
    house.go(days=days)
    return house.remember(TUESDAYS, space="shop"), older


def pending(house: JobsHouse) -> list[tuple[str, frozenset[str]]]:
    listed = house.runner([JOB]).proposals.list()
    kept = [book.find(house.ormah.state, one.id) for one in listed.proposals]
    return [(one.payload["kind"], frozenset(one.nodes)) for one in kept]


# ---------------------------------------------------------------- without a judge


@pytest.mark.parametrize(("one", "other", "days", "proposed"), rows(__file__, "what_is_proposed"))
def test_what_is_proposed(
    house: JobsHouse, one: dict[str, object], other: dict[str, object], days: float, proposed: str | None
) -> None:
    a = house.remember(**one)  # type: ignore[arg-type]
    house.go(days=days)
    b = house.remember(**other)  # type: ignore[arg-type]
    head = house.head
    house.run(JOB)
    assert pending(house) == ([(proposed, frozenset((a, b)))] if proposed else [])
    assert house.head == head, "a proposal changes nothing"


def test_a_proposal_shows_what_a_person_needs_to_decide(house: JobsHouse) -> None:
    newer, older = two(house)
    ran = house.run(JOB)
    assert (ran.proposals, ran.applied, ran.commits) == (1, 0, [])
    (shown,) = house.runner([JOB]).proposals.list().proposals
    row = shown
    assert row.proposed_action == f"Mark “{FRIDAYS}” as superseded by “{TUESDAYS}”"
    assert row.reason == (
        f"the newer one seems to replace the older one (Fridays → Tuesdays): before “{FRIDAYS}”, now “{TUESDAYS}”"
    )
    assert row.source_nodes == [newer, older]
    assert row.preview.index(TUESDAYS) < row.preview.index(FRIDAYS)
    assert "2026-11-21" in row.preview
    assert "2026-12-01" in row.preview


def test_it_is_asked_once_and_one_more_run_proposes_nothing(house: JobsHouse) -> None:
    two(house)
    runs = house.until_nothing_is_left(JOB)
    assert [ran.proposals for ran in runs] == [1, 0]
    with house.ormah.state.transaction() as db:
        db.execute("DELETE FROM looked")
    assert house.run(JOB).proposals == 0


def test_a_changed_memory_is_a_new_question(house: JobsHouse) -> None:
    newer, _ = two(house)
    house.run(JOB)
    house.update(newer, content="Deploys of the shop happen on Mondays")
    assert house.run(JOB).proposals == 1
    house.update(newer, tags=["later"])
    assert house.run(JOB).proposals == 0


def test_who_is_outdated_already_or_connected_is_left_alone(house: JobsHouse) -> None:
    newer, older = two(house)
    house.update(older, valid_until=house.ormah.moment())
    house.go(seconds=1)
    assert house.run(JOB).proposals == 0
    house.update(older, valid_until=None)
    change = approved_conflict(
        house.ormah, {"kind": "tension", "source_id": newer, "target_id": older, "reason": "seen"}
    )
    assert change.edits()
    runner = house.runner([JOB])
    assert apply(house.ormah, change, Caller(PERSON), run=None) is not None
    assert runner.run([JOB.name])[0].proposals == 0


def test_a_series_is_no_conflict(house: JobsHouse) -> None:
    for number in (10, 20, 30, 40, 50):
        house.remember(f"The limit of the bucket is {number} percent", space="shop")
    assert house.run(JOB).proposals == 0
    assert house.run(JOB).proposals == 0


# ---------------------------------------------------------------- with a judge


def test_a_verdict_is_one_commit_and_is_remembered(house: JobsHouse) -> None:
    newer, older = two(house)
    judge = Says(EVOLVED)
    head = house.head
    ran = house.run(JOB, judge)
    assert (ran.proposals, ran.applied, len(ran.commits)) == (1, 1, 1)
    assert house.git("rev-list", "--count", f"{head}..HEAD") == "1"
    said = house.git("show", "-s", "--format=%an%n%B")
    assert said.startswith(f"job:conflict_detector\nSuperseded: {FRIDAYS}, by: {TUESDAYS}\n\nit moved\n")
    assert "Judged by oracle: evolution (cosine 0." in said
    assert "Ormah-Kind: conflict\nOrmah-Source: job:conflict_detector\nOrmah-Run: " in said
    (edge,) = house.ormah.index.edges(newer)[0]
    assert (edge.edge, edge.target, edge.reason) == (EdgeType.EVOLVED_FROM, older, "it moved")
    assert house.run(JOB, judge).proposals == 0
    assert judge.asked == [frozenset((newer, older))]


def test_the_dates_say_which_is_the_newer_one(house: JobsHouse) -> None:
    newer, older = two(house)
    house.run(JOB, Says(Contrast("evolution", "the second one came first")))
    assert house.row(older).valid_until is not None
    assert house.row(newer).valid_until is None


@pytest.mark.parametrize("answer", [TENSE, NONE])
def test_a_tension_is_drawn_and_a_no_is_remembered(house: JobsHouse, answer: Contrast) -> None:
    newer, older = two(house)
    judge = Says(answer)
    runs = house.until_nothing_is_left(JOB, judge)
    drawn = [(edge.edge, edge.source, edge.target) for edge in house.ormah.index.edges_of([newer])]
    assert drawn == ([(EdgeType.CONTRADICTS, newer, older)] if answer is TENSE else [])
    assert len(judge.asked) == 1
    assert sum(len(ran.commits) for ran in runs) == len(drawn)
    assert house.run(JOB).proposals == 0, "what a judge denied the rule does not propose"


def test_undone_by_a_person_it_stays_undone(house: JobsHouse) -> None:
    _, older = two(house)
    judge = Says(EVOLVED)
    tree = house.tree
    house.run(JOB, judge)
    house.revert()
    assert house.tree == tree
    assert house.run(JOB, judge).proposals == 0
    assert house.row(older).valid_until is None


def test_an_open_question_is_asked_again_another_day(house: JobsHouse) -> None:
    two(house)
    silent, gone = Says(None), Says(EVOLVED, gone=True)
    for judge in (silent, silent, gone):
        ran = house.run(JOB, judge)
        assert (ran.proposals, ran.error) == (0, None)
    assert len(silent.asked) == 2
    assert house.run(JOB, Says(EVOLVED)).applied == 1


def test_of_three_each_is_superseded_once(house: JobsHouse) -> None:
    ids = []
    for day in ("Fridays", "Tuesdays", "Mondays"):
        ids.append(house.remember(f"Deploys of the shop happen on {day}", space="shop"))
        house.go(days=5)
    house.until_nothing_is_left(JOB, Says(EVOLVED))
    assert house.found("deploys of the shop") == [ids[2]]
    assert house.ormah.verify() == []


def test_who_the_user_is_a_person_decides(house: JobsHouse) -> None:
    older = house.remember("Lives in Dublin with a cat", about_self=True)
    house.go(days=10)
    newer = house.remember("Lives in Berlin with a cat")
    ran = house.run(JOB, Says(EVOLVED))
    assert (ran.applied, ran.proposals) == (0, 1)
    assert pending(house) == [("evolution", frozenset((newer, older)))]
    assert house.row(older).valid_until is None


def test_the_self_node_is_in_conflict_with_nothing(house: JobsHouse) -> None:
    me = house.row(house.ormah.vault.self_id)
    house.update(me.id, type="fact", content=FRIDAYS)
    house.go(days=3)
    house.remember(TUESDAYS)
    judge = Says(EVOLVED)
    assert house.run(JOB).proposals == 0
    assert house.run(JOB, judge).proposals == 0
    assert judge.asked == []


@pytest.mark.parametrize("seed", range(3))
def test_whatever_a_judge_does_the_vault_stays_whole(house: JobsHouse, seed: int) -> None:
    ids = []
    for thing in ("anchor", "bottle", "candle", "drawer"):
        for port in (8080, 9090, 7070):
            ids.append(house.remember(f"The {thing} service listens on port {port}", space="shop"))
            house.go(days=2)
    judge = ScriptedJudge(seed, Faults(wrong=0.3, malformed=0.3, open=0.2, gone=0.1))
    for _ in range(4):
        ran = house.run(JOB, judge)
        assert ran.error is None
    assert set(house.ormah.index.notes(ids)) == set(ids), "nothing is deleted"
    assert house.ormah.verify() == []
    assert "ghp_" not in house.git("log", "-p")
    for edge in house.ormah.index.edges_of(ids):
        if edge.edge is EdgeType.EVOLVED_FROM:
            assert house.row(edge.source).created > house.row(edge.target).created
    subjects = house.git("log", "--format=%s", "--grep=Ormah-Kind: conflict").splitlines()
    assert all(subject.startswith(("Superseded: ", "Contradiction: ")) for subject in subjects)
