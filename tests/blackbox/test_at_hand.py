"""Whispers at the point of action: what is known about the file or the command that an agent's tool is about to touch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.house import House, open_house, wait_until
from tests.tables import rows

MEMORIES = {name: (kind, space or None, text) for name, kind, space, text in rows(__file__, "memories")}
MANY = [("procedure", "shop", f"Step {number}: git commit with a subject of fifty letters.") for number in range(6)]

SPOKEN = rows(__file__, "spoken")
SILENT = rows(__file__, "silent")


@pytest.fixture(scope="module")
def told() -> Iterator[House]:
    with open_house() as house:
        house.start()
        for kind, space, text in [*MEMORIES.values(), *MANY]:
            house.call("agent.remember", content=text, type=kind, space=space)
        yield house


def use(house: House, tool: str, given: dict[str, Any], session: str | None, **more: Any) -> str:
    """What the agent is told before it uses a tool; "" for nothing."""
    said = {
        "hook_event_name": "PreToolUse",
        "session_id": session,
        "cwd": str(house.home),
        "tool_name": tool,
        "tool_input": given,
        **more,
    }
    done = house.ctl("hook", "PreToolUse", input=json.dumps(said), env={"ORMAH_SPACE": "shop"})
    assert done.returncode == 0, done.stderr
    if not done.stdout:
        return ""
    answer = json.loads(done.stdout)["hookSpecificOutput"]
    assert list(answer) == ["hookEventName", "additionalContext"], "it neither allows nor refuses the tool"
    assert answer["hookEventName"] == "PreToolUse"
    return str(answer["additionalContext"])


@pytest.mark.parametrize(("tool", "given", "which"), SPOKEN, ids=lambda one: str(one)[:60])
def test_a_memory_that_names_the_file_or_the_command_is_told(
    told: House, tool: str, given: dict[str, Any], which: str
) -> None:
    text = use(told, tool, given, f"{tool} {given}")
    assert MEMORIES[which][2] in text
    assert text.startswith("# Ormah whispers")
    assert [key for key, (_, _, said) in MEMORIES.items() if said in text] == [which]


@pytest.mark.parametrize(("tool", "given"), SILENT, ids=lambda one: str(one)[:60])
def test_otherwise_it_is_silent(told: House, tool: str, given: dict[str, Any]) -> None:
    assert use(told, tool, given, f"{tool} {given}") == ""


def test_once_a_session_and_not_what_a_newer_memory_replaced(told: House) -> None:
    assert "make ship" in use(told, "Bash", {"command": "make ship"}, "one")
    assert use(told, "Bash", {"command": "make ship"}, "one") == ""
    assert "make ship" in use(told, "Bash", {"command": "make ship"}, "two")
    assert use(told, "Bash", {"command": "make ship"}, None) == "", "without a session it would be told again and again"
    assert use(told, "Bash", {"command": "make ship"}, "three", agent_id="sub") == ""
    logged = [one for one in told.call("agent.whispers", limit=9).whispers if one.session_id in ("one", "two", "three")]
    assert [(one.session_id, one.prompt, [it.shown for it in one.memories]) for one in logged] == [
        ("two", "before: make ship", ["full"]),
        ("one", "before: make ship", ["full"]),
    ]
    node = told.call(
        "agent.remember", content="Run npm publish from the tag only.", type="procedure", space="shop"
    ).node_id
    assert "from the tag" in use(told, "Bash", {"command": "npm publish"}, "four")
    told.call("agent.outdated", node_id=node, reason="CI publishes")
    assert use(told, "Bash", {"command": "npm publish"}, "five") == ""


TOOL_EVENTS = ["PreToolUse", "PostToolUseFailure"]


def test_it_can_be_switched_off(house: House) -> None:
    house.settings["ORMAH_WHISPER_TOOLS"] = "false"
    house.start()
    house.call("agent.remember", content=MEMORIES["ci"][2], type="procedure", space="shop")
    assert use(house, "Bash", {"command": "make ship"}, "one") == ""
    hooks = json.loads
    house.json("setup", "claude-code", "--yes", "--no-instructions")
    settings = house.home / ".claude" / "settings.json"
    assert "PreToolUse" not in hooks(settings.read_text())["hooks"]
    del house.settings["ORMAH_WHISPER_TOOLS"]
    assert house.json("setup", "claude-code", "--yes", "--no-instructions")["added"] == TOOL_EVENTS
    (group,) = hooks(settings.read_text())["hooks"]["PreToolUse"]
    assert group["matcher"] == "Edit|MultiEdit|Write|NotebookEdit|Bash|apply_patch"
    assert "--deadline 150" in group["hooks"][0]["command"]
    house.settings["ORMAH_WHISPER_TOOLS"] = "false"
    assert house.json("setup", "claude-code", "--yes", "--no-instructions")["removed"] == TOOL_EVENTS
    house.json("uninstall", "claude-code")
    assert not settings.exists()


# ---------------------------------------------------------------- guards

CLEAN = "Never run make clean here: it deletes the licence keys."
OUTPUT = {
    "claude-code": lambda answer: answer["hookSpecificOutput"].get("permissionDecision"),
    "codex": lambda answer: answer["hookSpecificOutput"].get("permissionDecision"),
    "gemini": lambda answer: answer["decision"],
}


def decision(house: House, command: str, harness: str = "claude-code", session: str = "one", **more: str) -> str | None:
    """What a harness is told to do before an agent runs a command; None: nothing."""
    event = "BeforeTool" if harness == "gemini" else "PreToolUse"
    said = {"hook_event_name": event, "session_id": session, "tool_input": {"command": command}, **more}
    done = house.ctl("hook", event, "--harness", harness, input=json.dumps(said))
    return OUTPUT[harness](json.loads(done.stdout)) if done.stdout else None


def by_hand(house: House, node: str, old: str, new: str) -> None:
    """Edit a note as a person does in an editor, and wait until the daemon has taken it in."""
    file = house.vault / house.call("agent.get", node_id=node).path
    file.write_text(file.read_text().replace(old, new))
    wait_until(lambda: '"edit"' in house.ctl("--json", "history", "-n", "1").stdout, "the edit is not committed")


def test_a_guard_counts_as_a_person_wrote_it(house: House) -> None:
    house.start()
    node = house.json("remember", CLEAN, "--type", "decision", "--global")["id"]
    assert decision(house, "make clean") is None, "a memory without a guard is told"
    refused = house.ctl("--agent", "bot", "update", node, "--guard", "deny")
    assert refused.returncode == 2
    assert "only as a person writes it" in refused.stderr.replace("\n", " ")
    steps = [
        (("update", node, "--guard", "deny"), "deny"),
        (("--agent", "bot", "update", node, "--tag", "build"), "deny"),
        (("--agent", "bot", "update", node, "--content", f"{CLEAN} And the cache."), None),
        (("update", node, "--guard", "deny"), "deny"),
        (("update", node, "--guard", "ask"), "ask"),
        (("update", node, "--clear", "guard"), None),
    ]
    for words, wanted in steps:
        done = house.ctl(*words)
        assert done.returncode == 0, done.stderr
        assert decision(house, "cd /srv && sudo make clean", session=f"{words}") == wanted, words
        assert house.json("show", node)["guard_waits"] == (wanted is None and "--clear" not in words), words


def test_guards_in_the_note_and_what_each_harness_does(house: House) -> None:
    house.start()
    node = house.json("remember", "Releases are Ada's.", "--type", "decision", "--global")["id"]
    nothing = house.ctl("update", node, "--guard", "deny")
    assert nothing.returncode == 2
    assert "names no command or file" in nothing.stderr
    by_hand(
        house,
        node,
        "type: decision\n",
        "type: decision\ncommands: [make release, 'git tag*']\npaths: [CHANGELOG.md]\nguard: deny\n",
    )
    for harness in OUTPUT:
        assert decision(house, "git tag v1.0", harness) == "deny"
        assert decision(house, "git status", harness) is None
        assert decision(house, "echo x >> notes.md; rm docs/CHANGELOG.md", harness) == "deny"
    house.json("update", node, "--guard", "ask")
    assert [decision(house, "make release", one, "two") for one in OUTPUT] == ["ask", None, "ask"]
    assert decision(house, "make release", session="two", agent_id="sub") == "ask", "a sub-agent"
    lines = house.ctl("export").stdout
    house.json("forget", node)
    (house.home / "lines.jsonl").write_text(lines)
    assert house.ctl("--agent", "bot", "import", str(house.home / "lines.jsonl")).returncode == 0
    assert decision(house, "make release", session="three") is None, "an agent brought it in"


# ---------------------------------------------------------------- dead ends


def test_a_dead_end_is_shown_as_one_and_never_recommended(house: House) -> None:
    house.start()
    words = ("remember", "Tried Redis for the session cache.", "--global", "--rejected", "because it lost sessions")
    refused = house.ctl(*words, "--type", "preference")
    assert refused.returncode == 2
    node = house.json(*words, "--type", "decision", "--tier", "core")["id"]
    assert (
        "standing: rejected\nbecause: it lost sessions\n"
        in (house.vault / house.call("agent.get", node_id=node).path).read_text()
    )
    shown = "tried and rejected ("
    assert shown in house.ctl("recall", "redis sessions").stdout
    assert shown in house.ctl("recall").stdout
    assert shown in house.ctl("show", node).stdout
    assert shown in house.call("agent.recall", query="redis sessions").text
    assert shown in house.ctl("whisper", "should we keep the session cache in redis?").stdout
    assert shown in use(house, "Bash", {"command": "npm install redis"}, "one")
    said = {"hook_event_name": "SessionStart", "session_id": "two", "source": "startup"}
    assert "Redis" not in house.ctl("hook", "SessionStart", input=json.dumps(said)).stdout
    house.json("outdated", node, "--reason", "a cluster keeps them")
    assert use(house, "Bash", {"command": "npm install redis"}, "three") == ""
    house.json("outdated", node, "--revoke")
    house.json("update", node, "--clear", "rejected")
    assert shown not in house.ctl("show", node).stdout
