"""Makes deeds of tool calls: commands that an agent ran, and files that it edited. Pure.

A deed has only the exit status of the call's result, and, if the call failed, the first line that states the error. It
does not have what was written to a file: a command's here-documents are cut out. Commands that only read (`ls`,
`git diff`) and tools that read or search make no deed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
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
_HEREDOC: Final = re.compile(r"(<<-?[ \t]*(['\"]?)(\w+)\2[^\n]*)\n.*?(?:^[ \t]*\3[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_PIPED: Final = re.compile(r"\|\s*(?:tail|head|tee|cat|less|sed|sort|uniq|grep|rg|cut|awk)\b[^|&;]*$|\|\| true$")
"""Matches commands whose exit status is not that of what they run."""
_BETWEEN: Final = re.compile(r"&&|\|\|?|;|\n")
_READS: Final = re.compile(
    r"\s*(?:(?:ls|cat|cd|cut|date|echo|file|find|grep|head|less|nl|pwd|rg|sleep|sort|stat|tail|tr|tree|true|type|uniq|wc|which)\b"
    r"(?!.*(?:-exec|-delete))|sed -n\b|git (?:-C \S+ )?(?:--no-pager )?(?:branch$|diff|log|ls-files|remote -v|rev-parse|show|status)\b)"
    r"(?:[^>]|2>|[12]?>&[12]|>\s*/dev/null)*$"
)
_STATUS: Final = re.compile(r"(?:Process exited with code|[Ee]xit [Cc]ode:?|\"exit_code\":)[ \t]*(-?\d+)")


class DeedPlace(Struct, frozen=True):
    """Where a tool was called: under the prompt with the key `to` ("": under none), in which session and folder, and when."""

    to: str
    session: str
    cwd: str | None
    time: str | None


class ToolCall(Struct, frozen=True):
    """A tool call that does something. `tool`: "" for a shell; `files`: what it edits."""

    tool: str = ""
    command: str = ""
    files: tuple[str, ...] = ()


def call_of(tool: str, given: Any) -> ToolCall | None:
    """Return what a call of the tool `tool` does; None if it neither runs a command that changes something nor edits a
    file. `given`: its arguments, or the text of a patch."""
    name = tool.lower()
    fields = given if isinstance(given, Mapping) else {}
    if name in SHELLS:
        words = fields.get("command", fields.get("cmd", text_at(fields, "action", "command")))
        if isinstance(words, list):
            words = [word for word in words if isinstance(word, str)]
            # The third of `bash -lc COMMAND` is the command. Other lists are the command's own words.
            words = words[2] if len(words) == 3 and words[1].startswith("-") else shlex.join(words)
        if not isinstance(words, str) or not words.strip():
            return None
        patched = tuple(_PATCH.findall(words[:LONGEST])) if "*** Begin Patch" in words else ()
        if patched:
            return ToolCall("apply_patch", files=patched)
        if only_reads(words):
            return None
        command = _HEREDOC.sub(r"\1 …", words[:LONGEST]).strip()
        lines = command.splitlines()
        return ToolCall(command=command if len(lines) <= LINES else "\n".join(lines[:LINES]) + " …")
    if name in EDITS:
        patch = given if isinstance(given, str) else fields.get("input", fields.get("patch"))
        found = _PATCH.findall(patch[:LONGEST]) if isinstance(patch, str) else []
        file = text_at(fields, "file_path") or text_at(fields, "notebook_path") or text_at(fields, "path")
        files = tuple(dict.fromkeys([*found, *([file] if file else [])]))
        return ToolCall(tool, files=files) if files else None
    return None


def only_reads(command: str) -> bool:
    """Return whether every part of a shell command only reads, lists or searches."""
    return len(command) < LONGEST and all(_READS.match(part) for part in _BETWEEN.split(command) if part.strip())


def status_of(text: str) -> int | None:
    """Return the exit status that a client states in the result of a command; None if it states none."""
    found = _STATUS.search(text[:400]) or _STATUS.search(text[-400:])
    return int(found[1]) if found else None


def add_deed(
    reading: Reading, call: ToolCall, number: str, at: DeedPlace, status: int, text: str, seconds: float | None = None
) -> None:
    """Add the deed of a tool call to `reading`. `number`: the call's id; `at`: where it was called; `status`, `text`,
    `seconds`: its exit status, what it returned and how long it took.

    A file that is edited repeatedly without a command in between is added once. A call under no prompt is not added.
    """
    to, session, cwd, time = at.to, at.session, at.cwd, at.time
    if not to:
        return
    # Paths in the session's folder are relative to it.
    paths = [PurePosixPath(file) for file in call.files]
    inner = [p.relative_to(cwd) if cwd and p.is_absolute() and p.is_relative_to(cwd) else None for p in paths]
    files = tuple(str(inside or file) for inside, file in zip(inner, call.files, strict=True))

    # An edit is left out if the files were edited under this prompt since the last command.
    if call.command or reading.editing != to:
        reading.edited.clear()
    reading.editing = to
    if not call.command and status == 0 and reading.edited.issuperset(files):
        return
    reading.edited.update(files if status == 0 else ())

    # The error's first line. A command in a pipe may have failed although its status is 0.
    error = error_of(text) if status != 0 and call.command else ""
    if status != 0 and not call.command:
        first = next((line.strip() for line in text.splitlines() if line.strip()), "")
        error = re.sub(r"</?tool_use_error>|^Error: ", "", first)
    if (
        call.command
        and status == 0
        and _PIPED.search(call.command)
        and (error := error_despite(text.partition("<hook_context>")[0]))
    ):
        status = FAILED
    key = key_of("deed", to, number or len(reading.edited))[:16]
    deed = SessionDeed(key, to, session, cwd, time, call.tool, call.command, files, status, error, seconds)
    reading.deeds.append(deed)
