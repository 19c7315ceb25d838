"""The job that finds duplicates: given these memories, these merges and proposals (the wired whole, real git)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from ormahd.actions.amend import Caller
from ormahd.actions.connect import connect
from ormahd.actions.looking_back import merges
from ormahd.actions.outdated import outdated
from ormahd.api import ConnectParams, MergesParams, OutdatedParams
from ormahd.jobs.conflicts import job as conflict_detector
from ormahd.jobs.duplicates import job as duplicates
from ormahd.jobs.duplicates.change import from_payload
from ormahd.jobs.duplicates.job import DuplicateMerger
from ormahd.jobs.proposals import Proposals
from ormahd.judge.port import Duplicate, Group, JudgeGone
from ormahd.model.node import EdgeType, NodeType, ProposalType
from ormahd.state import proposals as book
from tests.jobs_house import AGENT, JobsHouse, open_jobs_house
from tests.jobs_judge import SECRET, ScriptedJudge
from tests.tables import rows

JOB = DuplicateMerger()


@dataclass
class Judge(ScriptedJudge):
    """Answers what the test says; `asked_about` has the pairs."""

    says: Callable[[Group], Duplicate | None] = lambda _: None
    asked_about: list[Group] = field(default_factory=list)

    def duplicates(self, pairs: Sequence[Group]) -> Sequence[Duplicate | None]:
        self.asked_about += pairs
        return [self.says(pair) for pair in pairs]


def proposals(house: JobsHouse) -> list[book.StoredProposal]:
    return book.rows(house.ormah.state, (book.PENDING,))


def two(house: JobsHouse, one: str, other: str, **more: object) -> tuple[str, str]:
    given = {"space": "x", "title": "Same title here"} | more
    return house.remember(one, **given), house.remember(other, **given)


DEPLOY = "Deployments of the shop are made by the release script and never by hand"


@pytest.mark.parametrize(("one", "other", "merged", "asked"), rows(__file__, "without_a_judge"))
def test_without_a_judge(house: JobsHouse, one: str, other: str, merged: int, asked: int) -> None:
    two(house, one, other)
    head, tree = house.head, house.tree
    dry = house.run(JOB, dry=True)
    assert (len(dry.planned), house.head, house.tree, proposals(house)) == (merged + asked, head, tree, [])
    runs = house.until_nothing_is_left(JOB)
    assert (sum(ran.applied for ran in runs), sum(ran.asked for ran in runs)) == (merged, asked)
    assert house.git("rev-list", "--count", f"{head}..HEAD") == str(merged)
    assert len(proposals(house)) == asked
    if merged:
        said = house.git("show", "-s", "--format=%B", "HEAD")
        assert said.startswith(
            "Merge: two memories of “Same title here” became one\n\nThey say the same: the same words"
        )
        assert "composite " in said
        assert "Ormah-Source: job:duplicate_merger\n" in said
    assert house.ormah.verify() == []


def test_nothing_is_merged_without_a_person_who_wants_that() -> None:
    with open_jobs_house(**{"merging.by_itself": False}) as house:
        two(house, f"{DEPLOY}.", DEPLOY)
        ran = house.run(JOB)
        assert (ran.applied, ran.asked) == (0, 1)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"space": "x"}, {"space": "y"}),
        ({"space": "x"}, {"space": None}),
        ({"type": NodeType.FACT}, {"type": NodeType.PREFERENCE}),
        ({"title": "Staging"}, {"title": "Production"}),
    ],
)  # fmt: skip
def test_what_is_told_of_two_things_is_left_alone(house: JobsHouse, first: dict, second: dict) -> None:
    house.remember(f"{DEPLOY}.", **({"space": "x", "title": "Deploys"} | first))
    house.remember(DEPLOY, **({"space": "x", "title": "Deploys"} | second))
    assert house.run(JOB).applied == 0


def test_events_of_two_days_are_a_persons_to_decide(house: JobsHouse) -> None:
    house.remember("The whole shop was down for an hour.", type=NodeType.EVENT, title="Shop down")
    house.go(days=3)
    house.remember("The whole shop was down for an hour", type=NodeType.EVENT, title="Shop down")
    ran = house.run(JOB)
    assert (ran.applied, ran.asked) == (0, 1)


def test_outdated_and_opposed_memories_are_left_alone(house: JobsHouse) -> None:
    one, _ = two(house, f"{DEPLOY}.", DEPLOY)
    outdated(house.ormah, OutdatedParams(node_id=one, reason="no more"), AGENT)
    a, b = two(house, "The garden is watered by a pump each morning", "The garden is watered by a pump, each morning")
    connect(house.ormah, ConnectParams(source_id=a, target_id=b, edge=EdgeType.CONTRADICTS, weight=0.5), AGENT)
    assert house.run(JOB).planned == []


def test_many_tellings_become_one(house: JobsHouse) -> None:
    ids = [house.remember(DEPLOY + "!" * number, title="Deploys", space="x") for number in range(5)]
    dry = house.run(JOB, dry=True)
    assert len(dry.planned) == 4
    ran = house.run(JOB)
    assert ran.applied == 4
    assert [row.id for row in house.ormah.index.notes(ids).values()] == [ids[4]], "the longest, then the latest"
    assert house.run(JOB).planned == []


def test_an_undone_merge_is_not_made_again(house: JobsHouse) -> None:
    one, other = two(house, f"{DEPLOY}.", DEPLOY)
    house.run(JOB)
    (row,) = merges(house.ormah, MergesParams(limit=1)).merges
    house.undo(row.id)
    assert house.run(JOB).planned == []
    with house.ormah.state.transaction() as db:  # what was looked at may be lost
        db.execute("DELETE FROM looked")
        db.execute("DELETE FROM verdict")
    assert house.run(JOB).planned == []
    house.update(one, content=f"{DEPLOY}!!")
    assert house.run(JOB).planned == []
    assert {one, other} <= set(house.ormah.index.ids())


def test_the_preview_loses_nothing_and_is_what_approval_makes(house: JobsHouse) -> None:
    one, other = two(
        house, "The docs are built with pandoc and node on the build machine. It takes an hour.",
        "To build the docs pandoc and node are on the build machine. It takes an hour", tags=["docs"],
    )  # fmt: skip
    house.run(JOB)
    (row,) = proposals(house)
    assert (row.type, set(row.nodes)) == (ProposalType.MERGE, {one, other})
    assert row.action == "Merge two memories of “Same title here”"
    assert set(row.evidence) == {"composite", "cosine", "title", "words"}
    assert "Same title here\ntags: docs\n\n" in row.preview
    once = [words in row.preview for words in ("To build the docs", "are built with pandoc")]
    assert once.count(True) == 1, "what both say in other words stands there once"
    assert row.preview.count("It takes an hour") == 1
    Proposals(house.ormah, {ProposalType.MERGE: from_payload}).resolve(row.id, "approved", Caller("person"))
    kept = house.row(row.nodes[0])
    assert kept.content == row.preview.split("\n\n", 1)[1]
    assert house.run(JOB).planned == []


def test_a_family_is_asked_about_once_at_a_time(house: JobsHouse) -> None:
    words = ["are built with", "get built by", "can be built with", "have been built by"]
    for said in words:
        house.remember(f"The docs of the shop {said} pandoc and node on the build machine at night by the script", title="Docs", space="x")  # fmt: skip
    house.run(JOB)
    nodes = [node for row in proposals(house) for node in row.nodes]
    assert len(nodes) == len(set(nodes)) >= 2


def test_a_series_is_no_family_of_duplicates(house: JobsHouse) -> None:
    for name in ("alpha", "beta", "gamma", "delta"):
        house.remember(f"The machine {name} stands in the cellar and serves the files of the office", title=f"Machine {name}", space="x")  # fmt: skip
    assert house.run(JOB).planned == []


# ---------------------------------------------------------------- with a judge

ALIKE = (f"{DEPLOY} at 9 in the morning", f"{DEPLOY} at 9 in the early morning")
"""Composite above 0.85, and not the same words."""


def says(same: bool, content: str | None = None, title: str | None = None) -> Callable[[Group], Duplicate]:
    return lambda _: Duplicate(same, title, content, "the judge's reason")


def test_a_yes_merges_with_the_judges_text(house: JobsHouse) -> None:
    two(house, *ALIKE)
    judge = Judge(
        says=says(True, "The shop is deployed by script at 9 in the early morning, never by hand.", "Deploys")
    )
    ran = house.run(JOB, judge)
    assert (ran.applied, len(judge.asked_about)) == (1, 1)
    (row,) = merges(house.ormah, MergesParams(limit=1)).merges
    assert row.kept is not None
    assert house.row(row.kept).content == "The shop is deployed by script at 9 in the early morning, never by hand."
    assert house.row(row.kept).title == "Deploys"
    assert "judged to say the same by the judge (scripted): the judge's reason" in row.reason
    assert house.run(JOB, judge).planned == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (" \n", "it is empty"),
        ("x" * 1_000_000, "1,000,000 characters"),
        (f"Deployed at 9 with {SECRET}", "a secret"),
        ("The shop is deployed by script in the early morning, never by hand.", "leaves out 9"),
        ("Deployed at 9\n<<<<<<< a\nx\n=======\ny\n>>>>>>> b\n", "conflict markers"),
        ("Deployed at 9 \x00", "NUL"),
    ],
)  # fmt: skip
def test_a_text_that_cannot_stand_is_proposed_without_it(house: JobsHouse, text: str, why: str) -> None:
    two(house, *ALIKE)
    ran = house.run(JOB, Judge(says=says(True, text)))
    assert (ran.applied, ran.asked, ran.error) == (0, 1, None)
    (row,) = proposals(house)
    assert why in row.reason
    assert "early morning" in row.preview
    assert text.strip() not in row.preview or not text.strip()
    assert SECRET.encode() not in b"".join(path.read_bytes() for path in house.home.rglob("*") if path.is_file())


def test_a_no_is_remembered_also_from_an_agent(house: JobsHouse) -> None:
    two(house, *ALIKE)
    judge = Judge(says=says(False))
    assert house.run(JOB, judge).planned == []
    assert len(judge.asked_about) == 1
    assert house.run(JOB, judge).planned == []
    assert house.run(JOB).planned == [], "nor is a person asked then"
    assert len(judge.asked_about) == 1


def test_below_the_threshold_a_yes_is_a_proposal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ormahd.jobs.duplicates.job.MERGE_LIKENESS", 1.0)
    with open_jobs_house() as house:
        two(house, *ALIKE)
        ran = house.run(JOB, Judge(says=says(True, "The script deploys the shop at 9.")))
        assert (ran.applied, ran.asked) == (0, 1)
        assert "The script deploys the shop at 9." in proposals(house)[0].preview


def test_an_open_answer_and_a_judge_that_is_gone_are_asked_again(house: JobsHouse) -> None:
    two(house, *ALIKE)
    judge = Judge(says=lambda _: None)
    assert house.run(JOB, judge).planned == []

    def gone(_: Group) -> None:
        raise JudgeGone

    judge.says = gone
    ran = house.run(JOB, judge)
    assert (ran.planned, ran.error) == ([], None)
    judge.says = says(True)
    assert house.run(JOB, judge).applied == 1
    assert len(judge.asked_about) == 3


PARTED = (
    ("Node 18 is required for the web build of the shop.", "Node 22 is required for the web build of the shop."),
    ("The API of the shop listens on port 8080 in staging.", "The API of the shop listens on port 9090 in staging."),
    ("Deploys of the shop happen on Fridays after lunch.", "Deploys of the shop happen on Tuesdays after lunch."),
    ("Backups of the shop are kept for 30 days.", "Backups of the shop are not kept for 30 days."),
)


def test_an_agent_is_asked_of_changed_facts_whether_they_contradict_and_never_whether_they_say_the_same() -> None:
    with open_jobs_house(**{"linking.similarity": 1.0}) as found:
        pairs = []
        for older, newer in PARTED:
            pairs.append({found.remember(older, space="shop"), found.remember(newer, space="shop")})
        alike = {
            found.remember("Python packages of the shop are installed with uv here.", space="shop"),
            found.remember("In the shop, Python packages are installed with uv.", space="shop"),
        }
        to_merge = [set(pair.ids) for pair in duplicates.candidates(found.turn(agent=True))]
        assert to_merge == [alike]
        to_judge = [set(pair.ids) for pair in conflict_detector.candidates(found.turn(agent=True))]
        assert [pair for pair in pairs if pair not in to_judge] == []
