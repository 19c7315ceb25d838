"""Sessions with work in them (`sessions.txt`) as transcripts of three clients, and what is asked about them (`asked.tsv`).

The forms are those that Claude Code 2.1.332, Codex CLI 0.171 and Gemini CLI 0.61 write. Every output and every content of a
file holds `PRINTED` or `WRITTEN`, which must be found nowhere afterwards.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from tests.quality.sets import rows

FOLDER: Final = Path(__file__).parent
PRINTED: Final = "zq-printed-row"
WRITTEN: Final = "zq-written-text"
ROOT: Final = "/home/ada"


class Done(Struct):
    """A step of the agent: a command with its exit status and what it printed of an error, or an edited file."""

    command: str = ""
    file: str = ""
    status: int = 0
    errors: list[str] = field(default_factory=list)

    @property
    def printed(self) -> str:
        noise = [f"{PRINTED} {number}: 17 of 20 done" for number in range(3)]
        return "\n".join([*noise, *self.errors, f"{PRINTED} at the end"])


class Asked(Struct):
    prompt: str
    done: list[Done] = field(default_factory=list)
    answer: str = "Done."


class WorkSession(Struct):
    project: str
    client: str
    day: str
    title: str
    asked: list[Asked] = field(default_factory=list)

    @property
    def cwd(self) -> str:
        return f"{ROOT}/{self.project}"

    @property
    def id(self) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self.project} {self.day}"))


class Question(Struct):
    half: str
    kind: str
    project: str
    text: str
    right: list[str]


def sessions(file: Path = FOLDER / "sessions.txt") -> list[WorkSession]:
    found: list[WorkSession] = []
    for line in file.read_text("utf-8").splitlines():
        sign, _, text = line.partition(" ")
        if sign == "==":
            project, client, day, title = text.split(" ", 3)
            found.append(WorkSession(project, client, day, title))
        elif sign == ">":
            found[-1].asked.append(Asked(text))
        elif sign == "$":
            found[-1].asked[-1].done.append(Done(command=text))
        elif sign == "~":
            found[-1].asked[-1].done.append(Done(file=text))
        elif sign == "!":
            status, _, error = text.partition(" ")
            last = found[-1].asked[-1].done[-1]
            last.status = int(status)
            last.errors.append(error)
        elif sign == "<":
            found[-1].asked[-1].answer = text
    return found


def questions(half: str) -> list[Question]:
    found = [
        Question(one, kind, project, text, right.split("|"))
        for one, kind, project, text, right in rows(FOLDER / "asked.tsv")
    ]
    return [one for one in found if one.half == half]


class _Clock:
    def __init__(self, day: str) -> None:
        self._now = datetime.fromisoformat(f"{day}T09:00:00").replace(tzinfo=UTC)

    def __call__(self) -> str:
        self._now += timedelta(seconds=7)
        return self._now.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def transcript(one: WorkSession) -> bytes:
    made = {"claude-code": claude_code, "codex": codex, "gemini": gemini}[one.client](one, _Clock(one.day))
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in made).encode()


def write(one: WorkSession, folder: Path) -> Path:
    """Write a session's transcript where its client has it."""
    place = {
        "claude-code": f"claude/projects/-home-ada-{one.project}/{one.id}.jsonl",
        "codex": f"codex/sessions/rollout-{one.day}T09-00-00-{one.id}.jsonl",
        "gemini": f"gemini/tmp/{one.project}/chats/session-{one.day}T09-00-{one.id[:8]}.jsonl",
    }[one.client]
    file = folder / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(transcript(one))
    if one.client == "gemini":
        (file.parent.parent / ".project_root").write_text(one.cwd)
    return file


def claude_code(one: WorkSession, now: _Clock) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    number = 0

    def line(kind: str, content: Any, **more: Any) -> None:
        message = {
            "role": kind,
            "content": content,
            **(
                {"id": f"msg_{one.id[:8]}{len(found)}", "stop_reason": more.pop("stop", None)}
                if kind == "assistant"
                else {}
            ),
        }
        parent = found[-1]["uuid"] if found else None
        found.append({"parentUuid": parent, "isSidechain": False, "type": kind, "message": message, "uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{one.id}{len(found)}")),
                      "timestamp": now(), "cwd": one.cwd, "sessionId": one.id, "version": "2.1.332", "gitBranch": "main", **more})  # fmt: skip

    for asked in one.asked:
        line("user", asked.prompt, turnOrigin="human")
        for step in asked.done:
            number += 1
            name = f"toolu_{one.id[:8]}{number:04d}"
            given = (
                {"command": step.command, "description": "step"}
                if step.command
                else {"file_path": f"{one.cwd}/{step.file}", "old_string": WRITTEN, "new_string": f"{WRITTEN} anew"}
            )
            line(
                "assistant",
                [{"type": "tool_use", "id": name, "name": "Bash" if step.command else "Edit", "input": given}],
                stop="tool_use",
            )
            printed = (
                f"Exit code {step.status}\n{step.printed}"
                if step.status
                else step.printed
                if step.command
                else "The file has been updated successfully."
            )
            result = f"Error: {printed}" if step.status else {"stdout": printed, "stderr": "", "originalFile": WRITTEN}
            line(
                "user",
                [{"type": "tool_result", "tool_use_id": name, "content": printed, "is_error": bool(step.status)}],
                toolUseResult=result,
            )
        line("assistant", [{"type": "text", "text": asked.answer}], stop="end_turn")
    found.append({"type": "ai-title", "sessionId": one.id, "aiTitle": one.title})
    return found


def codex(one: WorkSession, now: _Clock) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    number = 0

    def line(kind: str, **payload: Any) -> None:
        found.append({"timestamp": now(), "type": kind, "payload": payload})

    line(
        "session_meta",
        id=one.id,
        session_id=one.id,
        timestamp=now(),
        cwd=one.cwd,
        cli_version="0.171.0",
        source="cli",
        history_mode="paginated",
    )
    for count, asked in enumerate(one.asked):
        turn = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{one.id} {count}"))
        line("event_msg", type="task_started", turn_id=turn)
        line("turn_context", turn_id=turn, cwd=one.cwd)
        line(
            "event_msg",
            type="item_completed",
            turn_id=turn,
            item={"type": "UserMessage", "content": [{"type": "text", "text": asked.prompt}]},
        )
        for step in asked.done:
            number += 1
            name = f"call_{one.id[:8]}{number}"
            if step.command:
                line(
                    "response_item",
                    type="function_call",
                    name="exec_command",
                    arguments=json.dumps({"cmd": step.command}),
                    call_id=name,
                )
                printed = f"Chunk ID: 8ed8c8\nWall time: 2.5000 seconds\nProcess exited with code {step.status}\nOriginal token count: 11\nOutput:\n{step.printed}\n"
                line("response_item", type="function_call_output", call_id=name, output=printed)
            else:
                patch = (
                    f"*** Begin Patch\n*** Update File: {step.file}\n@@\n-{WRITTEN}\n+{WRITTEN} anew\n*** End Patch\n"
                )
                line("response_item", type="custom_tool_call", name="apply_patch", input=patch, call_id=name)
                line(
                    "response_item",
                    type="custom_tool_call_output",
                    call_id=name,
                    output=f"Exit code: 0\nWall time: 0.1 seconds\nOutput:\nSuccess. Updated the following files:\nM {step.file}\n",
                )
        line(
            "event_msg",
            type="item_completed",
            turn_id=turn,
            item={"type": "AgentMessage", "content": [{"type": "Text", "text": asked.answer}]},
        )
        line("event_msg", type="task_complete", turn_id=turn, last_agent_message=asked.answer)
    return found


def gemini(one: WorkSession, now: _Clock) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"sessionId": one.id, "projectHash": "8946e9", "startTime": now(), "kind": "main"}]
    number = 0
    for asked in one.asked:
        found.append({"id": f"u{len(found)}", "timestamp": now(), "type": "user", "content": [{"text": asked.prompt}]})
        for step in asked.done:
            number += 1
            name = f"call_s{number}"
            tool, given = (
                ("run_shell_command", {"command": step.command})
                if step.command
                else ("replace", {"file_path": f"{one.cwd}/{step.file}", "old_string": WRITTEN, "new_string": "anew"})
            )
            ended = f"\nExit Code: {step.status}" if step.status else ""
            printed = (
                f"<untrusted_context>\nOutput: {step.printed}{ended}\nProcess Group PGID: 25261\n</untrusted_context>"
            )
            call = {"id": name, "name": tool, "args": given, "status": "success", "timestamp": now(), "resultDisplay": step.printed,
                    "result": [{"functionResponse": {"id": name, "name": tool, "response": {"output": printed}}}]}  # fmt: skip
            head = {
                "id": f"g{len(found)}",
                "timestamp": now(),
                "type": "gemini",
                "content": "",
                "tokens": {"total": 9},
                "model": "g",
            }
            found += [head, {**head, "toolCalls": [call]}]
            found.append(
                {
                    "id": f"t{len(found)}",
                    "timestamp": now(),
                    "type": "user",
                    "content": [{"functionResponse": {"id": name, "response": {"output": printed}}}],
                }
            )
        found.append(
            {
                "id": f"a{len(found)}",
                "timestamp": now(),
                "type": "gemini",
                "content": asked.answer,
                "tokens": {"total": 9},
                "model": "g",
            }
        )
    return found


def steps(some: Sequence[WorkSession]) -> int:
    return sum(len(asked.done) for one in some for asked in one.asked)
