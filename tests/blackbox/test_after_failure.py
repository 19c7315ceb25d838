"""After a failure the agent is told what fixed the same error before, once in a session; after a success nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.house import House, open_house
from tests.quality import work
from tests.tables import rows

EVENTS = {"claude-code": "PostToolUseFailure", "codex": "PostToolUse", "gemini": "AfterTool"}
NUMBERS = count(1)
ERROR = 'ProgrammingError: relation "cart_voucher" does not exist'
MEMORY = 'The ledger is sealed at noon: payd then prints "refused: the ledger is sealed", and one waits.'


@pytest.fixture(scope="module")
def told() -> Iterator[House]:
    with open_house(ORMAH_WHISPER_TOOLS="true") as house:
        house.start()
        for one in work.sessions():
            if one.project in {"shop", "engine"}:
                house.ctl("ingest", str(work.write(one, house.home / "agents")))
        house.call("agent.remember", content=MEMORY, type="observation", space="shop")
        yield house


def tool(
    house: House,
    client: str,
    printed: str,
    *,
    status: int = 1,
    session: str | None = "",
    command: str = "make x",
    **more: Any,
) -> str:
    """What the agent is told after a command, as each client says it; "" for nothing."""
    given = {
        "hook_event_name": EVENTS[client],
        "session_id": f"s{next(NUMBERS)}" if session == "" else session,
        "tool_input": {"command": command},
    }
    if client == "claude-code":
        given |= {"tool_name": "Bash", "error": f"Exit code {status}\n{printed}", "is_interrupt": False}
    elif client == "codex":
        rollout = house.home / "rollout.jsonl"
        item = {"type": "CommandExecution", "id": "call_7", "aggregated_output": printed, "exit_code": status}
        rollout.write_text(
            json.dumps(
                {"type": "event_msg", "payload": {"type": "item_completed", "item": item}}, separators=(",", ":")
            )
            + "\n"
        )
        given |= {
            "tool_name": "Bash",
            "tool_response": printed,
            "tool_use_id": "call_7",
            "transcript_path": str(rollout),
        }
    else:
        ended = f"\nExit Code: {status}" if status else ""
        said = (
            f"<untrusted_context>\nOutput: {printed or '(empty)'}{ended}\nProcess Group PGID: 9\n</untrusted_context>"
        )
        given |= {"tool_name": "run_shell_command", "tool_response": {"llmContent": said, "returnDisplay": printed}}
    done = house.ctl(
        "hook", EVENTS[client], "--harness", client, input=json.dumps(given | more), env={"ORMAH_SPACE": "shop"}
    )
    assert done.returncode == 0, done.stderr
    if not done.stdout:
        return ""
    answer = json.loads(done.stdout)["hookSpecificOutput"]
    assert list(answer) == ["hookEventName", "additionalContext"]
    assert answer["hookEventName"] == EVENTS[client]
    return str(answer["additionalContext"])


@pytest.mark.parametrize(("printed", "expected"), rows(Path(__file__).with_suffix(".toml"), "failures"))
@pytest.mark.parametrize("client", sorted(EVENTS))
def test_what_fixed_it_is_told(told: House, client: str, printed: str, expected: str) -> None:
    text = tool(told, client, printed)
    assert expected in text
    assert bool(text) == bool(expected)
    assert text.count("\n") <= 1, "one line and the mark"
    assert tool(told, client, printed, status=0) == "" or client == "claude-code", "it worked"


def test_the_line_says_when_and_what(told: House) -> None:
    line, mark = tool(told, "claude-code", ERROR).split("\n")
    assert line == (
        'Ormah: this failed before on 5 Sep (django.db.utils.ProgrammingError: relation "cart_item" does not exist). '
        "What fixed it: `python manage.py migrate`."
    )
    assert mark.startswith("<!-- ormah:whisper")


def test_once_a_session_and_never_where_it_does_not_fit(told: House) -> None:
    assert "migrate" in tool(told, "claude-code", ERROR, session="one")
    assert tool(told, "claude-code", ERROR, session="one") == ""
    assert "migrate" in tool(told, "claude-code", ERROR, session="two")
    assert tool(told, "claude-code", ERROR, session=None) == ""
    assert tool(told, "claude-code", ERROR, agent_id="sub") == ""
    assert tool(told, "claude-code", ERROR, is_interrupt=True) == ""
    assert tool(told, "claude-code", ERROR, command="grep -rn voucher .") == "", "a command that only looks"
    assert tool(told, "codex", ERROR, tool_use_id="call_other") == "", "whether it failed is not known"
    assert tool(told, "codex", ERROR, transcript_path=None) == ""
    assert "ledger" in tool(told, "gemini", "payd: refused: the ledger is sealed", session="three")
    assert tool(told, "gemini", "payd: refused: the ledger is sealed", session="three") == ""


@pytest.mark.parametrize(
    "more",
    [
        {"tool_response": 7},
        {"tool_input": None},
        {"tool_response": {"llmContent": [1]}},
        {"error": None, "tool_response": None},
    ],
)
@pytest.mark.parametrize("client", sorted(EVENTS))
def test_odd_answers_of_tools_are_passed_over(told: House, client: str, more: dict[str, Any]) -> None:
    tool(told, client, ERROR, **more)
    assert "Traceback" not in (told.home / "stderr").read_text()
