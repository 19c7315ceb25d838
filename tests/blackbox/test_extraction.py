"""Memories of sessions as people meet them: by commands and hooks, in every format, with and without a judge, and after any kill."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from ormahd.rpc import wire
from tests.blackbox.ingesting import killed_while_ingesting
from tests.blackbox.test_sessions import stop_hook
from tests.house import House, open_house, wait_until
from tests.scripted_judge import prompts, served
from tests.session_formats import FORMATS

SIGNS = {"rules": "Remember that", "judge": "Keep in mind:"}
"""How a person says what is to be remembered, by who reads it."""
TOWNS = ("Riga", "Porto", "Bergen", "Turin", "Ghent", "Split", "Cork", "Lund")
GOODS = ("amber", "cork oak", "salmon", "typewriters", "lace", "olive oil", "butter", "microscopes")


def facts(name: str) -> list[str]:
    """Return what is to be remembered of a session."""
    return [
        f"The warehouse in {town} keeps {goods} for the {name} account."
        for town, goods in zip(TOWNS, GOODS, strict=True)
    ]


def said(by: str, name: str, exchanges: int = 100) -> list[tuple[str, str]]:
    """Return a session of so many exchanges, in which the facts are said here and there."""
    step = exchanges // len(TOWNS)
    told = dict(zip(range(1, exchanges, step), facts(name), strict=False))

    def asked(number: int) -> str:
        fact = told.get(number)
        if fact is None:
            return f"Could you look at row {number} of the {name} table again?"
        return f"{SIGNS[by]} {fact[0].lower() if by == 'rules' else fact[0]}{fact[1:]}"

    return [(asked(number), f"Row {number} looks as it did before.") for number in range(exchanges)]


def memories(house: House) -> list[str]:
    """Return the texts of all extracted memories, as the files have them."""
    texts = [data.decode() for data in house.notes().values()]
    return sorted(text.split("---\n")[2].strip() for text in texts if "\nsource: session:" in text)


def settled(house: House, files: Sequence[Path]) -> None:
    for file in files:
        assert house.ctl("ingest", str(file)).returncode == 0
    wait_until(lambda: house.call("admin.health").learning.waiting == 0, "all sessions are read")


def house_of(by: str, folder: Path, stack: ExitStack) -> House:
    settings: dict[str, str] = {"ORMAH_JOBS_ENABLED": "false"}
    if by == "judge":
        server = stack.enter_context(served(folder))
        settings |= {"ORMAH_JOBS_JUDGE": "openai", "ORMAH_JUDGE_URL": server.url, "ORMAH_JUDGE_MODEL": "m",
                     "ORMAH_JUDGE_CALLS_A_DAY": "100000", "ORMAH_JUDGE_TOKENS_A_DAY": "100000000"}  # fmt: skip
    return stack.enter_context(open_house(**settings))


@pytest.mark.parametrize("by", ["rules", "judge"])
def test_two_hundred_turns_of_each_format_once(tmp_path: Path, by: str) -> None:
    with ExitStack() as stack:
        house = house_of(by, tmp_path, stack)
        house.start()
        files = []
        for name, (ending, write) in FORMATS.items():
            files.append(house.home / f"{name}-session{ending}")
            files[-1].write_bytes(write(said(by, name), f"0199f3a1-0000-7000-8000-{len(files):012d}"))
        settled(house, files)
        wanted = sorted(fact for name in FORMATS for fact in facts(name))
        assert memories(house) == wanted
        assert len([one for one in house.json("history", "-n", "100") if one["kind"] == "ingest"]) >= len(FORMATS)
        asked = len(prompts(tmp_path))
        for file in files:
            file.touch()
        settled(house, files)
        assert memories(house) == wanted
        assert len(prompts(tmp_path)) == asked, "nobody is asked again"
        shown = house.json("show", f"0199f3a1-0000-7000-8000-{1:012d}")
        assert len(shown["memories"]) == len(TOWNS)
        assert house.ctl("undo", "--job", "extraction", "--since", "2020-01-01").returncode == 0
        assert memories(house) == []
        for file in files:
            file.touch()
        settled(house, files)
        assert memories(house) == [], "what was undone does not come back"


def killed(by: str, folder: Path, kills: int, seed: int) -> None:
    """Kill the daemon while it reads sessions, so many times, and then let it end."""
    with ExitStack() as stack:
        house = house_of(by, folder, stack)
        files = []
        for number in range(6):
            files.append(house.home / f"{number}.jsonl")
            session = f"0199f3a1-0000-7000-8000-{number:012d}"
            files[-1].write_bytes(FORMATS["claude-code"][1](said(by, f"client {number}"), session))

        killed_while_ingesting(house, files, kills, random.Random(seed), 1.0)
        settled(house, files)
        assert memories(house) == sorted(fact for number in range(6) for fact in facts(f"client {number}"))
        assert house.git("status", "--porcelain") == ""


@pytest.mark.parametrize("by", ["rules", "judge"])
def test_killed_while_reading(tmp_path: Path, by: str) -> None:
    killed(by, tmp_path, 3, 1)


@pytest.mark.soak
@pytest.mark.parametrize("by", ["rules", "judge"])
def test_killed_while_reading_at_fifty_points(tmp_path: Path, by: str) -> None:
    killed(by, tmp_path, 50, 2)


def test_a_session_that_goes_on_becomes_memories_by_itself() -> None:
    with open_house() as house:
        house.start()
        file, session = house.home / "live.jsonl", "0199f3a1-0000-7000-8000-00000000000a"
        for end in (1, 2):
            pairs = [
                (f"Remember that the {one} account is paid in {one}.", "Noted.") for one in ("krona", "zloty")[:end]
            ]
            file.write_bytes(FORMATS["claude-code"][1](pairs, session))
            stop_hook(house, file, session, "Noted.")
            wait_until(lambda end=end: len(memories(house)) == end, "the memory of the last answer")  # type: ignore[misc]
        assert memories(house) == ["The krona account is paid in krona.", "The zloty account is paid in zloty."]


def test_a_conversation_that_a_program_sends(shared: House) -> None:
    said_ = "User: Remember that the lighthouse of Skagen is 46 metres high.\nAssistant: Noted.\n"
    came = shared.call("ingest.conversation", content=said_)
    again = shared.call("ingest.conversation", content=said_)
    assert [(one.added, one.memories) for one in (came, again)] == [(2, 1), (0, 0)]
    assert "The lighthouse of Skagen is 46 metres high." in memories(shared)
    with pytest.raises(wire.OrmahError, match="content"):
        shared.call("ingest.conversation", content="  ")
    assert json.dumps(memories(shared)).count("Skagen") == 1
