"""Makes memories from one archived session: finds its unread turns, checks the candidates, and commits the accepted
ones.

Each read becomes one commit. Before it, the memories are stored in the state as a plan, with their ids. After a crash
the plan is completed, so that no memory is lost or made twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import Struct, field

from ormahd.actions.amend import Caller, commit, see
from ormahd.actions.projects import home_of, settle
from ormahd.actions.tombstones import bury, of_statements, turn_of
from ormahd.actions.views import headline, stem
from ormahd.errors import Conflict
from ormahd.ingest.checks import REASONS, WAITS, Checks, Origin, note_of
from ormahd.ingest.orders import can_be_acted_on
from ormahd.ingest.readers.turns import SessionTurn
from ormahd.model.change import Kind
from ormahd.model.node import ABOUT_SELF, EdgeType, NodeType
from ormahd.note.edit import edit
from ormahd.note.values import NoteLink
from ormahd.process import priority
from ormahd.sessions.archive import Archived, SessionTail
from ormahd.sessions.excluded import is_excluded
from ormahd.sessions.files import word_of
from ormahd.state.extraction import KEYS_KEPT, ExtractionPlan, Extractions, PlannedMemory
from ormahd.state.sources import SourceLog
from ormahd.text.quoting import shortened

if TYPE_CHECKING:
    from ormahd.actions.amend import Outcome
    from ormahd.ingest.batches import MemoryCandidate
    from ormahd.ormah import Ormah
    from ormahd.sessions.files import Line
    from ormahd.state.extraction import Way
    from ormahd.vault.transaction import Transaction

JOB: Final = "job:extraction"
BEFORE: Final = 100
"""Number of turns before the unread ones that the rules read again, because something that began there, such as a role
play, may still be going on."""
NAMED: Final = 100
"""Maximum number of memories that a commit message lists."""


Hold = Callable[[PlannedMemory], object]
"""A function that proposes a memory to a person instead of storing it."""


class _Patient(tuple[SessionTurn, ...]):
    """A tuple of turns whose iteration pauses while requests to the daemon are being answered."""

    __slots__ = ()

    def __iter__(self) -> Iterator[SessionTurn]:
        return iter(priority.giving(super().__iter__()))


class UnreadTurns(Struct, frozen=True):
    """The unread turns of a session, with its read ones. `turns`: all turns of the session; `start`: index of the
    first unread turn."""

    tail: SessionTail
    turns: tuple[Archived, ...]
    start: int

    @property
    def shown(self) -> Sequence[SessionTurn]:
        """The unread turns with up to `BEFORE` read turns before them. Because of these read turns, the memories
        found do not depend on where the last read happened to end."""
        return _Patient(said(self.tail, one) for one in self.turns[max(0, self.start - BEFORE) :])

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


def said(tail: SessionTail, one: Archived) -> SessionTurn:
    return SessionTurn(cast("Any", one.role), one.text, one.time, tail.id, one.key, tail.cwd)


def unread(ormah: Ormah, tail: SessionTail, way: Way, *, more: Sequence[Line] = ()) -> UnreadTurns:
    """Return a session with its unread turns, those that `way` has not read. `more`: turns that follow the archived
    ones in a dry run."""
    turns = tuple(ormah.sessions.turns_of(tail.path))
    turns += tuple(
        Archived(0, one.key, 0, at, one.role, one.time, one.text) for at, one in enumerate(more, len(turns) + 1)
    )
    place = {one.key: number for number, one in enumerate(turns, 1)}
    known = Extractions(ormah.state).of(tail.path, way)
    start = next((place[key] for key in (known.until if known else ()) if key in place), 0)
    return UnreadTurns(tail, turns, start)


def readable(ormah: Ormah) -> list[SessionTail]:
    """Return the sessions that may be read for memories, newest first: all but those that began in a folder that the
    setting `sessions.exclude` now excludes."""
    patterns = ormah.settings.sessions.exclude
    excluded: dict[str, bool] = {}

    def hidden(cwd: str | None) -> bool:
        if cwd is not None and cwd not in excluded:
            excluded[cwd] = is_excluded(cwd, patterns)
        return cwd is not None and excluded[cwd]

    return [one for one in ormah.sessions.tails() if not patterns or not hidden(one.cwd)]


def take_up(ormah: Ormah, way: Way) -> int:
    """If the state was lost, restore up to where each session was read: up to the last of its turns from which the
    vault has a memory.

    The state was lost if it does not know the ids of memories that were made from sessions. Return the number of
    sessions whose position was restored.
    """
    record = Extractions(ormah.state)
    made = record.made()
    said: dict[str, set[str]] = {}
    for node_id, said_in in ormah.index.extracted().items():
        if node_id not in made:
            said.setdefault(said_in.rpartition("#")[0], set()).add(turn_of(said_in))
    known = record.all(way) if said else {}
    moved = 0
    for tail in ormah.sessions.tails() if said else ():
        keys = said.get(word_of(tail.id), set()) if tail.path not in known else set()
        turns = ormah.sessions.turns_of(tail.path) if keys else []
        read = max((at for at, one in enumerate(turns, 1) if one.key in keys), default=0)
        if read:
            record.move(tail.path, way, tuple(one.key for one in reversed(turns[:read])))
            moved += 1
    return moved


def propose(
    ormah: Ormah,
    checks: Checks,
    some: UnreadTurns,
    candidates: Iterable[MemoryCandidate],
    *,
    fresh: set[str] | None = None,
) -> Learning:
    """Check the candidates found in a session, and return the accepted ones as memories. Candidates that come from no
    unread turn are ignored. `fresh`: the keys of the unread turns; None: those that are unread in `some`."""
    out = Learning()
    turns = {one.key: one for one in some.turns}
    fresh = some.fresh if fresh is None else fresh
    home = home_of(ormah, some.tail.cwd)
    origin = Origin(some.tail.id, some.tail.harness, None if home is None else home.space)
    before = checks.replaces
    for one in candidates:
        if not fresh.isdisjoint(one.turns):
            found = checks.check(one, origin, turns)
            if isinstance(found, str):
                out.refused[found] += 1
            elif can_be_acted_on(one.type, found.content):
                out.refused[WAITS] += 1
                out.held.append(found)
            else:
                out.memories.append(found)
    out.replaces = checks.replaces - before + sum(bool(one.corrects) for one in out.memories)
    return out


def learn(
    ormah: Ormah,
    some: UnreadTurns,
    way: Way,
    found: Learning,
    caller: Caller,
    *,
    until: tuple[str, ...],
    hold: Hold,
    run: str | None = None,
) -> Outcome | None:
    """Commit the accepted memories, if there are any, propose those that wait for a person (`hold`), and store
    `until` as the position up to which the session is read.

    Raises:
        VaultBusy: another process holds git. Nothing was committed; the next read of the session commits the plan.
    """
    for one in found.held:
        hold(one)
    record = Extractions(ormah.state)
    plan = ExtractionPlan(tuple(found.memories), dict(found.refused), until)
    if plan.memories:
        record.decide(some.tail.path, way, plan)
    return carry_out(ormah, some.tail, way, plan, caller, run=run)


def carry_out(
    ormah: Ormah, tail: SessionTail, way: Way, plan: ExtractionPlan, caller: Caller, *, run: str | None = None
) -> Outcome | None:
    """Commit those memories of a plan that the vault does not have yet, and store the position up to which the
    session is then read (`plan.until`)."""
    done = None
    if plan.memories:
        if any(one.space for one in plan.memories):
            settle(ormah, Caller(agent=caller.agent, cwd=tail.cwd))
        try:
            done = _store(ormah, tail, plan, caller, run)
        except Conflict:  # the self node was edited in the meantime: try once more
            done = _store(ormah, tail, plan, caller, run)
    Extractions(ormah.state).done(tail.path, way, tail.harness, plan)
    refused = {REASONS.get(name, name): number for name, number in plan.refused.items()}
    SourceLog(ormah.state).learned(tail.path, len(plan.memories), refused)
    return done


def _store(ormah: Ormah, tail: SessionTail, plan: ExtractionPlan, caller: Caller, run: str | None) -> Outcome | None:
    with ormah.writing:
        there = ormah.index.notes([one.node_id for one in plan.memories], connections=False)
        new = [one for one in plan.memories if one.node_id not in there]
        if not new:
            return None
        files = [(one, *_composed(ormah, one)) for one in new]

        def fill(tx: Transaction) -> None:
            for one, path, data in files:
                tx.put(path, data, node_id=one.node_id, expect=None)
            mine = [path for one, path, _ in files if ABOUT_SELF in one.tags]
            if mine:
                me = see(ormah, ormah.vault.self_id)
                now = ormah.moment()
                edges = [NoteLink(EdgeType.DEFINES, stem(path), 1.0, now) for path in mine]
                data = edit(me.data, me.path, link=edges, set={"updated": now})
                tx.put(me.path, data, node_id=me.id, expect=me.digest)

        subject = f"Learned from a session: {headline(new[0].title, new[0].content)}"
        if len(new) > 1:
            subject = f"Learned {len(new)} memories from a session of {tail.harness}"
        return commit(
            ormah,
            subject,
            kind=Kind.INGEST,
            caller=caller,
            body=_body(tail, new, plan),
            run=run or ormah.new_run(),
            fill=fill,
        )


def _composed(ormah: Ormah, one: PlannedMemory) -> tuple[str, bytes]:
    kind = NodeType(one.type)
    path = ormah.place(
        one.node_id, type=kind, space=one.space, title=one.title, content=one.content, created=one.created
    )
    return path, note_of(one, ormah.moment())


def _body(tail: SessionTail, new: Sequence[PlannedMemory], plan: ExtractionPlan) -> str:
    lines = [f"turn {one.turn}: {headline(one.title, one.content)}" for one in new[:NAMED]]
    lines += [f"corrects what was said of: {shortened(one.corrects, 200)}" for one in new if one.corrects]
    if plan.refused:
        why = ", ".join(f"{number} {REASONS.get(name, name)}" for name, number in sorted(plan.refused.items()))
        lines.append(f"Not stored: {why}.")
    return "\n".join([f"Session {tail.id}", *lines])


def bury_the_missing(ormah: Ormah) -> int:
    """Write tombstones for extracted memories that were deleted without an op, such as by a person or a `git revert`,
    so that they are not made again.

    Return the number of tombstones written.
    """
    record = Extractions(ormah.state)
    made = record.made()
    if not made or ormah.mender.at_work or ormah.vault.busy():
        return 0
    there = ormah.index.notes(list(made), connections=False)
    known = ormah.learned.forgotten()
    gone = [node_id for node_id in made if node_id not in there]
    lost = [node_id for node_id in gone if not known.turn(made[node_id])]
    if lost:
        lines = of_statements(ormah, [(None, made[one]) for one in lost])
        what = "a memory that is" if len(lost) == 1 else f"{len(lost)} memories that are"
        commit(
            ormah, f"Not to be learned again: {what} gone", kind=Kind.FORGET, caller=Caller(agent=JOB),
            fill=lambda tx: bury(ormah, tx, lines),
        )  # fmt: skip
    record.drop(gone)
    return len(lost)
