"""Decode the `h` frame that a harness's hook sends (DESIGN section 7; the events of each harness: REFERENCE part G).

The body is harness, event, directory and `ORMAH_SPACE`, each ended by a NUL, then the JSON that the harness wrote. The
directory is the hook's working directory, or `project=` and the folder in which the session began, if the harness tells it.
In the JSON only the prompt must have the right type. Any other field of a wrong type counts as missing, so that a change in
a harness does not leave prompts unanswered. JSON that msgspec rejects is decoded by `lenient`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec import Struct

from ormahd.errors import BadRequest
from ormahd.rpc import lenient


class HookAct(Enum):
    """The meaning of a harness's event for Ormah."""

    PROMPT = "prompt"
    """A prompt was submitted, and the agent has not answered yet."""
    START = "start"
    """A session started, was resumed, or continues with an emptied context."""
    COMPACTED = "compacted"
    """The context was compacted, and no START event follows."""
    TRANSCRIPT = "transcript"
    """The transcript has grown, and may be ingested."""


_OF_ALL: Final = {"SessionStart": HookAct.START, "SessionEnd": HookAct.TRANSCRIPT}
_CLAUDE: Final = {
    **_OF_ALL,
    "UserPromptSubmit": HookAct.PROMPT,
    "Stop": HookAct.TRANSCRIPT,
    "PreCompact": HookAct.TRANSCRIPT,
}
HARNESSES: Final[Mapping[str, Mapping[str, HookAct]]] = MappingProxyType({
    "claude-code": _CLAUDE,
    # Newer versions of Codex send a SessionStart after PostCompact; older versions do not
    "codex": {**_CLAUDE, "PostCompact": HookAct.COMPACTED},
    "gemini": {
        **_OF_ALL,
        "BeforeAgent": HookAct.PROMPT,
        "AfterAgent": HookAct.TRANSCRIPT,
        "PreCompress": HookAct.COMPACTED,
    },
})  # fmt: skip
"""{harness: {event: its meaning}}. Claude Code and Codex use the same names of events, Gemini CLI has its own."""

NAME_CHARACTERS: Final = 1_000
"""Maximum length of a session's id or a space. A longer id is ignored, a longer space is cut."""
PATH_CHARACTERS: Final = 4_096


class Event(Struct, frozen=True):
    """One event of a session. A field that the harness did not send is None or empty."""

    harness: str
    name: str
    act: HookAct
    prompt: str = ""
    session_id: str | None = None
    cwds: tuple[str, ...] = ()
    """The session's working directory as the harness says, then that of the hook's process; either may be missing."""
    project: str | None = None
    """The folder in which the session began, if the harness tells it."""
    space: str | None = None
    """The value of the environment variable `ORMAH_SPACE`."""
    transcript: str | None = None
    source: str | None = None
    """The cause of a START event: startup, resume, clear or compact."""
    of_sub_agent: bool = False
    """Whether the event comes from a sub-agent, whose prompt was written by another agent."""


class _Said(msgspec.Struct):
    prompt: Any = None
    session_id: Any = None
    cwd: Any = None
    transcript_path: Any = None
    source: Any = None
    agent_id: Any = None


_PROJECT: Final = "project="
_DECODER: Final = msgspec.json.Decoder(_Said)


def read(body: bytes) -> Event:
    """Decode the body of a hook's frame.

    Raises:
        BadRequest: the body has another form, the harness or event is unknown, or the JSON is invalid. The message quotes no
            text of the JSON.
    """
    parts = body.split(b"\0", 4)
    if len(parts) != 5:
        raise BadRequest("a hook's frame has harness, event, directory and space, each before a NUL")
    harness, name, cwd, space = (_decoded(part) for part in parts[:4])
    act = HARNESSES.get(harness, {}).get(name)
    if act is None:
        raise BadRequest(f"no harness {harness[:40]!r} with an event {name[:40]!r}")
    try:
        said = _DECODER.decode(parts[4])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            said = _Said(**lenient.fields(parts[4], _Said.__struct_fields__))
        except ValueError as exc:
            raise BadRequest(f"what {harness} says of {name} cannot be read: {exc}") from None
    if act is HookAct.PROMPT and not isinstance(said.prompt, str):
        raise BadRequest(f"{harness} says no prompt with {name}")
    project = cwd.removeprefix(_PROJECT) if cwd.startswith(_PROJECT) else ""
    return Event(
        harness=harness,
        name=name,
        act=act,
        prompt=_whole(said.prompt) if isinstance(said.prompt, str) else "",
        session_id=_text(said.session_id, NAME_CHARACTERS),
        cwds=tuple(filter(None, (_text(said.cwd, PATH_CHARACTERS), "" if project else cwd))),
        project=_text(project, PATH_CHARACTERS),
        space=" ".join(space.split())[:NAME_CHARACTERS] or None,
        transcript=_text(said.transcript_path, PATH_CHARACTERS),
        source=_text(said.source, NAME_CHARACTERS),
        of_sub_agent=bool(said.agent_id),
    )


def _decoded(part: bytes) -> str:
    """Decode UTF-8; invalid UTF-8 gives "", because such a name or path cannot be stored."""
    try:
        return part.decode()
    except UnicodeDecodeError:
        return ""


def _text(value: Any, longest: int) -> str | None:
    if not isinstance(value, str) or not value.strip() or len(value) > longest or "\0" in value:
        return None
    return _whole(value)


def _whole(text: str) -> str:
    """Replace surrogates, which cannot be encoded in UTF-8, with "?"."""
    return text.encode("utf-8", "replace").decode()
