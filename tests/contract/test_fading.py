"""Fading: what leaves working, what stays, in whose words, and how it is taken back."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest

from ormahd.actions.amend import Caller
from ormahd.actions.recall import search
from ormahd.actions.transfer import import_lines
from ormahd.api import ImportParams
from ormahd.jobs.decay.job import DecayManager, ImportanceScorer
from ormahd.jobs.job import Edit, PlannedChange, apply
from ormahd.model import strength
from ormahd.model.change import Kind
from ormahd.model.node import EdgeType, LinkRequest, NodeType, SearchQuery, Tier
from ormahd.note.edit import edit
from ormahd.note.read import digest
from ormahd.note.values import NoteLink
from tests.contract.fading_notes import busy_house, fact, opened, spread, tier
from tests.jobs_house import AGENT, JobsHouse, open_jobs_house
from tests.tables import rows

JOB = Caller("job:auto_linker")
house = busy_house


def other(house: JobsHouse) -> str:
    return house.remember("A kettle, blue and old.", title="Kettle", tier=Tier.CORE)


def by_job(house: JobsHouse, kind: Kind, node_id: str, **how: object) -> None:
    """What a job does to a note: like every change of ours it writes `updated`."""

    def edits() -> list[Edit]:
        path, data = house.row(node_id).path, house.data(node_id)
        new = edit(data, path, **({"set": {"updated": house.ormah.moment()}} | how))  # type: ignore[arg-type]
        return [Edit(node_id, path, new, digest(data))]

    assert apply(house.ormah, PlannedChange(kind, "A thing of the night", "why", edits, {}), JOB, run=None) is not None


# What fades, and what stays


def unused(house: JobsHouse) -> str:
    return fact(house)


def opened_on_day_10(house: JobsHouse) -> str:
    node_id = fact(house)
    house.go(days=10)
    opened(house, node_id)
    house.go(days=-10)
    return node_id


def judged_useful_on_day_10(house: JobsHouse) -> str:
    node_id = fact(house)
    house.ormah.state.touch([node_id], how="feedback", session_id=None, at=house.now + timedelta(days=10))
    return node_id


def recalled_on_day_10(house: JobsHouse) -> str:
    """Among the first of a recall: a weak use."""
    node_id = fact(house)
    house.ormah.state.glance([node_id], how="recall", session_id="s", at=house.now + timedelta(days=10))
    return node_id


def recalled_every_day(house: JobsHouse) -> str:
    node_id = fact(house)
    for day in range(14):
        house.ormah.state.glance([node_id], how="recall", session_id="s", at=house.now + timedelta(days=day))
    return node_id


def changed_by_an_agent(house: JobsHouse) -> str:
    node_id = fact(house)
    house.go(days=10)
    house.update(node_id, confidence=0.8)
    house.go(days=-10)
    return node_id


def changed_by_a_person(house: JobsHouse) -> str:
    node_id = fact(house)
    house.go(days=10)
    house.type_into(node_id, "third floor", "fourth floor")
    house.go(days=-10)
    return node_id


def dated_back_by_a_person(house: JobsHouse) -> str:
    """Edited on day 10, and the edit says that nothing happened since."""
    node_id = fact(house)
    house.go(days=10)
    day = f"{house.row(node_id).created:%Y-%m-%d}"
    text = house.data(node_id).decode()
    house.type_into(
        node_id,
        text,
        text.replace(f"created: {day}", "created: 2026-10-01").replace(f"updated: {day}", "updated: 2026-10-01"),
    )
    house.go(days=-10)
    return node_id


def imported_with_an_old_date(house: JobsHouse) -> str:
    """Nobody could use it here before it was here."""
    line = {"content": "The printer stood on the second floor.", "created": "2025-01-01T00:00:00Z"}
    import_lines(house.ormah, ImportParams(lines=[json.dumps(line)]), AGENT)
    (node_id,) = house.found("printer second floor", limit=1)
    return node_id


def linked_by_a_job(house: JobsHouse) -> str:
    node_id, target = fact(house), other(house)
    house.go(days=10)
    name = house.path(target).stem
    by_job(house, Kind.LINK, node_id, link=[NoteLink(EdgeType.RELATED_TO, name, 0.7, house.ormah.moment())],
           set={"updated": house.ormah.moment()})  # fmt: skip
    house.go(days=-10)
    return node_id


def merged_by_a_job(house: JobsHouse) -> str:
    """Somebody had said it again: that is why there were two."""
    node_id = fact(house)
    house.go(days=10)
    by_job(house, Kind.MERGE, node_id)
    house.go(days=-10)
    return node_id


def in_core(house: JobsHouse) -> str:
    return fact(house, tier=Tier.CORE)


def preference(house: JobsHouse) -> str:
    return fact(house, type=NodeType.PREFERENCE)


def preference_that_holds_no_more(house: JobsHouse) -> str:
    node_id = preference(house)
    house.update(node_id, valid_until=house.ormah.moment())
    return node_id


def about_the_user(house: JobsHouse) -> str:
    return fact(house, about_self=True)


def defined_by_the_self_node(house: JobsHouse) -> str:
    node_id = fact(house)
    by_job(
        house,
        Kind.LINK,
        house.ormah.vault.self_id,
        link=[NoteLink(EdgeType.DEFINES, house.path(node_id).stem, 1.0, None)],
    )
    return node_id


def the_self_node(house: JobsHouse) -> str:
    house.type_into(house.ormah.vault.self_id, "tier: core", "tier: working")
    return house.ormah.vault.self_id


def important(house: JobsHouse) -> str:
    node_id = fact(house)
    for _ in range(20):
        opened(house, node_id)
    for number in range(8):
        house.remember(f"Note {number} on something else entirely", tier=Tier.CORE,
                       connections=[LinkRequest(target=node_id, edge=EdgeType.SUPPORTS)])  # fmt: skip
    return node_id


@pytest.mark.parametrize(("prepare", "used", "lease", "leaves"), rows(__file__, "what_fades"))
def test_what_fades(house: JobsHouse, prepare: str, used: float, lease: float, leaves: bool) -> None:
    """`lease`: days since day `used`, before they are spread by the memory's id."""
    house.go(days=1)
    begun = house.now
    node_id = globals()[prepare](house)
    house.now = begun + timedelta(days=used + lease * spread(node_id))
    house.run(ImportanceScorer())
    before = tier(house, node_id)
    ran = house.run(DecayManager())
    assert tier(house, node_id) is (Tier.ARCHIVAL if leaves else before), ran
    assert ran.applied == int(leaves), ran
    assert house.run(DecayManager()).proposals == 0


@pytest.mark.parametrize(
    ("kind", "lease"),
    [(NodeType.EVENT, 28), (NodeType.OBSERVATION, 28), (NodeType.FACT, 90), (NodeType.GOAL, 90), (NodeType.DECISION, 180),
     (NodeType.PROCEDURE, 180), (NodeType.PERSON, 180), (NodeType.PROJECT, 180)],
)  # fmt: skip
def test_what_was_decided_lives_for_months_and_what_happened_for_weeks(kind: NodeType, lease: float) -> None:
    """With the defaults, and something asked on every day."""
    with open_jobs_house() as house:
        node_id = fact(house, type=kind)
        begun, days = house.now, lease * spread(node_id)
        for day in range(int(days) + 2):
            house.ormah.state.asked(begun + timedelta(days=day))
        house.now = begun + timedelta(days=days - 1)
        assert house.run(DecayManager()).proposals == 0
        house.now = begun + timedelta(days=days + 1)
        assert house.run(DecayManager()).applied == 1


def test_a_holiday_is_no_reason_to_forget() -> None:
    with open_jobs_house() as house:
        node_id = fact(house, type=NodeType.EVENT)
        search(house.ormah, SearchQuery(query="something else"), space=None)
        house.go(days=200)
        house.run(ImportanceScorer())
        assert house.run(DecayManager()).proposals == 0
        for _ in range(round(28 * spread(node_id)) - 18):
            house.ormah.state.asked(house.now)
            house.go(days=1)
        house.run(ImportanceScorer())
        ran = house.run(DecayManager())
        assert ran.applied == 1
        said = house.git("show", "-s", "--format=%b")
        assert re.match(
            r"Not used for 2\d\d\.\d days, which count (2|3|4)\d\.\d: on the others nothing was asked\. Its lease was",
            said,
        )


def test_active_days_stand_in_the_vault_and_outlive_the_state() -> None:
    """What one machine was asked counts on the other, and after its state is gone."""
    with open_jobs_house() as house:
        fact(house, type=NodeType.EVENT)
        for _ in range(60):
            house.ormah.state.asked(house.now)
            house.go(days=1)
        assert house.run(ImportanceScorer()).applied == 1
        assert house.run(ImportanceScorer()).proposals == 0
        assert len(strength.read_active_days((house.ormah.vault.root / strength.ACTIVE_DAYS_FILE).read_bytes())) == 60
        with house.ormah.state.transaction() as db:
            db.execute("DELETE FROM active_day")
        assert house.run(DecayManager()).applied == 1


def test_once_a_day_and_session_and_not_for_what_is_found_further_down(house: JobsHouse) -> None:
    ids = {house.remember(f"The printer number {number} of the house stands somewhere else") for number in range(5)}
    wish = SearchQuery(query="printer", session_id="one")
    first = [hit.id for hit in search(house.ormah, wish, space=None).results][:3]
    search(house.ormah, wish, space=None)
    assert sorted(node for _, node, _, _ in house.ormah.state.accesses()) == sorted(first)
    assert len(ids) == 5
    search(house.ormah, SearchQuery(query="printer", session_id="other"), space=None)
    assert len(house.ormah.state.accesses()) == 6
    house.go(days=1)
    search(house.ormah, wish, space=None)
    assert len(house.ormah.state.accesses()) == 9


# One commit, and the way back


def test_one_commit_that_a_person_understands(house: JobsHouse) -> None:
    node_id = fact(house)
    house.go(days=22)
    before = house.data(node_id)
    dry = house.run(DecayManager(), dry=True)
    assert (dry.planned, dry.applied, house.data(node_id)) == (["Fade: Printer"], 0, before)
    at = house.head
    ran = house.run(DecayManager())
    assert (ran.proposals, ran.applied, ran.skipped) == (1, 1, 0)
    assert house.git("rev-list", f"{at}..HEAD").split() == ran.commits
    said = house.git("show", "-s", "--format=%an%n%B").splitlines()
    assert said[:3] == ["job:decay_manager", "Fade: Printer", ""]
    assert said[3] == f"Not used for 22.0 days. Its lease was {14 * spread(node_id):.1f} days; importance 0.11."
    assert {"Ormah-Kind: decay", "Ormah-Source: job:decay_manager", f"Ormah-Nodes: {node_id}"} <= set(said)
    assert [line for line in said if line.startswith("Ormah-Run: ")]
    changed = [
        line
        for line in house.git("show", "--format=", "-U0").splitlines()
        if line[0] in "+-" and line[:3] not in ("+++", "---")
    ]
    assert [line for line in changed if "updated" not in line] == ["-tier: working", "+tier: archival"]


@pytest.mark.parametrize("how", ["undo", "revert"])
@pytest.mark.parametrize("later_edit", [False, True])
def test_taken_back_it_is_as_it_was_and_stays(
    house: JobsHouse, monkeypatch: pytest.MonkeyPatch, how: str, later_edit: bool
) -> None:
    node_id = fact(house)
    before = house.data(node_id)
    house.go(days=22)
    (commit,) = house.run(DecayManager()).commits
    house.go(days=2)
    if later_edit:
        house.type_into(node_id, "beside the kitchen", "beside the stairs")
    house.go(days=1)
    if how == "undo":
        house.undo(commit)
    else:
        monkeypatch.setenv("GIT_COMMITTER_DATE", house.now.isoformat())
        house.revert(commit)
    assert house.data(node_id) == before.replace(b"kitchen", b"stairs" if later_edit else b"kitchen")
    assert house.run(DecayManager()).proposals == 0  # who takes it back wants it
    house.go(days=12)
    assert house.run(DecayManager()).proposals == 0
    house.go(days=9.1)
    assert house.run(DecayManager()).applied == 1


def test_what_came_by_hand_has_its_days_from_when_it_came(house: JobsHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """A note that a person drops in, or commits by git, may be old: it is not gone from working the next night."""
    monkeypatch.setenv("GIT_COMMITTER_DATE", house.now.isoformat())
    for name in ("dropped", "committed"):
        folder = house.ormah.vault.root / "global" / "fact"
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{name}.md"
        file.write_text(
            f"---\nid: 0000000{len(name)}-0000-4000-8000-000000000000\ntype: fact\ncreated: 2026-10-01T00:00:00Z\n---\n{name}\n"
        )
        if name == "committed":
            house.git("add", "-A")
            house.git("-c", "user.name=A", "-c", "user.email=a@b.c", "commit", "-q", "-m", "mine")
        house.ormah.reconciler.scan()
    house.go(days=13.9)
    assert house.run(DecayManager()).planned == []
    house.go(days=7.2)
    ran = house.run(DecayManager())
    assert sorted(ran.planned) == ["Fade: committed", "Fade: dropped"]


# The builders
