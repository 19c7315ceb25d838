"""Compose the greeting: the text with memories that an agent gets at the start of a session.

It has core memories of the project, global ones and those about the user, within a limit of characters. Memories that
the session's context still contains are left out. `AgentCommands` reads which commands each agent can run.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from ormahd import paths
from ormahd.actions.evidence import mark_stale
from ormahd.actions.views import replaced_today, says_nothing
from ormahd.index.rows import GLOBAL, MEMORIES, Filter, NodeRow
from ormahd.model.node import NodeType, Tier
from ormahd.ormah import Ormah
from ormahd.process import own_files
from ormahd.text.harness import PROGRAM, SHELL, Commands, shell
from ormahd.whisper.gather import about_user
from ormahd.whisper.render import REMEMBERS, enclose, fits_line, line, notice, quoted
from ormahd.whisper.types import Display, context_key

log = logging.getLogger("ormahd.wiring")

Programs = dict[str, paths.AgentConnection]
AGENT: Final = "agent:"
"""Prefix of an agent's source (`actions.amend`)."""


class AgentCommands:
    """Returns the commands that each agent can run, read from the file that `ormahctl setup` writes. Thread-safe.

    The file is read again after it changed.
    """

    def __init__(self, file: Path | None = None) -> None:
        """`file`: path of the file that `ormahctl setup` writes; None for the default path."""
        self._file = file or paths.wiring_file()
        self._usual = shell(paths.program(PROGRAM))
        self._known: tuple[tuple[int, int, int] | None, Mapping[str, Commands]] = (None, {})

    def of(self, agent: str | None) -> Commands:
        """Return the commands of the agent with this name or source.

        Returns the commands of a shell if the agent was not set up, or the file cannot be read.
        """
        try:
            found = os.stat(self._file)
        except OSError:
            return self._usual
        stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
        known, commands = self._known
        if known != stamp:
            try:
                programs = msgspec.json.decode(own_files.read(self._file, follow=True), type=Programs)
            except (OSError, msgspec.DecodeError) as exc:
                log.warning("%s cannot be read (%s); renew it: ormahctl setup AGENT", self._file, type(exc).__name__)
                programs = {}
            commands = {name: shell(wired["program"]) for name, wired in programs.items()}
            self._known = (stamp, commands)
        return commands.get((agent or "").removeprefix(AGENT), self._usual)


CHARACTERS: Final = 1_500
"""Largest number of characters of a greeting, which every session pays for."""
CONTENT: Final = 240
"""Maximum number of characters of one memory's content that are shown."""
LATEST: Final = (NodeType.DECISION, NodeType.PROCEDURE)
MAX_LATEST: Final = 4
"""Maximum number of the project's latest decisions and procedures."""
MAX_MEMORIES: Final = 20
"""Maximum number of memories in a greeting."""


class Greeting(Struct, frozen=True):
    """A text with memories for an agent, and `{context key: how the memory is shown in it}`; both may be empty."""

    text: str = ""
    displays: Mapping[str, Display] = field(default_factory=dict)


def greet(
    ormah: Ormah,
    *,
    space: str | None,
    known: Collection[str],
    commands: Commands = SHELL,
    stopped: Sequence[str] = (),
    cwd: str | None = None,
) -> Greeting:
    """Return the greeting for a session that begins in `space`. Memories that a newer one replaced are marked.

    `known`: context keys of memories that the session already has; they are left out. `stopped`: lines about where the
    project's last session stopped. They come first, and do not count as characters. `cwd`: a folder in the project of
    `space`.
    """
    room = CHARACTERS - len(enclose([], commands=commands, heading=REMEMBERS))
    lines = [*map(notice, stopped), *([""] if stopped else [])]
    displays: dict[str, Display] = {}
    due = [row for row in _greeting_rows(ormah, space) if context_key(row) not in known]
    newer = replaced_today(ormah, [row.id for row in due[:MAX_MEMORIES]])
    for row in due:
        entry, display = _entry(mark_stale(row, cwd, space), room, newer.get(row.id))
        if entry is None or len(displays) == MAX_MEMORIES:
            break
        lines += entry
        displays[context_key(row)] = display
        room -= sum(len(text) + 1 for text in entry)
    return Greeting(enclose(lines, commands=commands, heading=REMEMBERS), displays) if lines else Greeting()


def _greeting_rows(ormah: Ormah, space: str | None) -> Iterator[NodeRow]:
    """Yield the memories for a greeting, in the order in which they are shown.

    The order is: core memories of this space, its latest decisions and procedures, global core memories, the self node,
    and the memories connected to it by `defines`.
    """
    index, self_id, now = ormah.index, ormah.vault.self_id, ormah.ranking_clock()
    linked = about_user(index.edges_of([self_id]), self_id)
    core = index.ids(Filter(tiers=(Tier.CORE,), spaces=(GLOBAL, *([space] if space else [])), alive_at=now))
    fresh: list[str] = []
    if space:
        latest = replace(MEMORIES, types=LATEST, tiers=(Tier.CORE, Tier.WORKING), spaces=(space,), alive_at=now)
        fresh = index.newest(latest, MAX_LATEST)
    rows = index.notes([self_id, *linked, *core, *fresh])
    person = rows.pop(self_id, None)
    local = [row for row in rows.values() if row.space in (None, space) and not row.expired(now) and not row.rejected]
    local = sorted(
        (row for row in local if row.tier is not Tier.ARCHIVAL),
        key=lambda row: (row.tier is not Tier.CORE, -row.strength.importance, -row.created.timestamp(), row.id),
    )
    yield from (row for row in local if row.tier is Tier.CORE and row.space)
    yield from (
        rows[node_id] for node_id in fresh if rows[node_id].tier is not Tier.CORE and not rows[node_id].rejected
    )
    yield from (row for row in local if row.tier is Tier.CORE and not row.space)
    if person is not None and not says_nothing(person):
        yield person
    yield from (row for row in local if row.tier is not Tier.CORE and row.id not in fresh)


def _entry(row: NodeRow, room: int, newer: str | None) -> tuple[list[str] | None, Display]:
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
