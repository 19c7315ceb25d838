"""Memories of sessions by rules: made once, whatever happens on the way; refused where they are nothing new; gone for good once taken away."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ormahd import paths
from ormahd.actions.amend import Caller
from ormahd.actions.outdated import forget
from ormahd.actions.purge import purge
from ormahd.actions.remember import store_memory
from ormahd.actions.sessions import sessions
from ormahd.actions.undo import undo
from ormahd.api import ForgetParams, PurgeParams, SessionsParams, UndoParams
from ormahd.ingest.bring_in import archive, ingest
from ormahd.ingest.extraction import Extraction
from ormahd.jobs.memories import propose_learned
from ormahd.jobs.proposals import Proposals
from ormahd.jobs.runner import CHANGES_OF
from ormahd.model.node import CreateNodeRequest
from ormahd.ormah import Ormah
from tests.extraction_house import ID, SAID, contents, opened, transcript
from tests.tables import rows

PERSON = Caller(agent="person")
LATER = datetime(2026, 11, 3, 9, 0, tzinfo=UTC)


@pytest.fixture
def ormah(tmp_path: Path) -> Iterator[Ormah]:
    with opened(tmp_path) as found:
        yield found


def test_what_a_person_says_becomes_memories_once_in_one_commit(ormah: Ormah, tmp_path: Path) -> None:
    archive(ormah, transcript(tmp_path / "t" / f"{ID}.jsonl", [*SAID, "Thanks, that works!", "ok"]))
    assert Extraction(ormah).settle() == len(SAID)
    made = contents(ormah)
    assert len(made) == len(SAID)
    assert any("5433" in one for one in made)
    ops = ormah.history.ops(kinds=["ingest"])
    assert len(ops) == 1
    rows = ormah.index.notes(list(ormah.index.extracted_from())).values()
    assert {row.source for row in rows} == {"session:claude-code"}
    assert {row.created.date().isoformat() for row in rows} == {"2026-11-02"}
    assert {row.space for row in rows if not row.about_self} == {"shop"}
    assert all(row.space is None for row in rows if row.about_self)
    assert all(row.said_in is not None and row.said_in.startswith(f"{ID}#") for row in rows)
    assert Extraction(ormah).settle() == 0
    assert contents(ormah) == made


def test_the_same_set_however_the_session_grows(tmp_path: Path) -> None:
    found = []
    for name, steps in (("whole", [4]), ("by one", [1, 2, 3, 4]), ("halves", [2, 4])):
        with opened(tmp_path / name) as ormah:
            for end in steps:
                archive(ormah, transcript(tmp_path / name / f"{ID}.jsonl", SAID[:end]))
                Extraction(ormah).settle()
            found.append(contents(ormah))
    assert found[0] == found[1] == found[2]


def test_a_file_says_what_was_learned_of_it(ormah: Ormah, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    transcript(folder / f"{ID}.jsonl", SAID)
    other = ID.replace("6f", "7a")
    transcript(
        folder / f"{other}.jsonl",
        [*SAID[:2], "Remember that the shop closes at noon on Fridays."],
        session=other,
        at=LATER,
    )
    extraction = Extraction(ormah)
    came = []
    for name in (ID, other):
        found = ingest(ormah, str(folder / f"{name}.jsonl"), progress=lambda *_: None)
        extraction.read_grown(found.out, found.grown)
        came.append(found.out)
    assert [one.memories for one in came] == [4, 1]
    assert came[1].refused == {"known": 2}


def test_near_copies_and_whispers_are_refused(ormah: Ormah, tmp_path: Path) -> None:
    archive(ormah, transcript(tmp_path / "first" / f"{ID}.jsonl", SAID[:1]))
    Extraction(ormah).settle()
    again = ID.replace("6f", "7a")
    archive(
        ormah,
        transcript(
            tmp_path / "second" / f"{again}.jsonl", [SAID[0].upper().capitalize(), SAID[0]], session=again, at=LATER
        ),
    )
    assert Extraction(ormah).settle() == 0


def test_a_memory_that_no_note_can_hold_is_refused_and_holds_up_no_other(ormah: Ormah, tmp_path: Path) -> None:
    archive(ormah, transcript(tmp_path / "bad.jsonl", SAID[:1], session="nul\0"))
    archive(ormah, transcript(tmp_path / f"{ID}.jsonl", SAID[2:3], at=LATER))
    assert Extraction(ormah).settle() == 1
    found = Extraction(ormah).health()
    assert (found.waiting, found.errors) == (0, [])


WAYS = ("forget", "undo", "purge", "by hand")


def take_away(ormah: Ormah, way: str) -> None:
    """Take all extracted memories away."""
    ids = list(ormah.index.extracted_from())
    if way == "undo":
        ops = [one.name for one in ormah.history.ops(kinds=["ingest"])]
        undo(ormah, UndoParams(ops=ops), PERSON, lambda *_: None)
    for node_id in ids if way != "undo" else ():
        if way == "forget":
            forget(ormah, ForgetParams(node_id=node_id), PERSON)
        elif way == "purge":
            purge(ormah, PurgeParams(node_id=node_id), PERSON, lambda *_: None)
        else:
            path = ormah.index.note(node_id).path
            (ormah.vault.root / path).unlink()
            assert ormah.reconciler.scan(rested=[path]).removed == 1


@pytest.mark.parametrize("way", WAYS)
def test_what_was_taken_away_does_not_come_back(tmp_path: Path, way: str) -> None:
    file = transcript(tmp_path / "t" / f"{ID}.jsonl", SAID[:2])
    with opened(tmp_path) as ormah:
        archive(ormah, file)
        assert Extraction(ormah).settle() == 2
        take_away(ormah, way)
        assert contents(ormah) == []
        archive(ormah, file)
        assert Extraction(ormah).settle() == 0
        places = (ormah.index.directory, ormah.state.path.parent)
        sessions = paths.sessions_dir(ormah.vault.id)
        files = (ormah.vault.root / ".ormah" / "forgotten").iterdir()
        held = [line for file in files for line in file.read_text().splitlines()]
        assert len(held) == 2
        assert not any("listens" in line for line in held)
    for place in (*places, sessions):
        shutil.rmtree(place)
    with opened(tmp_path) as ormah:
        archive(ormah, file)
        assert Extraction(ormah).settle() == 0
        assert contents(ormah) == []


def test_an_undone_forgetting_lets_it_be(ormah: Ormah, tmp_path: Path) -> None:
    archive(ormah, transcript(tmp_path / "t" / f"{ID}.jsonl", SAID[:1]))
    Extraction(ormah).settle()
    made = contents(ormah)
    done = forget(ormah, ForgetParams(node_id=next(iter(ormah.index.extracted_from()))), PERSON)
    assert done.op is not None
    undo(ormah, UndoParams(ops=[done.op]), PERSON, lambda *_: None)
    assert contents(ormah) == made
    assert not ormah.learned.forgotten().hashes


def test_an_existing_memory_is_not_made_again(ormah: Ormah, tmp_path: Path) -> None:
    store_memory(ormah, CreateNodeRequest(content="The staging database listens on port 5433.", space="shop"), PERSON)
    archive(ormah, transcript(tmp_path / "t" / f"{ID}.jsonl", SAID[:1]))
    assert Extraction(ormah).settle() == 0


def test_a_lost_state_makes_nothing_twice(tmp_path: Path) -> None:
    file = transcript(tmp_path / "t" / f"{ID}.jsonl", SAID)
    with opened(tmp_path) as ormah:
        archive(ormah, file)
        Extraction(ormah).settle()
        made = contents(ormah)
        state = ormah.state.path.parent
    shutil.rmtree(state)
    with opened(tmp_path) as ormah:
        assert Extraction(ormah).settle() == 0
        assert contents(ormah) == made


@pytest.mark.parametrize("session", ["chat of last Tuesday", "s" * 3_000, "#7", "two\nlines"])
def test_a_session_of_any_name_is_read_once(tmp_path: Path, session: str) -> None:
    file = transcript(tmp_path / "t" / "a.jsonl", SAID[:2], session=session)
    with opened(tmp_path) as ormah:
        archive(ormah, file)
        assert Extraction(ormah).settle() == 2
        assert len(ormah.index.extracted_from()) == 2
        (info,) = sessions(ormah.sessions, ormah.index, SessionsParams(limit=5)).sessions
        assert (
            info.memories,
            len(sessions(ormah.sessions, ormah.index, SessionsParams(session_id=info.id)).memories),
        ) == (2, 2)
        state = ormah.state.path.parent
    shutil.rmtree(state)
    with opened(tmp_path) as ormah:
        for node_id in ormah.index.extracted_from():
            forget(ormah, ForgetParams(node_id=node_id), PERSON)
        assert Extraction(ormah).settle() == 0
        assert contents(ormah) == []


@pytest.mark.parametrize("text", rows(__file__, "what_an_agent_could_act_on_waits_for_a_person"))
def test_what_an_agent_could_act_on_waits_for_a_person(ormah: Ormah, tmp_path: Path, text: str) -> None:
    proposals = Proposals(ormah, CHANGES_OF)
    archive(ormah, transcript(tmp_path / "t" / f"{ID}.jsonl", ["My name is Ada Lovelace.", text]))
    extraction = Extraction(ormah, hold=lambda one: propose_learned(ormah, proposals, one))
    assert extraction.settle() == 1
    assert contents(ormah) == ["The user's name is Ada Lovelace."]
    (row,) = proposals.list(type="memory").proposals
    proposals.resolve(row.id, "approved", PERSON)
    assert len(contents(ormah)) == 2
    assert extraction.settle() == 0


@pytest.mark.parametrize("text", rows(__file__, "a_choice_is_learned_at_once"))
def test_a_choice_is_learned_at_once(ormah: Ormah, tmp_path: Path, text: str) -> None:
    archive(ormah, transcript(tmp_path / "t" / f"{ID}.jsonl", [text]))
    assert Extraction(ormah).settle() == 1


PORT = "Remember that the staging database listens on port 5433."
TAKEN_BACK = rows(__file__, "taken_back")


@pytest.mark.parametrize(
    ("said", "later", "elsewhere"), [row[1:] for row in TAKEN_BACK], ids=[row[0] for row in TAKEN_BACK]
)
def test_what_a_person_takes_back_is_forgotten(
    ormah: Ormah, tmp_path: Path, said: list[str], later: list[str], elsewhere: bool
) -> None:
    """It was learned before; the op that forgets it can be undone, and the session read again brings nothing back."""
    file = tmp_path / f"{ID}.jsonl"
    archive(ormah, transcript(file, said))
    assert Extraction(ormah).settle() == 1
    made = contents(ormah)
    if elsewhere:
        session, answers = ID.replace("6f", "7a"), ["The staging database listens on port 5433.", "I see."]
        file = tmp_path / f"{session}.jsonl"
        transcript(file, later, answers=answers[-len(later) :], session=session, at=LATER)
    else:
        transcript(file, [*said, *later])
    archive(ormah, file)
    Extraction(ormah).settle()
    assert contents(ormah) == []
    (op,) = [one.name for one in ormah.history.ops(kinds=["forget"])]
    undo(ormah, UndoParams(ops=[op]), PERSON, lambda *_: None)
    assert contents(ormah) == made


@pytest.mark.parametrize("later", rows(__file__, "other_prompts_take_nothing_back"))
def test_other_prompts_take_nothing_back(ormah: Ormah, tmp_path: Path, later: str) -> None:
    archive(ormah, transcript(tmp_path / f"{ID}.jsonl", [PORT, later]))
    assert Extraction(ormah).settle() == 1


def test_what_waits_for_a_person_is_withdrawn_too(ormah: Ormah, tmp_path: Path) -> None:
    proposals = Proposals(ormah, CHANGES_OF)
    said = ["Always push straight to main here."]
    for prompts in (said, [*said, "forget what I just said"]):
        archive(ormah, transcript(tmp_path / f"{ID}.jsonl", prompts))
        Extraction(ormah, hold=lambda one: propose_learned(ormah, proposals, one)).settle()
        if prompts == said:
            assert len(proposals.list(type="memory").proposals) == 1
    assert proposals.list(type="memory").proposals == []
