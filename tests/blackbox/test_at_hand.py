"""Whispers at the point of action: what is known about the file or the command that an agent's tool is about to touch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.house import House, open_house

MEMORIES = {
    "ci": ("procedure", "shop", "Run make ship only after CI is green; it does not check by itself."),
    "rounding": ("decision", "shop", "Money is rounded in src/cart/total.py and nowhere else, half to even."),
    "cache": (
        "observation",
        "shop",
        "Caching in pricing_rules.py was tried and rejected: prices went stale for hours.",
    ),
    "docker": ("procedure", None, "docker compose up needs --wait, else the tests begin before the database listens."),
    "fact": ("fact", "shop", "src/cart/labels.py prints the labels of parcels."),
    "other": ("decision", "blog", "In blog/feeds.py the feed has ten entries."),
    "bare": ("decision", None, "helpers_x.py stays without imports."),
    "main": ("decision", "shop", "main.py only parses the arguments."),
}
MANY = [("procedure", "shop", f"Step {number}: git commit with a subject of fifty letters.") for number in range(6)]

SPOKEN = [
    ("Edit", {"file_path": "/srv/shop/src/cart/total.py"}, "rounding"),
    ("Write", {"file_path": "src/cart/total.py"}, "rounding"),
    ("Edit", {"file_path": "/srv/shop/lib/pricing_rules.py"}, "cache"),
    ("NotebookEdit", {"notebook_path": "/srv/shop/src/cart/total.py"}, "rounding"),
    ("Bash", {"command": "make ship"}, "ci"),
    ("Bash", {"command": "cd /srv/shop && CI=1 make ship 2>&1 | tail -3"}, "ci"),
    ("Bash", {"command": "sudo docker compose up -d"}, "docker"),
    ("Bash", {"command": "Make  ship"}, "ci"),
]
SILENT = [
    ("Edit", {"file_path": "/srv/shop/src/cart/labels.py"}),  # a fact says nothing to heed
    ("Edit", {"file_path": "/srv/shop/src/cart/subtotal.py"}),
    ("Edit", {"file_path": "/srv/shop/other/cart/total.py.orig"}),
    ("Edit", {"file_path": "/srv/shop/blog/feeds.py"}),  # another project's
    ("Edit", {"file_path": "/srv/shop/helpers_x.py"}),  # a bare name in a global memory may be any project's
    ("Edit", {"file_path": "/srv/shop/src/main.py"}),  # there are many
    ("Bash", {"command": "make shipping"}),
    ("Bash", {"command": "make"}),
    ("Bash", {"command": "echo make ship"}),
    ("Bash", {"command": "cat src/cart/total.py"}),
    ("Bash", {"command": "git commit -m x"}),  # too many memories name it
    ("Bash", {"command": "docker compose down"}),
    ("Bash", {"command": ""}),
    ("Read", {}),
]


@pytest.fixture(scope="module")
def told() -> Iterator[House]:
    with open_house(ORMAH_WHISPER_TOOLS="true") as house:
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
    node = told.call(
        "agent.remember", content="Run npm publish from the tag only.", type="procedure", space="shop"
    ).node_id
    assert "from the tag" in use(told, "Bash", {"command": "npm publish"}, "four")
    told.call("agent.outdated", node_id=node, reason="CI publishes")
    assert use(told, "Bash", {"command": "npm publish"}, "five") == ""


def test_it_is_off_unless_it_is_wished_for(house: House) -> None:
    house.start()
    house.call("agent.remember", content=MEMORIES["ci"][2], type="procedure", space="shop")
    assert use(house, "Bash", {"command": "make ship"}, "one") == ""
    hooks = json.loads
    house.json("setup", "claude-code", "--yes", "--no-instructions")
    settings = house.home / ".claude" / "settings.json"
    assert "PreToolUse" not in hooks(settings.read_text())["hooks"]
    house.settings["ORMAH_WHISPER_TOOLS"] = "true"
    assert house.json("setup", "claude-code", "--yes", "--no-instructions")["added"] == [
        "PreToolUse",
        "PostToolUseFailure",
    ]
    (group,) = hooks(settings.read_text())["hooks"]["PreToolUse"]
    assert group["matcher"] == "Edit|MultiEdit|Write|NotebookEdit|Bash"
    del house.settings["ORMAH_WHISPER_TOOLS"]
    assert house.json("setup", "claude-code", "--yes", "--no-instructions")["removed"] == [
        "PreToolUse",
        "PostToolUseFailure",
    ]
    house.json("uninstall", "claude-code")
    assert not settings.exists()
