"""Makes memories from one archived session: finds its unread turns, checks the candidates, and commits the accepted
ones. Takes back what the person withdraws in the next prompt, or later says is no longer true.

Each read becomes one commit. After a crash between it and the record that the session was read, the session is read
again; the checks then refuse what is known.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from ormahd.actions.amend import Caller, Outcome, define, outcome, transaction
from ormahd.actions.evidence import of_that_time
from ormahd.actions.outdated import forget
from ormahd.actions.projects import home_of, settle
from ormahd.actions.tombstones import bury, of_statements, turn_of
from ormahd.actions.views import headline
from ormahd.api import ForgetParams
from ormahd.errors import Conflict
from ormahd.ingest.batches import MemoryCandidate, UnreadTurns
from ormahd.ingest.checks import NEIGHBOURS, REASONS, REPEATED, WAITS, Checks, can_be_acted_on, covers, note_of
from ormahd.ingest.rules import LONGEST, own_words, takes_back
from ormahd.ingest.rules.language import around
from ormahd.model.change import Kind
from ormahd.model.node import ABOUT_SELF, NodeType
from ormahd.note.values import path_for
from ormahd.ormah import Ormah
from ormahd.sessions.archive import ArchivedDeed, SessionTail
from ormahd.state import proposals
from ormahd.state.extraction import Extractions, PlannedMemory, SessionProgress, Way
from ormahd.state.sessions import is_excluded
from ormahd.text.quoting import shortened

JOB: Final = "job:extraction"
NAMED: Final = 100
"""Maximum number of memories that a commit message lists."""

PAUSE: Final = timedelta(minutes=1)
LONGEST_PAUSE: Final = timedelta(hours=6)
"""The longest time for which a session that could not be read is left alone. It begins with `PAUSE` and doubles with
each failure in a row."""


Hold = Callable[[PlannedMemory], object]
"""A function that proposes a memory to a person instead of storing it."""


class Learning(Struct):
    """What was found in a session. `memories`: those to commit. `held`: those to propose to a person, because an agent
    could act on them. `refused`: reason -> number of refused candidates. `replaces`: how many memories seem to replace
    an older one."""

    memories: list[PlannedMemory] = field(default_factory=list)
    held: list[PlannedMemory] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    replaces: int = 0

    def add(self, other: Learning) -> None:
        """Add what was found in another part of the session."""
        self.memories += other.memories
        self.held += other.held
        self.refused += other.refused
        self.replaces += other.replaces


def unread_turns(ormah: Ormah, tail: SessionTail, reader: Way) -> UnreadTurns:
    """Return a session with its turns. `reader`: unread are the turns that it has not read."""
    turns = tuple(ormah.sessions.turns_of(tail.path))
    place = {message.key: number for number, message in enumerate(turns, 1)}
    known = Extractions(ormah.state).of(tail.path, reader)
    start = next((place[key] for key in (known.until if known else ()) if key in place), 0)
    return UnreadTurns(tail, turns, start, reader)


def readable(ormah: Ormah) -> list[SessionTail]:
    """Return the sessions that may be read for memories, newest first. Sessions that began in a folder that
    `sessions.exclude` now excludes may not."""
    tails, patterns = ormah.sessions.tails(), ormah.settings.sessions.exclude
    folders = {tail.cwd for tail in tails if patterns and tail.cwd is not None}
    hidden = {cwd for cwd in folders if cwd is not None and is_excluded(cwd, patterns)}
    return [tail for tail in tails if tail.cwd not in hidden]


def has_unread(known: SessionProgress | None, tail: SessionTail, now: datetime | None) -> bool:
    """Return whether a session has unread turns. `known`: how far it was read; None: never.

    If `now` is given, also return False for a session that failed and is to be tried again only later.
    """
    if known is None or known.until[:1] == (tail.key,):  # never read, or read up to its last turn
        return known is None
    pause = min(LONGEST_PAUSE, PAUSE * 2 ** min(known.tries - 1, 10))
    return now is None or not known.tries or now - known.time >= pause


def propose(
    ormah: Ormah, checks: Checks, session: UnreadTurns, candidates: Iterable[MemoryCandidate], fresh: Collection[str]
) -> Learning:
    """Check the candidates found in a session, and return the result. `fresh`: the keys of the unread turns; candidates
    that come from none of these are ignored."""
    out = Learning()
    turns = {message.key: message for message in session.turns}
    home = home_of(ormah, session.tail.cwd)
    space = None if home is None else home.space
    before = checks.replaces
    deeds = ormah.sessions.deeds_of(session.turns[0].session) if session.turns else []
    for candidate in candidates:
        if any(key in fresh for key in candidate.turns):
            found = checks.check(candidate, session.tail, space, turns)
            if isinstance(found, str):
                out.refused[found] += 1
                continue
            prompts = {turns[key].asked for key in candidate.turns if key in turns}
            found = replace(found, evidence=_evidence(session, deeds, prompts, f"{found.title}\n{found.content}"))
            if can_be_acted_on(candidate.type, found.content):
                out.refused[WAITS] += 1
                out.held.append(found)
            else:
                out.memories.append(found)
    out.replaces = checks.replaces - before + sum(bool(memory.corrects) for memory in out.memories)
    return out


def _evidence(session: UnreadTurns, deeds: list[ArchivedDeed], prompts: set[int], text: str) -> tuple[str, ...]:
    """Return `path@blob` of each file that a memory names and that the agent edited under the memory's prompts.
    `deeds`: what was done in the session; `prompts`: the places of these prompts; `text`: title and content of the
    memory."""
    cwd, last = session.tail.cwd, session.tail.last
    if cwd is None or last is None:
        return ()
    edited = [path for deed in deeds if deed.turn in prompts and not deed.command for path in deed.files.splitlines()]
    named = [path for path in edited if re.search(rf"(?<![\w.-]){re.escape(path.rpartition('/')[2])}(?![\w-])", text)]
    return of_that_time(cwd, named, datetime.fromisoformat(last))


def learn(
    ormah: Ormah, session: UnreadTurns, found: Learning, caller: Caller, *, end: int, hold: Hold, run: str | None = None
) -> Outcome | None:
    """Commit the accepted memories, and propose those that wait for a person (`hold`). Take back what the person takes
    back, and record that the turns before index `end` are read. Return the result of the commit; None if there was no
    memory.

    Raises:
        VaultBusy: another process holds git. Nothing was committed; the session is read again.
    """
    done = None
    if found.memories:
        if any(memory.space for memory in found.memories):
            settle(ormah, Caller(agent=caller.agent, cwd=session.tail.cwd))
        try:
            done = _commit_memories(ormah, session.tail, found, caller, run)
        except Conflict:  # the self node was edited in the meantime: try once more
            done = _commit_memories(ormah, session.tail, found, caller, run)
    for memory in found.held:
        hold(memory)
    take_back(ormah, session, caller)
    made = {memory.node_id: turn_of(memory.said_in) for memory in found.memories}
    Extractions(ormah.state).done(session.tail.path, session.reader, session.position_after(end), made)
    return done


def _commit_memories(ormah: Ormah, tail: SessionTail, found: Learning, caller: Caller, run: str | None) -> Outcome:
    """Commit the accepted memories as one op, whose message lists them and the reasons of refusals. Raises Conflict if
    the self node was edited meanwhile."""
    new = found.memories
    with ormah.writing:
        # The commit message: what was learned, and why the rest was not stored.
        subject = f"Learned from a session: {headline(new[0].title, new[0].content)}"
        if len(new) > 1:
            subject = f"Learned {len(new)} memories from a session of {tail.harness}"
        lines = [f"turn {memory.turn}: {headline(memory.title, memory.content)}" for memory in new[:NAMED]]
        lines += [f"corrects what was said of: {shortened(memory.corrects, 200)}" for memory in new if memory.corrects]
        if found.refused:
            why = ", ".join(f"{number} {REASONS.get(name, name)}" for name, number in sorted(found.refused.items()))
            lines.append(f"Not stored: {why}.")
        body, run = "\n".join([f"Session {tail.id}", *lines]), run or ormah.new_run()

        # One commit. Memories about the person are linked from the self node.
        with transaction(ormah, subject, kind=Kind.INGEST, caller=caller, body=body, run=run) as tx:
            about_self = []
            for memory in new:
                path = path_for(
                    id=memory.node_id,
                    type=NodeType(memory.type),
                    space=memory.space,
                    title=memory.title,
                    content=memory.content,
                    created=memory.created,
                )
                tx.put(path, note_of(memory, ormah.moment()), node_id=memory.node_id, expect=None)
                about_self += [path] if ABOUT_SELF in memory.tags else []
            define(ormah, tx, about_self)
        return outcome(tx)


def bury_deleted(ormah: Ormah) -> int:
    """Write tombstones for extracted memories that were deleted without an op, such as by a person or a `git revert`,
    so that they are not made again.

    Return the number of tombstones written.
    """
    record = Extractions(ormah.state)
    made = record.made()
    if not made or "mender" in ormah.index.lags or ormah.vault.busy():
        return 0
    present = ormah.index.notes(list(made))
    known = ormah.learned.forgotten()
    missing = [node_id for node_id in made if node_id not in present]
    unburied = [node_id for node_id in missing if not known.turn(made[node_id])]
    if unburied:
        lines = of_statements(ormah, [(None, made[node_id]) for node_id in unburied])
        what = "a memory that is" if len(unburied) == 1 else f"{len(unburied)} memories that are"
        subject = f"Not to be learned again: {what} gone"
        with transaction(ormah, subject, kind=Kind.FORGET, caller=Caller(agent=JOB)) as tx:
            bury(ormah, tx, lines)
    record.drop(missing)
    return len(unburied)


def take_back(ormah: Ormah, session: UnreadTurns, caller: Caller) -> None:
    """Forget the learned memories that the unread turns of a session take back, one commit each, and drop proposals of
    such memories.

    A prompt takes back what the person said in the prompt before; or it says that something is not true any more, which
    it names itself, or which the agent's answer before it named. Raises VaultBusy: another process holds git.
    """
    home = home_of(ormah, session.tail.cwd)
    spaces = (None, None if home is None else home.space)
    fresh = session.fresh
    before, answer = "", ""
    for message in session.with_context:
        if message.role != "user":
            answer = message.text[-LONGEST:]
            continue

        # `person`: the key of the person's prompt before this one.
        text, person, before = own_words(message.text), before, message.key
        takes = bool(person) and takes_back(text)
        ended = len(text) <= LONGEST and around("ended").search(text)
        if message.key not in fresh or not (takes or ended):
            continue

        # Find the memories that the prompt takes back, and forget them.
        learned = ormah.index.extracted_from()
        if takes:
            forgotten = [node_id for node_id, said_in in learned.items() if turn_of(said_in) == person]
            waiting = proposals.rows(ormah.state, (proposals.PENDING,))
            dropped = [row.id for row in waiting if turn_of(str(row.payload.get("said_in"))) == person]
            proposals.drop(ormah.state, dropped)
        else:
            words = around("ended").sub(" ", f"{answer}\n{text}")
            near = [node_id for node_id, _ in ormah.index.search_text(words, NEIGHBOURS) if node_id in learned]
            rows = ormah.index.notes(near).values()
            forgotten = [row.id for row in rows if row.space in spaces and covers(words, row.content, REPEATED)]
        for node_id in forgotten:
            forget(ormah, ForgetParams(node_id=node_id), caller)
