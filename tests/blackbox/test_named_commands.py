"""Every command that a text for an agent names is run as it stands, from a shell that knows nothing of us."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ormahd.whisper.greet import AgentCommands
from ormahd.whisper.render import compose
from tests.blackbox.test_feedback import FLY
from tests.blackbox.test_setup import commands, fire
from tests.house import House, open_house

KAYAKS = "Kayaks are stored in the boathouse."
HELD_BACK = "who runs the smoke tests of production"
NUDGED = 3


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    """A daemon that reminds every third prompt."""
    more = {
        "ORMAH_WHISPER_EXPLORATION": "false",
        "ORMAH_WHISPER_INJECTION_GATE": "0.75",
        "ORMAH_WHISPER_NUDGE_INTERVAL": str(NUDGED),
    }
    with open_house(**more) as found:
        found.start()
        yield found


def texts(house: House) -> dict[str, str]:
    """Source -> what an agent that `setup` connected reads there."""
    house.json("setup", "claude-code", "--yes", "--deadline", "9000")
    hooks = commands(house, "claude-code")

    def say(event: str, session: str, **more: Any) -> str:
        done = fire(hooks[event], event, house.home, session_id=session, **more)
        assert (done.returncode, done.stderr) == (0, b"")
        return str(json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]) if done.stdout else ""

    house.call("agent.remember", content=FLY, title="Fly", space=None)
    house.call("agent.remember", content=KAYAKS, title="Kayaks", tier="core", space=None)
    house.call("agent.whisper", prompt=HELD_BACK, session_id="earlier", space=None)
    found = {"instructions": (house.home / ".claude" / "CLAUDE.md").read_text()}
    found["greeting"] = say("SessionStart", "s", source="startup")
    for number in range(1, NUDGED + 1):
        prompt = "where are kayaks stored in the boathouse" if number == 1 else f"zebras of Madagascar, number {number}"
        found[f"prompt {number}"] = say("UserPromptSubmit", "t", prompt=prompt)
    wiring = AgentCommands(house.home / "state_home" / "ormah" / "setup" / "wiring.json")
    now = datetime.now(UTC)
    found["maintenance"] = compose([], now=now, maintenance_due=True, commands=wiring.of("claude-code")).text
    return found


def named(text: str) -> list[str]:
    """What stands between backticks and is a command of ours."""
    return [found for found in re.findall(r"`([^`]+)`", text) if re.search(r"\bormahctl\b", found)]


def test_every_command_that_an_agent_is_told_runs_as_it_stands(house: House, tmp_path: Path) -> None:
    found = texts(house)
    whispered = found["prompt 1"]
    event = whispered.splitlines()[-1].split()[-2]
    node = re.findall(r"\(id: ([0-9a-f]{8})\)", whispered)[0]
    told = {source: named(text) for source, text in found.items()}
    verbs = {
        source: [re.sub(r".*ormahctl(?: --socket \S+)? (\w+).*", r"\1", one) for one in told[source]] for source in told
    }
    expected = {
        "greeting": ["show"], "prompt 1": ["show", "feedback"], "prompt 2": [], "prompt 3": ["remember", "feedback"],
        "maintenance": ["maintenance"],
        "instructions": ["recall", "show", "remember", "feedback"],
    }  # fmt: skip
    assert verbs == expected
    shell = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "CLAUDECODE": "1"}
    for command in (one for some in told.values() for one in some):
        exact = re.sub(r" ID\b", f" {node}", re.sub(r" E$", f" {event}", command))
        done = subprocess.run(exact, shell=True, env=shell, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        nothing = "nothing found" in done.stderr  # what the paragraph asks for as an example is not in this vault
        assert done.returncode == (1 if nothing else 0), (exact, done.stderr)
        assert "error" not in done.stderr
    assert "agent:claude-code" in house.ctl("history", "--limit", "20").stdout
    kept = [
        house.json("show", one["short_id"])
        for one in house.json("recall", "-n", "50")["results"]
        if one["title"] == "…"
    ]
    assert {one["source"] for one in kept} == {"agent:claude-code"}


def test_an_agent_that_was_not_set_up_is_told_of_this_installation(house: House) -> None:
    house.call("agent.remember", content="Canoes are rented in the harbour.", title="Canoes", space=None)
    text = house.call("agent.whisper", prompt="where are canoes rented in the harbour", session_id="x", space=None).text
    command = next(iter(named(text)))
    program = command.split()[0]
    assert program == "ormahctl" or os.access(program, os.X_OK)


def test_recall_of_an_id_shows_that_memory(house: House) -> None:
    long = "The first line.\n" + "many words of it, " * 200 + "\nthe very last line."
    made = house.call("agent.remember", content=long, title="Long", space=None)
    for query in (
        made.node_id,
        made.node_id[:8],
        made.node_id[:8].upper(),
        f"`{made.node_id[:8]}`",
        f"(id: {made.node_id[:8]})",
    ):
        (hit,) = house.json("recall", query)["results"]
        assert (hit["id"], hit["source"], hit["content"]) == (made.node_id, "id", long)
    shown = house.ctl("recall", made.node_id[:8]).stdout
    assert "the very last line." in shown
    short = house.json("recall", made.node_id[:4], "-n", "3")["results"]
    assert short[0]["id"] == made.node_id
    assert [one["id"] for one in short].count(made.node_id) == 1
    assert house.json("recall", made.node_id[:8], "--type", "goal")["results"] == []
    assert all(one["source"] != "id" for one in house.json("recall", "deadbeef-no")["results"])
    text = house.call("agent.recall", query=made.node_id[:8]).text
    assert "the very last line." in text
