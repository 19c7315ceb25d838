"""Makes memories from archived sessions in the background: when turns were archived, and at intervals for unread ones.

It reads by rules, or has the judge read if one is configured. If an agent is to read, that happens through
`agent.maintenance` instead. All three ways commit their memories through `learn`.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from ormahd.actions.amend import Caller
from ormahd.api import LearnedMemory, LearningHealth
from ormahd.errors import OrmahError
from ormahd.ingest import by_judge, rules
from ormahd.ingest.batches import batches
from ormahd.ingest.by_judge import SHARE
from ormahd.ingest.checks import Checks
from ormahd.ingest.learn import JOB, Hold, Learning, bury_the_missing, is_open, learn, propose, readable, unread
from ormahd.ingest.readers import chatgpt, claude_ai
from ormahd.ingest.readers.values import iso_time
from ormahd.judge.port import JudgeGone, Unusable
from ormahd.model.node import short_id
from ormahd.process import priority
from ormahd.sessions.archive import SessionTail
from ormahd.state.extraction import Extractions

if TYPE_CHECKING:
    from ormahd.api import IngestedFile
    from ormahd.ingest.batches import MemoryCandidate
    from ormahd.ingest.learn import UnreadTurns
    from ormahd.judge.asking import Asker
    from ormahd.model.change import Committed
    from ormahd.ormah import Ormah
    from ormahd.state.extraction import Way

log = logging.getLogger("ormahd.ingest")

CHATS: Final = frozenset({chatgpt.NAME, claude_ai.NAME})
"""Programs whose titles say what a chat is for; those of coding sessions and files do not."""
LISTED: Final = 100
"""Maximum number of memories that the result for one file lists."""
NICE: Final = 10
"""Niceness of the thread: no request waits for the memories of a session."""
LOOK_S: Final = 120.0
"""Seconds after which unread sessions are looked for, even if no turns were archived."""
RESTED: Final = timedelta(minutes=10)
"""Time without a new turn after which a session rests, and the judge reads its unread turns. A call after each answer
would cost too much."""
PARTLY: Final = 3
"""Number of failures in a row after which the usable part of an answer is accepted, as this judge does no better."""
MUCH: Final = 6_000
"""Characters of unread turns from which the judge reads a session that does not rest yet."""


class Extraction:
    """Finds memories in archived sessions by the rules or by the judge, in a thread that reads one session at a time.
    Thread-safe; `wake` returns at once."""

    def __init__(
        self, ormah: Ormah, *, asker: Asker | None = None, conflicts: Callable[[], None] = lambda: None,
        hold: Hold = lambda _: None,
    ) -> None:  # fmt: skip
        """`asker` sends questions to the judge; None if no judge is configured. `conflicts` is called when a new
        memory seems to replace an older one, and `hold` with each memory that a person has to decide on."""
        self._ormah = ormah
        self._asker = asker
        self._conflicts = conflicts
        self._hold = hold
        self._gone = ""
        """Why the judge did not answer the last time; "" if it did."""
        self.alone = threading.RLock()
        """A lock that is held while a session is read, but not while the judge is being asked."""
        self._changed = threading.Condition()
        self._wanted = True
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="extraction", daemon=True)

    @property
    def way(self) -> Way | None:
        """What this thread reads sessions with: `rules`, or `model`, which is the judge. None if it reads no
        sessions."""
        by = self._ormah.settings.extraction.by
        if by in {"auto", "judge"} and self._asker is not None:
            return "model"
        return "rules" if by in {"auto", "rules"} else None

    # ------------------------------------------------------------ life

    def start(self) -> None:
        self._ormah.vault.listen(self._committed)
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """Stop the thread after the session that it is reading. Return False if the thread still runs after
        `seconds`."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def wake(self) -> None:
        """Have the thread look for unread turns now. Called when turns were archived."""
        with self._changed:
            self._wanted = True
            self._changed.notify_all()

    def _committed(self, some: Sequence[Committed]) -> None:
        """Wake the thread if one of these ops deleted a note. The thread then writes tombstones for deleted memories
        at once, while the state still has a record of them."""
        if any(change.data is None for done in some for change in done.changes):
            self.wake()

    def _run(self) -> None:
        priority.step_back(NICE)
        while self._wait():
            try:
                self.settle()
            except OrmahError as error:
                log.warning("sessions were not read for memories: %s", error.message)
            except Exception:  # the thread continues with its next turn
                log.exception("sessions were not read for memories")

    def _wait(self) -> bool:
        """Wait until `wake` is called, but at most `LOOK_S` seconds. Return False if the daemon stops."""
        with self._changed:
            if not self._wanted and not self._stopping:
                self._changed.wait(LOOK_S)
            self._wanted = False
            return not self._stopping

    # ------------------------------------------------------------ reading

    def settle(self) -> int:
        """Read all sessions that have unread turns, newest first; the judge reads only those that are due
        (`_is_due`). Return the number of memories made."""
        with self.alone:
            bury_the_missing(self._ormah)
        if self.way == "model":
            return self._ask_about_all()
        made = 0
        for tail in self.waiting() if self.way == "rules" else ():
            if self._stopping:
                break
            priority.give()
            found = self._guarded(tail)
            made += len(found.memories) if found is not None else 0
        return made

    def _ask_about_all(self) -> int:
        """Have the judge read all sessions that are due, newest first, including those that become due in the
        meantime. Return the number of memories made."""
        tried: set[str] = set()
        made = 0
        while not self._stopping:
            tail = next((one for one in self.waiting() if one.path not in tried and self._is_due(one)), None)
            if tail is None:
                break
            tried.add(tail.path)
            try:
                found = self._guarded(tail)
            except JudgeGone as error:
                self._gone = str(error)
                Extractions(self._ormah.state).failed(tail.path, "model", self._gone, again=True)
                break
            made += len(found.memories) if found is not None else 0
        return made

    def _is_due(self, tail: SessionTail) -> bool:
        """Return whether the judge should read a session now: its last turn is at least `RESTED` ago, or at least
        `MUCH` characters of it are unread."""
        last = iso_time(tail.last)
        if last is None or self._ormah.clock() - datetime.fromisoformat(last) >= RESTED:
            return True
        some = unread(self._ormah, tail, "model")
        return sum(len(one.text) for one in some.turns[some.start :]) >= MUCH

    def waiting(self, *, also_failed: bool = False) -> list[SessionTail]:
        """Return the sessions with unread turns, newest first. Those that failed and are not to be tried again yet
        are included only with `also_failed`."""
        way: Way | None = "model" if self._ormah.settings.extraction.by == "agent" else self.way
        if way is None:
            return []
        known = Extractions(self._ormah.state).all(way)
        now = self._ormah.clock()
        return [one for one in readable(self._ormah) if is_open(known.get(one.path), one, None if also_failed else now)]

    def _guarded(self, tail: SessionTail) -> Learning | None:
        """Read one session, and return the result. If that fails, record the failure, so that the session is tried
        again later, and return None. Raises JudgeGone."""
        way = self.way
        assert way is not None
        try:
            return self.read(tail)
        except JudgeGone:
            raise
        except Unusable as error:
            why = f"the judge's answer could not be used: {error}"
        except (OrmahError, OSError) as error:
            why = error.message if isinstance(error, OrmahError) else (error.strerror or str(error))
        except Exception as error:
            log.exception("a session could not be read for memories")
            why = f"{type(error).__name__}, see the log"
        log.warning("a session could not be read for memories: %s", why)
        Extractions(self._ormah.state).failed(tail.path, way, why)
        return None

    def read(self, tail: SessionTail) -> Learning:
        """Read the unread turns of a session, and commit the memories found. Raises OrmahError, OSError, JudgeGone."""
        way = self.way
        assert way is not None
        with self.alone:
            some = unread(self._ormah, tail, way)
            if way == "rules":
                title = tail.title or "" if tail.harness in CHATS else ""
                proposed = rules.candidates(some.shown, today=self._ormah.clock(), title=title)
                return self._learn(some, way, proposed, until=some.until())
        return self._ask_about(some)

    def _ask_about(self, some: UnreadTurns) -> Learning:
        """Have the judge read the unread turns of a session in batches. The memories of a batch are committed before
        the next batch is asked about."""
        asker = self._asker
        assert asker is not None
        whole, run = Learning(), self._ormah.new_run()
        before = Extractions(self._ormah.state).of(some.tail.path, "model")
        tries = before.tries if before is not None else 0
        for batch in batches(some):
            if self._stopping:
                break
            if not asker.within(SHARE):
                raise JudgeGone("the rest of today's budget is for the jobs")
            proposed = by_judge.read(asker, batch, whole=tries < PARTLY)
            self._gone = ""
            whole.add(self._learn(some, "model", proposed, until=some.until(batch.end), fresh=batch.fresh, run=run))
        return whole

    def _learn(
        self, some: UnreadTurns, way: Way, proposed: Iterable[MemoryCandidate], *, until: tuple[str, ...],
        fresh: Collection[str] | None = None, run: str | None = None,
    ) -> Learning:  # fmt: skip
        """Check what was proposed, commit what is accepted, and have contradictions looked at. See `propose`, `learn`."""
        with self.alone:
            found = propose(self._ormah, Checks(self._ormah, way), some, proposed, fresh=fresh)
            learn(self._ormah, some, way, found, Caller(agent=JOB), until=until, hold=self._hold, run=run)
        if found.replaces:
            self._conflicts()
        return found

    # ------------------------------------------------------------ with a command

    def read_all(self, out: IngestedFile, grown: set[str]) -> None:
        """Read the sessions in `grown`, and add the memories made to `out`, the result for the file from which
        these sessions got turns. If the judge reads sessions, only store their number in `out.unread`, and wake the
        thread."""
        way = self.way
        if way is None or not grown:
            return
        if way == "model":
            out.unread = len(grown)
            self.wake()
            return
        for tail in readable(self._ormah):
            if tail.path in grown and (found := self._guarded(tail)) is not None:
                out.memories += len(found.memories)
                for one in found.memories[: LISTED - len(out.learned)]:
                    out.learned.append(LearnedMemory(one.node_id, short_id(one.node_id), one.type, one.title, one.turn))
                out.refused = dict(found.refused + Counter(out.refused))

    # ------------------------------------------------------------ reports

    def health(self) -> LearningHealth:
        """Return who reads sessions for memories, how many sessions wait for it, and why reading some failed."""
        settings, way, why = self._ormah.settings, self.way, None
        by = {"rules": "rules", "model": "judge", None: "nobody"}[way]
        if settings.extraction.by == "agent":
            by = "your agent (ormahctl maintenance)"
        elif way is None:
            why = "extraction.by is off"
            if settings.extraction.by == "judge":
                why = "extraction.by is judge, and jobs.judge is none"
        waiting = self.waiting(also_failed=True)
        known = {} if way is None else Extractions(self._ormah.state).all(way)
        errors = [one.error for tail in waiting if (one := known.get(tail.path)) and one.error]
        if self._gone and waiting:
            errors.append(self._gone)
        return LearningHealth(by, why, len(waiting), list(dict.fromkeys(errors)))
