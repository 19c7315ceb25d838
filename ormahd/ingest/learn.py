"""Makes memories from one archived session: finds its unread turns, checks the candidates, and commits the accepted
ones.

Each read becomes one commit. After a crash between it and the record that the session was read, the session is read
again; the checks then refuse what is known.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, cast

from msgspec import Struct, field
from msgspec.structs import replace

from ormahd.actions.amend import Caller, Outcome, define, outcome, transaction
from ormahd.actions.evidence import of_that_time
from ormahd.actions.projects import home_of, settle
from ormahd.actions.tombstones import bury, of_statements, turn_of
from ormahd.actions.views import headline
from ormahd.errors import Conflict
from ormahd.ingest.batches import MemoryCandidate
from ormahd.ingest.checks import REASONS, WAITS, Checks, note_of
from ormahd.ingest.orders import can_be_acted_on
from ormahd.ingest.readers.turns import SessionTurn
from ormahd.ingest.readers.values import local_time
from ormahd.ingest.taking_back import take_back
from ormahd.model.change import Kind
from ormahd.model.node import ABOUT_SELF, NodeType
from ormahd.note.values import path_for
from ormahd.ormah import Ormah
from ormahd.process import priority
from ormahd.sessions.archive import Archived, ArchivedDeed, SessionTail
from ormahd.state.extraction import KEYS_KEPT, Extractions, PlannedMemory, SessionProgress, Way
from ormahd.state.sessions import is_excluded
from ormahd.text.quoting import shortened

JOB: Final = "job:extraction"
BEFORE: Final = 100
"""Number of turns before the unread ones that the rules read again, because something that began there, such as a role
play, may still be going on."""
NAMED: Final = 100
"""Maximum number of memories that a commit message lists."""

PAUSE: Final = timedelta(minutes=1)
LONGEST_PAUSE: Final = timedelta(hours=6)
"""The longest time for which a session that could not be read is left alone. It begins with `PAUSE` and doubles with
each failure in a row."""


Hold = Callable[[PlannedMemory], object]
"""A function that proposes a memory to a person instead of storing it."""


class UnreadTurns(Struct, frozen=True):
    """The unread turns of a session, with its read ones. `turns`: all turns of the session; `start`: index of the
    first unread turn."""

    tail: SessionTail
    turns: tuple[Archived, ...]
    start: int

    @property
    def shown(self) -> Iterable[SessionTurn]:
        """The unread turns with up to `BEFORE` read turns before them. Because of these read turns, the memories
        found do not depend on where the last read happened to end. Times are the person's."""
        return priority.giving(
            SessionTurn(cast("Any", one.role), one.text, local_time(one.time), self.tail.id, one.key, self.tail.cwd)
            for one in self.turns[max(0, self.start - BEFORE) :]
        )

    @property
    def fresh(self) -> set[str]:
        return {one.key for one in self.turns[self.start :]}

    def until(self, end: int | None = None) -> tuple[str, ...]:
        """Return the position to store once the turns before index `end` (None: all) are read: the keys of the last
        of these turns, the last one first."""
        read = self.turns if end is None else self.turns[:end]
        return tuple(one.key for one in reversed(read[-KEYS_KEPT:]))


class Learning(Struct):
    """What was found in a session. `memories`: to be committed; `held`: to be proposed, because an agent could act on
    them; `refused`: reason -> number of refused candidates; `replaces`: how many of the memories seem to replace an
    older one."""

    memories: list[PlannedMemory] = field(default_factory=list)
    held: list[PlannedMemory] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    replaces: int = 0

    def add(self, other: Learning) -> None:
        self.memories += other.memories
        self.held += other.held
        self.refused += other.refused
        self.replaces += other.replaces


def unread(ormah: Ormah, tail: SessionTail, way: Way) -> UnreadTurns:
    """Return a session with its unread turns, those that `way` has not read."""
    turns = tuple(ormah.sessions.turns_of(tail.path))
    place = {one.key: number for number, one in enumerate(turns, 1)}
    known = Extractions(ormah.state).of(tail.path, way)
    start = next((place[key] for key in (known.until if known else ()) if key in place), 0)
    return UnreadTurns(tail, turns, start)


def readable(ormah: Ormah) -> list[SessionTail]:
    """Return the sessions that may be read for memories, newest first: all but those that began in a folder that the
    setting `sessions.exclude` now excludes."""
    tails, patterns = ormah.sessions.tails(), ormah.settings.sessions.exclude
    hidden = {cwd for cwd in {one.cwd for one in tails} if patterns and cwd is not None and is_excluded(cwd, patterns)}
    return [one for one in tails if one.cwd not in hidden]


def is_open(known: SessionProgress | None, tail: SessionTail, now: datetime | None) -> bool:
    """Return whether a session has unread turns. `known`: how far it was read; None: never. If `now` is given, also
    return False for a session that failed and is not to be tried again before a later time."""
    if known is None or known.until[:1] == (tail.key,):
        return known is None
    pause = min(LONGEST_PAUSE, PAUSE * 2 ** min(known.tries - 1, 10))
    return now is None or not known.tries or now - known.time >= pause


def propose(
    ormah: Ormah, checks: Checks, some: UnreadTurns, candidates: Iterable[MemoryCandidate], *,
    fresh: Collection[str] | None = None,
) -> Learning:  # fmt: skip
    """Check the candidates found in a session, and return the accepted ones as memories. Candidates that come from no
    unread turn are ignored. `fresh`: the keys of the unread turns; None: those that are unread in `some`."""
    out = Learning()
    turns = {one.key: one for one in some.turns}
    fresh = some.fresh if fresh is None else fresh
    home = home_of(ormah, some.tail.cwd)
    space = None if home is None else home.space
    before = checks.replaces
    deeds = ormah.sessions.deeds_of(some.turns[0].session) if some.turns else []
    for one in candidates:
        if any(turn in fresh for turn in one.turns):
            found = checks.check(one, some.tail, space, turns)
            if isinstance(found, str):
                out.refused[found] += 1
                continue
            prompts = {turns[key].asked for key in one.turns if key in turns}
            found = replace(found, evidence=_evidence(some, deeds, prompts, f"{found.title}\n{found.content}"))
            if can_be_acted_on(one.type, found.content):
                out.refused[WAITS] += 1
                out.held.append(found)
            else:
                out.memories.append(found)
    out.replaces = checks.replaces - before + sum(bool(one.corrects) for one in out.memories)
    return out


def _evidence(some: UnreadTurns, deeds: Sequence[ArchivedDeed], prompts: Collection[int], text: str) -> tuple[str, ...]:
    """Return the files that a memory names and that the agent edited under its prompts (their places), as `path@blob`.
    `deeds`: what was done in the session."""
    cwd, last = some.tail.cwd, some.tail.last
    if cwd is None or last is None:
        return ()
    edited = [path for one in deeds if one.turn in prompts and not one.command for path in one.files.splitlines()]
    named = [path for path in edited if re.search(rf"(?<![\w.-]){re.escape(path.rpartition('/')[2])}(?![\w-])", text)]
    return of_that_time(cwd, named, datetime.fromisoformat(last))


def learn(
    ormah: Ormah, some: UnreadTurns, way: Way, found: Learning, caller: Caller, *, until: tuple[str, ...], hold: Hold,
    run: str | None = None,
) -> Outcome | None:  # fmt: skip
    """Commit the accepted memories, if there are any, propose those that wait for a person (`hold`), take back what
    the person takes back, and store `until` as the position up to which the session is read.

    Raises:
        VaultBusy: another process holds git. Nothing was committed; the session is read again.
    """
    done = None
    if found.memories:
        if any(one.space for one in found.memories):
            settle(ormah, Caller(agent=caller.agent, cwd=some.tail.cwd))
        try:
            done = _store(ormah, some.tail, found, caller, run)
        except Conflict:  # the self node was edited in the meantime: try once more
            done = _store(ormah, some.tail, found, caller, run)
    for one in found.held:
        hold(one)
    take_back(ormah, some, caller)
    made = {one.node_id: turn_of(one.said_in) for one in found.memories}
    Extractions(ormah.state).done(some.tail.path, way, until, made)
    return done


def _store(ormah: Ormah, tail: SessionTail, found: Learning, caller: Caller, run: str | None) -> Outcome:
    new = found.memories
    with ormah.writing:
        subject = f"Learned from a session: {headline(new[0].title, new[0].content)}"
        if len(new) > 1:
            subject = f"Learned {len(new)} memories from a session of {tail.harness}"
        lines = [f"turn {one.turn}: {headline(one.title, one.content)}" for one in new[:NAMED]]
        lines += [f"corrects what was said of: {shortened(one.corrects, 200)}" for one in new if one.corrects]
        if found.refused:
            why = ", ".join(f"{number} {REASONS.get(name, name)}" for name, number in sorted(found.refused.items()))
            lines.append(f"Not stored: {why}.")
        body, run = "\n".join([f"Session {tail.id}", *lines]), run or ormah.new_run()
        with transaction(ormah, subject, kind=Kind.INGEST, caller=caller, body=body, run=run) as tx:
            places = [(one, _place(one)) for one in new]
            for one, path in places:
                tx.put(path, note_of(one, ormah.moment()), node_id=one.node_id, expect=None)
            define(ormah, tx, [path for one, path in places if ABOUT_SELF in one.tags])
        return outcome(tx)


def _place(one: PlannedMemory) -> str:
    kind, created = NodeType(one.type), one.created
    return path_for(id=one.node_id, type=kind, space=one.space, title=one.title, content=one.content, created=created)


def bury_the_missing(ormah: Ormah) -> int:
    """Write tombstones for extracted memories that were deleted without an op, such as by a person or a `git revert`,
    so that they are not made again.

    Return the number of tombstones written.
    """
    record = Extractions(ormah.state)
    made = record.made()
    if not made or "mender" in ormah.index.lags or ormah.vault.busy():
        return 0
    there = ormah.index.notes(list(made))
    known = ormah.learned.forgotten()
    gone = [node_id for node_id in made if node_id not in there]
    lost = [node_id for node_id in gone if not known.turn(made[node_id])]
    if lost:
        lines = of_statements(ormah, [(None, made[one]) for one in lost])
        what = "a memory that is" if len(lost) == 1 else f"{len(lost)} memories that are"
        subject = f"Not to be learned again: {what} gone"
        with transaction(ormah, subject, kind=Kind.FORGET, caller=Caller(agent=JOB)) as tx:
            bury(ormah, tx, lines)
    record.drop(gone)
    return len(lost)
