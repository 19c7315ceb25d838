"""Has a coding agent read sessions for memories, as a part of two-phase maintenance.

`jobs/maintenance` gives the agent the batches that are made here, and passes its results back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ormahd.actions.amend import Caller
from ormahd.actions.projects import home_of
from ormahd.api import ExtractionBatch, RefusedItem
from ormahd.ingest.batches import Remembered, TurnBatch, batches, candidates, numbered
from ormahd.ingest.checks import REASONS, Checks
from ormahd.ingest.learn import Hold, Learning, has_unread, learn, propose, readable, unread_turns
from ormahd.model.node import NodeType
from ormahd.ormah import Ormah
from ormahd.sessions.archive import SessionTail
from ormahd.state.extraction import Extractions
from ormahd.text.quoting import harmless
from ormahd.text.secrets import redact

CHARACTERS: Final = 24_000
"""Maximum characters of all batches of one receipt together."""
NO_TURN: Final = "it names no turn of this batch that was unread"
MAX_MEMORIES: Final = 200
"""Maximum number of memories in one answer of an agent."""


class AgentMemory(Remembered, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A memory as an agent sends it."""

    batch_id: str
    type: NodeType = NodeType.FACT
    about_self: bool = False
    tags: list[str] = []
    confidence: float = 0.7
    """Agents state none where they are rather sure."""
    corrects: str = ""


class _HandedOut(Struct, frozen=True):
    """The record in a receipt of one batch that was given to an agent. `path`: the session's file in the archive;
    `keys`: the keys of the batch's turns; `fresh`: the keys of those that were unread."""

    batch_id: str
    path: str
    keys: list[str]
    fresh: list[str]


class AgentReading:
    """Makes batches of unread turns for an agent, and commits the memories that the agent finds in them."""

    def __init__(
        self, ormah: Ormah, *, judge: bool, conflicts: Callable[[], None] = lambda: None, hold: Hold = lambda _: None
    ) -> None:
        """`judge`: whether a judge is configured. If so, and `extraction.by` is `auto`, the judge reads the sessions
        instead of an agent. `conflicts` is called when a new memory seems to replace an older one, and `hold` with each
        memory that a person has to decide on."""
        by = ormah.settings.extraction.by
        self._reads = by == "agent" or (by == "auto" and not judge)
        self._ormah = ormah
        self._conflicts = conflicts
        self._hold = hold

    def has_unread(self) -> bool:
        """Return whether agents are to read sessions, and there are unread turns."""
        return self._reads and next(iter(self._open_sessions()), None) is not None

    def hand_out(self, characters: int) -> tuple[list[ExtractionBatch], list[dict[str, Any]]]:
        """Return (batches for an agent, a record of each batch to keep with the receipt). The batches together have at
        most `characters` characters, and at most `CHARACTERS`. Those of the newest sessions come first."""
        handed: list[ExtractionBatch] = []
        records: list[dict[str, Any]] = []
        remaining = min(characters, CHARACTERS)
        for tail in self._open_sessions() if self._reads else ():
            session = unread_turns(self._ormah, tail, "model")
            for batch in batches(session, remaining):
                item = self._presented(tail, batch, len(handed) + 1)
                size = len(msgspec.json.encode(item).decode())
                if size > remaining:
                    return handed, records
                remaining -= size
                handed.append(item)
                fresh = [key for key in batch.keys if key in batch.fresh]
                records.append(msgspec.to_builtins(_HandedOut(item.batch_id, tail.path, list(batch.keys), fresh)))
        return handed, records

    def batches_again(self, records: Sequence[Mapping[str, Any]]) -> list[ExtractionBatch]:
        """Return the batches of a receipt again, without the turns that were deleted since they were handed out.
        `records`: the records that `hand_out` returned."""
        found = []
        for record, tail, batch in self._issued(records):
            if batch.fresh and tail is not None:
                found.append(self._presented(tail, batch, int(record.batch_id[1:])))  # the number in `s1`
        return found

    def settle(
        self, records: Sequence[Mapping[str, Any]], items: Any, caller: Caller, run: str
    ) -> tuple[int, list[RefusedItem], list[str]]:
        """Commit the memories that an agent found, one commit for each batch. A batch without a memory counts as read.

        `records`: the records that `hand_out` returned; `items`: the agent's memories, as decoded JSON; `run`: the id
        of the run to which the commits belong. Return (number of memories made, refused items, commits).

        Raises:
            VaultBusy: another process holds git. The batches that were committed before stay committed.
        """
        if not isinstance(items, list) or len(items) > MAX_MEMORIES:
            return 0, [RefusedItem("extractions", "", f"it is no list of at most {MAX_MEMORIES} items")], []

        # Sort the agent's memories by batch, and refuse those that are malformed or of no batch.
        known = {str(record["batch_id"]) for record in records}
        refused: list[RefusedItem] = []
        taken: dict[str, list[tuple[str, AgentMemory]]] = {}
        for number, item in enumerate(items):
            name = f"extractions[{number}]"
            try:
                found = msgspec.convert(item, AgentMemory, strict=False)
            except msgspec.ValidationError as exc:
                refused.append(RefusedItem(name, "", str(exc)))
                continue
            if found.batch_id not in known:
                refused.append(RefusedItem(name, found.batch_id[:60], "this batch was not issued with this receipt"))
            else:
                taken.setdefault(found.batch_id, []).append((name, found))

        # Check and commit the memories of each batch.
        made, commits = 0, list[str]()
        for record, tail, batch in self._issued(records):
            if tail is None or not batch.fresh:
                continue
            session = unread_turns(self._ormah, tail, "model")
            checks, learned = Checks(self._ormah, "model"), Learning()
            for name, item in taken.get(record.batch_id, []):
                proposed = propose(self._ormah, checks, session, candidates(batch, [item]), batch.fresh)
                if not proposed.memories:
                    why = next(iter(proposed.refused), "")
                    refused.append(RefusedItem(name, item.batch_id, REASONS.get(why, NO_TURN)))
                learned.add(proposed)
            end = max(batch.end, session.start)
            done = learn(self._ormah, session, learned, caller, end=end, hold=self._hold, run=run)
            if learned.replaces:
                self._conflicts()
            made += len(learned.memories)
            commits += [done.commit] if done is not None and done.commit else []
        return made, refused, commits

    # ------------------------------------------------------------ inside

    def _open_sessions(self) -> list[SessionTail]:
        """Return the sessions that have unread turns, newest first."""
        known = Extractions(self._ormah.state).all("model")
        return [tail for tail in readable(self._ormah) if has_unread(known.get(tail.path), tail, None)]

    def _issued(self, records: Sequence[Mapping[str, Any]]) -> list[tuple[_HandedOut, SessionTail | None, TurnBatch]]:
        """Return (record, session, batch) for each of the records of a receipt. The batch has only turns that are still
        archived. The session is None if it is no longer archived or may no longer be read."""
        tails = {tail.path: tail for tail in readable(self._ormah)}
        found = []
        for row in records:
            record = msgspec.convert(row, _HandedOut)
            tail = tails.get(record.path)
            # The batch as it was handed out, without the turns that the session has no more.
            archived = () if tail is None else unread_turns(self._ormah, tail, "model").turns
            turns = {message.key: message for message in archived}
            places = [at for at, key in enumerate(turns, 1) if key in record.fresh]
            fresh = frozenset(turns.keys() & set(record.fresh))
            handed = numbered(record.keys, turns, fresh)
            batch = TurnBatch(turns=handed, keys=tuple(record.keys), fresh=fresh, end=max(places, default=0))
            found.append((record, tail, batch))
        return found

    def _presented(self, tail: SessionTail, batch: TurnBatch, number: int) -> ExtractionBatch:
        """Return a batch in the form that an agent gets: without secrets, and with the space of the session's project.
        `number`: its place in the receipt, from 1."""
        home = home_of(self._ormah, tail.cwd)
        turns = [replace(message, text=harmless(redact(message.text).text)) for message in batch.turns]
        return ExtractionBatch(f"s{number}", tail.id, tail.harness, None if home is None else home.space, turns)
