"""Show an agent the memories that are about the file that it edits, or the command that it runs.

What each memory is about is in the index (`text.bearing`, and the properties `paths` and `commands`). `ActTable` holds
it in memory, so that a tool costs no search: commands by their program, files by the last part of their path. A
person's memory may also have a *guard*: then the person is asked first, or the tool is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from msgspec import Struct, field

from ormahd.actions.evidence import mark_stale
from ormahd.actions.views import replaced_today
from ormahd.index.reader import Reader
from ormahd.index.rows import Acts, NodeRow, read_acts
from ormahd.model.node import NoteGuard, Tier
from ormahd.ormah import Ormah
from ormahd.text import bearing
from ormahd.text.harness import SHELL, Commands
from ormahd.text.quoting import one_line
from ormahd.whisper.greet import CONTENT, Greeting
from ormahd.whisper.render import WHISPERS, enclose, line
from ormahd.whisper.types import Display, context_key

MAX_SHOWN: Final = 2
"""Maximum number of memories shown for one edit or command: a line each."""
FEW: Final = 4
"""Maximum number of memories of a space that may name a thing. What more of them name in their texts says too
little."""
POOL: Final = 16
"""Maximum number of memories that are read for one tool."""
REASON: Final = 400
"""Maximum number of characters of a memory in the reason of a guard."""


class Action(Struct, frozen=True):
    """What an agent is about to do: the simple commands that it runs, and the files that it changes."""

    commands: Sequence[Sequence[str]] = ()
    files: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.commands or self.files)


def action(command: str | None, files: Sequence[str]) -> Action:
    """Return the action of a tool that runs `command`, or changes `files`."""
    commands = bearing.simple_commands(command) if command else []
    changed = [*files, *(path for words in commands for path in bearing.changed_files(words))]
    return Action(
        [words for words in commands if words[0] not in bearing.LOOKING], [path.replace("\\", "/") for path in changed]
    )


class Match(Struct, frozen=True):
    """A memory that an action concerns.

    `given`: whether a property of the note names the file or command. `weight`: number of words or folders that the
    memory names of it.
    """

    given: bool
    weight: int
    id: str


def _sort_key(match: Match) -> tuple[bool, int, str]:
    """Return the sort key of a match: those that a property names first, then those that name more."""
    return not match.given, -match.weight, match.id


class _Named(Struct, frozen=True):
    """A glob or pattern of the memory `id`. `given`: as for `Match`."""

    text: str
    given: bool
    id: str


_WILD: Final = set("*?[")


class SpaceActs:
    """The commands, files and things that the memories of one space are about, each with its memories."""

    def __init__(self, acts: Iterable[tuple[str, Acts]], *, everywhere: bool) -> None:
        """`acts`: (node id, what the memory is about); `everywhere`: whether the memories are global.

        For global memories the name of a file without a folder is left out: it may be a file of any project.
        """
        files: list[tuple[str, _Named]] = []
        commands: list[tuple[str, _Named]] = []
        things: list[tuple[str, _Named]] = []
        for node_id, of_node in acts:
            # a file is found by the last part of its path
            globs = [*((text, True) for text in of_node.paths), *((text, False) for text in of_node.files)]
            for text, given in globs:
                if given or "/" in text or not everywhere:
                    files.append((text.rstrip("/").rpartition("/")[2], _Named(text, given, node_id)))
            # a command is found by its program; a pattern that begins with a flag is for every program
            patterns = [*((text, True) for text in of_node.commands), *((text, False) for text in of_node.patterns)]
            for text, given in patterns:
                first = text.split()[0]
                commands.append(("*" if first[0] == "-" else first.rpartition("/")[2], _Named(text, given, node_id)))
            for text in of_node.things:
                things += [(key, _Named(text, False, node_id)) for key in bearing.lookup_keys(text)]
        self.files, self.commands, self.things = map(_table, (files, commands, things))

    def matches(self, act: Action) -> list[Match]:
        """Return the memories that the action concerns, the best first. A memory may be listed several times."""
        found = []
        for path in act.files:
            for key in (*dict.fromkeys(path.split("/")), "*"):
                rows = (named for named in self.files.get(key, ()) if bearing.glob_matches(named.text, path))
                found += [Match(named.given, 1 + named.text.strip("/").count("/"), named.id) for named in rows]
        for words in act.commands:
            for key in dict.fromkeys((words[0], words[0].rpartition("/")[2], "*")):
                rows = (named for named in self.commands.get(key, ()) if bearing.pattern_matches(named.text, words))
                found += [Match(named.given, len(named.text.split()), named.id) for named in rows]
            for name in bearing.added_things(words):
                rows = (named for key in bearing.lookup_keys(name) for named in self.things.get(key, ()))
                found += [Match(False, 2, named.id) for named in rows if bearing.are_alike(named.text, name)]
        return sorted(found, key=_sort_key)


def _table(rows: Iterable[tuple[str, _Named]]) -> dict[str, list[_Named]]:
    """Return `{key: its globs and patterns}`. A key with wildcards becomes `*`.

    A text that more than `FEW` memories name is left out, unless a property names it.
    """
    table: dict[str, dict[str, list[_Named]]] = {}
    for key, named in rows:
        key = "*" if set(key) & _WILD else key
        table.setdefault(key, {}).setdefault(named.text, []).append(named)
    found: dict[str, list[_Named]] = {}
    for key, by_text in table.items():
        rare = (rows_of for rows_of in by_text.values() if len(rows_of) <= FEW or rows_of[0].given)
        found[key] = [named for rows_of in rare for named in rows_of]
    return found


class ActTable:
    """The commands, files and things that all memories are about, by space. Thread-safe.

    What the memories of a space are about is read from the index again after a memory of it changed.
    """

    def __init__(self, index: Reader) -> None:
        self._index = index
        self._lock = threading.Lock()
        self._spaces: dict[str | None, tuple[int, list[tuple[str, str]], SpaceActs]] = {}

    def matches(self, act: Action, space: str | None) -> list[Match]:
        """Return the memories of a space, and the global ones, that the action concerns: at most `POOL`, each once,
        best first."""
        best: dict[str, Match] = {}
        tables = [self.of(space), self.of(None)] if space is not None else [self.of(None)]
        for match in sorted((match for table in tables for match in table.matches(act)), key=_sort_key):
            best.setdefault(match.id, match)
        return list(best.values())[:POOL]

    def of(self, space: str | None) -> SpaceActs:
        """Return what the memories of a space are about; None: the global memories."""
        with self._lock:
            changes, rows, table = self._spaces.get(space, (-1, [], _NOTHING))
            if changes != self._index.changes:
                changes, known, rows = self._index.changes, rows, self._index.acts(space)
                if rows != known:
                    acts = ((node_id, read_acts(text)) for node_id, text in rows)
                    table = SpaceActs(acts, everywhere=space is None)
                self._spaces[space] = (changes, rows, table)
            return table


_NOTHING: Final = SpaceActs((), everywhere=False)


class AtHand(Struct, frozen=True):
    """What an agent is shown before an action.

    `guards`: memories whose guard applies, the strictest first: they want the person to be asked, or the action to be
    refused. A guard counts only if a person wrote it (`actions.lookup`). It applies to what the properties of its note
    name, or without such properties to what the text names.
    """

    greeting: Greeting = Greeting()
    guards: Sequence[NodeRow] = field(default_factory=list)


def compose(
    ormah: Ormah,
    matches: Sequence[Match],
    *,
    known: Collection[str],
    space: str | None,
    cwd: str | None,
    commands: Commands = SHELL,
) -> AtHand:
    """Return what an agent is shown of these memories before an action. Memories that a newer one replaced are left
    out.

    `known`: context keys (`context_key`) of memories that the session already has; they are not shown again. `cwd`: a
    folder of the project of `space`.
    """
    now = ormah.ranking_clock()
    rows = ormah.index.notes([match.id for match in matches])
    given = {match.id for match in matches if match.given}
    alive = [row for row in rows.values() if row.tier is not Tier.ARCHIVAL and not row.expired(now)]
    newer = replaced_today(ormah, [row.id for row in alive]) if alive else {}
    alive = [row for row in alive if row.id not in newer]
    unknown = [row for row in alive if context_key(row) not in known][:MAX_SHOWN]
    chosen = [mark_stale(row, cwd, space) for row in unknown]
    displays: dict[str, Display] = {
        context_key(row): "full" if len(row.content) <= CONTENT else "title" for row in chosen
    }
    text = enclose([line(row, text=sentence(row, CONTENT)) for row in chosen], commands=commands, heading=WHISPERS)
    guards = [row for row in alive if row.guard and (row.id in given or not (row.paths or row.commands))]
    guards.sort(key=lambda row: row.guard is not NoteGuard.DENY)
    return AtHand(Greeting(text, displays) if chosen else Greeting(), guards)


def guard_reason(row: NodeRow) -> str:
    """Return the reason of a guard for an action that is refused or put to the person: the memory's sentence and its
    id."""
    return f"{sentence(row, REASON)} (Ormah, memory {row.short_id}: guard {row.guard})"


def sentence(row: NodeRow, characters: int) -> str:
    """Return a memory on one line of at most `characters`: its title and text, without a title that the text begins
    with."""
    text = " ".join(row.content.split())
    title = (row.title or "").rstrip(" .…")
    head = "" if not title or text.casefold().startswith(title.casefold()) else f"{title}: "
    return one_line(head + text, characters)
