"""Compose the greeting: the text with memories that an agent gets at the start of a session.

It has core memories of the project, global ones and those about the user, within a limit of characters. Memories that
the session's context still contains are left out. `AgentCommands` reads which commands each agent can run.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from ormahd import paths
from ormahd.actions.evidence import mark_stale
from ormahd.actions.views import says_nothing
from ormahd.index.rows import GLOBAL, MEMORIES, EdgeRow, Filter, NodeRow
from ormahd.model.node import NodeType, Tier
from ormahd.process import own_files
from ormahd.text.harness import PROGRAM, SHELL, Commands, shell
from ormahd.whisper.gather import neighbours
from ormahd.whisper.render import REMEMBERS, enclose, fits_line, line, notice, quoted
from ormahd.whisper.types import Shown, context_key

log = logging.getLogger("ormahd.wiring")

AGENT: Final = "agent:"
"""Prefix of an agent's source (`actions.amend`)."""


class AgentCommands:
    """Reads which commands each agent can run, from the file that `ormahctl setup` writes.

    The file is read again after it changed. Thread-safe.
    """

    def __init__(self, file: Path | None = None) -> None:
        """`file`: path of the file that `ormahctl setup` writes; None for the default path."""
        self._file = file or paths.wiring_file()
        self._usual = shell(paths.program(PROGRAM))
        self._known: tuple[tuple[int, int, int] | None, Mapping[str, Commands]] = (None, {})

    def of(self, agent: str | None) -> Commands:
        """Return the commands of the agent with this name or source; the commands of a shell if the agent was not
        set up."""
        return self._read().get((agent or "").removeprefix(AGENT), self._usual)

    def _read(self) -> Mapping[str, Commands]:
        try:
            found = os.stat(self._file)
        except OSError:
            return {}
        stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
        known, commands = self._known
        if known != stamp:
            commands = _parsed(self._file)
            self._known = (stamp, commands)
        return commands


def _parsed(file: Path) -> Mapping[str, Commands]:
    """Return `{agent: its commands}` from `file`; empty if it cannot be read, so that a whisper does not fail."""
    try:
        programs = msgspec.json.decode(own_files.read(file, follow=True), type=dict[str, paths.AgentConnection])
    except (OSError, msgspec.DecodeError) as exc:
        log.warning("%s cannot be read (%s); renew it: ormahctl setup AGENT", file, type(exc).__name__)
        return {}
    return {agent: shell(wired["program"]) for agent, wired in programs.items()}


CHARACTERS: Final = 1_500
"""Largest number of characters of a greeting, which every session pays for."""
CONTENT: Final = 240
"""Maximum number of characters of one memory's content that are shown."""
LATEST: Final = (NodeType.DECISION, NodeType.PROCEDURE)
MOST_LATEST: Final = 4
"""Maximum number of the project's latest decisions and procedures."""
MOST: Final = 20
"""Maximum number of memories in a greeting."""


class GreetingIndex(Protocol):
    """What a greeting needs from the index: edges, ids of memories by filter, and the memories with given ids."""

    def edges_of(self, ids: Sequence[str] | None = None) -> list[EdgeRow]: ...
    def ids(self, chosen: Filter) -> list[str]: ...
    def newest(self, chosen: Filter, limit: int) -> list[str]: ...
    def notes(self, ids: Sequence[str]) -> dict[str, NodeRow]: ...


Replaced = Callable[[Sequence[str]], Mapping[str, str]]
"""Function from ids to `{older id: newer id}`, for those memories that a newer one replaced."""


class Greeting(Struct, frozen=True):
    """A text with memories for an agent, and `{context key: how the memory is shown in it}`; both may be empty."""

    text: str = ""
    shown: Mapping[str, Shown] = field(default_factory=dict)


def greet(
    index: GreetingIndex,
    *,
    space: str | None,
    self_id: str,
    known: Collection[str],
    now: datetime,
    commands: Commands = SHELL,
    replaced: Replaced = lambda _: {},
    stopped: Sequence[str] = (),
    cwd: str | None = None,
) -> Greeting:
    """Return the greeting for a session that begins in `space`.

    `known`: context keys of memories that the session already has; they are left out. `replaced`: returns for ids
    `{older id: newer id}` of those that a newer memory replaced; the older memories are marked. `stopped`: lines about
    where the project's last session stopped, which stand first and are not counted as characters. `cwd`: a folder in the
    project of `space`.
    """
    room = CHARACTERS - len(enclose([], commands=commands, heading=REMEMBERS))
    lines = [*map(notice, stopped), *([""] if stopped else [])]
    shown: dict[str, Shown] = {}
    due = [row for row in _due(index, space, self_id, now) if context_key(row) not in known]
    newer = replaced([row.id for row in due[:MOST]])
    for row in due:
        entry, how = _entry(mark_stale(row, cwd, space), room, newer.get(row.id))
        if entry is None or len(shown) == MOST:
            break
        lines += entry
        shown[context_key(row)] = how
        room -= sum(len(one) + 1 for one in entry)
    return Greeting(enclose(lines, commands=commands, heading=REMEMBERS), shown) if lines else Greeting()


def _due(index: GreetingIndex, space: str | None, self_id: str, now: datetime) -> Iterator[NodeRow]:
    """Yield core memories of this space and its latest decisions and procedures, then global core memories, then the
    self node and the memories connected to it by `defines`."""
    linked = neighbours(index.edges_of([self_id]), self_id)
    core = index.ids(Filter(tiers=(Tier.CORE,), spaces=(GLOBAL, *([space] if space else [])), alive_at=now))
    latest = (
        replace(MEMORIES, types=LATEST, tiers=(Tier.CORE, Tier.WORKING), spaces=(space,), alive_at=now)
        if space
        else None
    )
    fresh = index.newest(latest, MOST_LATEST) if latest else []
    rows = index.notes([self_id, *linked, *core, *fresh])
    me = rows.pop(self_id, None)
    here = [row for row in rows.values() if row.space in (None, space) and not row.expired(now) and not row.rejected]
    here = sorted((row for row in here if row.tier is not Tier.ARCHIVAL), key=_first)
    yield from (row for row in here if row.tier is Tier.CORE and row.space)
    yield from (rows[one] for one in fresh if rows[one].tier is not Tier.CORE and not rows[one].rejected)
    yield from (row for row in here if row.tier is Tier.CORE and not row.space)
    if me is not None and not says_nothing(me):
        yield me
    yield from (row for row in here if row.tier is not Tier.CORE and row.id not in fresh)


def _first(row: NodeRow) -> tuple[bool, float, float, str]:
    """Return the sort key of a memory: core before working, then the most important first, then the newest."""
    return (row.tier is not Tier.CORE, -row.strength.importance, -row.created.timestamp(), row.id)


def _entry(row: NodeRow, room: int, newer: str | None) -> tuple[list[str] | None, Shown]:
    """Return (lines of a memory, how it is shown). The lines are None if not even its title fits into `room`
    characters.

    `newer`: id of the memory that replaced it.
    """
    head = line(row, older_than=newer)
    if len(head) + 1 > room:
        return None, "title"
    if fits_line(row.content, row.title):
        return [head], "full"
    body = quoted(row.content, CONTENT)
    if not body:
        return [head], "full"
    if len(head) + len(body) + 2 > room:
        return [head], "title"
    return [head, body], "full" if len(row.content) <= CONTENT else "title"
