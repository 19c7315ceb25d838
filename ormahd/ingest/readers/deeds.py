"""Makes deeds of tool calls: commands that an agent ran, and files that it edited. Pure.

Of what a tool returned only the exit status is taken, and of a failure the first line that states the error. What was
written to a file is not taken either: a command's here-documents are cut out. Calls that only look (`ls`, `git diff`)
make no deed, as the tools that read and search make none.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from msgspec import Struct

from ormahd.ingest.readers.turns import Reading, SessionDeed
from ormahd.ingest.readers.values import key_of, text_at
from ormahd.sessions.failures import error_despite, error_of

SHELLS: Final = frozenset({"bash", "exec_command", "local_shell", "run_shell_command", "shell", "shell_command"})
EDITS: Final = frozenset({"apply_patch", "edit", "multiedit", "notebookedit", "replace", "write", "write_file"})
"""Tools that run commands, and tools that write files, as the clients name them, in small letters."""
FAILED: Final = -1
"""The status of a call that failed without an exit status."""
LONGEST: Final = 20_000
"""Maximum number of characters of a command that are read."""
LINES: Final = 3
"""Maximum number of lines of a command that are kept."""
_PATCH: Final = re.compile(r"^\*\*\* (?:(?:Update|Add|Delete) File|Move to): (.+)$", re.MULTILINE)
_HERE: Final = re.compile(r"(<<-?[ \t]*(['\"]?)(\w+)\2[^\n]*)\n.*?(?:^[ \t]*\3[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_PIPED: Final = re.compile(r"\|\s*(?:tail|head|tee|cat|less|sed|sort|uniq|grep|rg|cut|awk)\b[^|&;]*$|\|\| true$")
"""Matches commands whose exit status is not that of what they run."""
_BETWEEN: Final = re.compile(r"&&|\|\|?|;|\n")
_LOOK: Final = re.compile(
    r"\s*(?:(?:ls|cat|cd|cut|date|echo|file|find|grep|head|less|nl|pwd|rg|sleep|sort|stat|tail|tr|tree|true|type|uniq|wc|which)\b"
    r"(?!.*(?:-exec|-delete))|sed -n\b|git (?:-C \S+ )?(?:--no-pager )?(?:branch$|diff|log|ls-files|remote -v|rev-parse|show|status)\b)"
    r"(?:[^>]|2>|[12]?>&[12]|>\s*/dev/null)*$"
)
_STATUS: Final = re.compile(r"(?:Process exited with code|[Ee]xit [Cc]ode:?|\"exit_code\":)[ \t]*(-?\d+)")


class ToolCall(Struct, frozen=True):
    """A tool call that does something. `tool`: "" for a shell; `files`: what it edits."""

    tool: str = ""
    command: str = ""
    files: tuple[str, ...] = ()


def call_of(tool: str, given: Any) -> ToolCall | None:
    """Return what a call of the tool `tool` does; None if it neither runs a command nor edits a file. `given`: its
    arguments, or the text of a patch."""
    name = tool.lower()
    fields = given if isinstance(given, Mapping) else {}
    if name in SHELLS:
        words = fields.get("command", fields.get("cmd", text_at(fields, "action", "command")))
        if isinstance(words, list):
            words = [word for word in words if isinstance(word, str)]
            words = words[2] if len(words) == 3 and words[1].startswith("-") else shlex.join(words)
        if not isinstance(words, str) or not words.strip():
            return None
        patched = tuple(_PATCH.findall(words[:LONGEST])) if "*** Begin Patch" in words else ()
        if patched:
            return ToolCall("apply_patch", files=patched)
        return None if only_looks(words) else ToolCall(command=_short(words))
    if name in EDITS:
        patch = given if isinstance(given, str) else fields.get("input", fields.get("patch"))
        found = _PATCH.findall(patch[:LONGEST]) if isinstance(patch, str) else []
        file = text_at(fields, "file_path") or text_at(fields, "notebook_path") or text_at(fields, "path")
        files = tuple(dict.fromkeys([*found, *([file] if file else [])]))
        return ToolCall(tool, files=files) if files else None
    return None


def only_looks(command: str) -> bool:
    """Return whether every part of a shell command only reads, lists or searches."""
    return len(command) < LONGEST and all(_LOOK.match(part) for part in _BETWEEN.split(command) if part.strip())


def _short(command: str) -> str:
    command = _HERE.sub(r"\1 …", command[:LONGEST]).strip()
    lines = command.splitlines()
    return command if len(lines) <= LINES else "\n".join(lines[:LINES]) + " …"


def status_of(text: str) -> int | None:
    """Return the exit status that a client states in the result of a command; None if it states none."""
    found = _STATUS.search(text[:400]) or _STATUS.search(text[-400:])
    return int(found[1]) if found else None


def done(
    reading: Reading, call: ToolCall, number: str, *, to: str, session: str, cwd: str | None, time: str | None,
    status: int, text: str, seconds: float | None = None,
) -> None:  # fmt: skip
    """Note in `reading` what the call with the id `number` did under the prompt `to`. `text`: what the tool returned.

    A file that is edited repeatedly without a command in between is noted once.
    """
    if not to:
        return
    files = tuple(_within(file, cwd) for file in call.files)
    if call.command or reading.editing != to:
        reading.edited.clear()
    reading.editing = to
    if not call.command and status == 0 and reading.edited.issuperset(files):
        return
    reading.edited.update(files if status == 0 else ())
    error = "" if status == 0 else error_of(text) if call.command else _first(text.splitlines())
    if (
        call.command
        and status == 0
        and _PIPED.search(call.command)
        and (error := error_despite(text.partition("<hook_context>")[0]))
    ):
        status = FAILED
    key = key_of("deed", to, number or len(reading.edited))[:16]
    reading.deeds.append(
        SessionDeed(key, to, session, cwd, time, call.tool, call.command, files, status, error, seconds)
    )


def _first(lines: Iterable[str]) -> str:
    found = next((line.strip() for line in lines if line.strip()), "")
    return re.sub(r"</?tool_use_error>|^Error: ", "", found)


def _within(file: str, cwd: str | None) -> str:
    """Return the path of a file relative to the session's folder, if it is in that folder."""
    path = PurePosixPath(file)
    return str(path.relative_to(cwd)) if cwd and path.is_absolute() and path.is_relative_to(cwd) else file
