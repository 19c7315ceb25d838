"""What a harness's hook says: an `h` frame, read (DESIGN section 7; each harness's own words: REFERENCE part G).

The body is harness, event, directory and `ORMAH_SPACE`, each before a NUL, then the JSON that the harness wrote. The directory is
the hook's working directory, or `project=` and the folder in which the session began, where the harness names that.
Of that JSON the prompt must be what it ought to be; anything else of a wrong type counts as not said, because harnesses
change and a prompt should not go unanswered for it. What a strict reader refuses is read leniently.
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
    """What an event is to us."""

    PROMPT = "prompt"
    """A prompt, before the agent answers it."""
    START = "start"
    """A session begins, goes on, or has lost its context."""
    COMPACTED = "compacted"
    """The context is thrown away, and no start of a session will say so."""
    TRANSCRIPT = "transcript"
    """Something was said that may be worth keeping."""


_OF_ALL: Final = {"SessionStart": HookAct.START, "SessionEnd": HookAct.TRANSCRIPT}
_CLAUDE: Final = {
    **_OF_ALL,
    "UserPromptSubmit": HookAct.PROMPT,
    "Stop": HookAct.TRANSCRIPT,
    "PreCompact": HookAct.TRANSCRIPT,
}
HARNESSES: Final[Mapping[str, Mapping[str, HookAct]]] = MappingProxyType({
    "claude-code": _CLAUDE,
    # of the newer ones a SessionStart follows, which gives back what is due; of the older ones nothing does
    "codex": {**_CLAUDE, "PostCompact": HookAct.COMPACTED},
    "gemini": {
        **_OF_ALL,
        "BeforeAgent": HookAct.PROMPT,
        "AfterAgent": HookAct.TRANSCRIPT,
        "PreCompress": HookAct.COMPACTED,
    },
})  # fmt: skip
"""Harness -> event -> what it is to us. Claude Code and Codex have the same words, Gemini CLI has its own."""

NAME_CHARACTERS: Final = 1_000
"""A session's id or a space with more is none."""
PATH_CHARACTERS: Final = 4_096


class Event(Struct, frozen=True):
    """One event of a session. What was not said is None."""

    harness: str
    name: str
    act: HookAct
    prompt: str = ""
    session_id: str | None = None
    cwds: tuple[str, ...] = ()
    """Where the session works: as the harness says, then as the hook's process found it."""
    project: str | None = None
    """The folder in which the session began, where the harness names it."""
    space: str | None = None
    """`ORMAH_SPACE` of the session's surroundings."""
    transcript: str | None = None
    source: str | None = None
    """Why a session starts: startup, resume, clear, compact."""
    of_sub_agent: bool = False
    """An agent wrote this to another one: no person is asking."""


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
    """The event that a frame's body tells of.

    Raises:
        BadRequest: no such frame, no harness or event of ours, or its JSON cannot be read; no text of it is quoted.
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
    """As text; what is no UTF-8 cannot be a name or a path that anybody could store."""
    try:
        return part.decode()
    except UnicodeDecodeError:
        return ""


def _text(value: Any, longest: int) -> str | None:
    if not isinstance(value, str) or not value.strip() or len(value) > longest or "\0" in value:
        return None
    return _whole(value)


def _whole(text: str) -> str:
    """Without halves of characters: they go into no file and no database."""
    return text.encode("utf-8", "replace").decode()
