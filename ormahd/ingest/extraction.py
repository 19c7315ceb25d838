"""Makes memories from archived sessions in the background: when turns were archived, and at intervals for unread ones.

It reads by rules, or has the judge read if one is configured. If an agent is to read, that happens through
`agent.maintenance` instead. All three ways commit their memories through `learn`.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from importlib import resources
from typing import Final

import msgspec

from ormahd.actions.amend import Caller
from ormahd.api import IngestedFile, LearnedMemory, LearningHealth
from ormahd.errors import OrmahError
from ormahd.ingest import rules
from ormahd.ingest.batches import MemoryCandidate, Remembered, UnreadTurns, batches, candidates
from ormahd.ingest.checks import Checks
from ormahd.ingest.learn import JOB, Hold, Learning, bury_deleted, has_unread, learn, propose, readable, unread_turns
from ormahd.ingest.readers import chatgpt, claude_ai
from ormahd.ingest.readers.values import iso_time
from ormahd.judge.asking import Asker, JudgeQuestion
from ormahd.judge.port import JudgeGone, Unusable
from ormahd.model.change import Committed
from ormahd.model.node import short_id
from ormahd.ormah import Ormah
from ormahd.process import priority
from ormahd.sessions.archive import SessionTail
from ormahd.state.extraction import Extractions, Way

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
TASK: Final = "extraction"
SHARE: Final = 0.7
"""The share of the judge's budget of a day that may be spent on sessions. The rest is for the questions of the jobs."""
INSTRUCTIONS: Final = resources.files(__package__).joinpath("instructions.txt").read_text("utf-8").rstrip("\n")


class Extraction:
    """Finds memories in archived sessions by the rules or by the judge, in a thread that reads one session at a time.
    Thread-safe; `wake` returns at once."""

    def __init__(
        self,
        ormah: Ormah,
        *,
        asker: Asker | None = None,
        conflicts: Callable[[], None] = lambda: None,
        hold: Hold = lambda _: None,
    ) -> None:
        """`asker` sends questions to the judge; None if no judge is configured. `conflicts` is called when a new
        memory seems to replace an older one, and `hold` with each memory that a person has to decide on."""
        self._ormah = ormah
        self._asker = asker
        self._conflicts = conflicts
        self._hold = hold
        self._judge_error = ""
        """Why the judge did not answer the last time; "" if it did."""
        self.reading_lock = threading.RLock()
        """A lock that is held while a session is read, but not while the judge is being asked."""
        self._changed = threading.Condition()
        self._wanted = True
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="extraction", daemon=True)

    @property
    def reader(self) -> Way | None:
        """What this thread reads sessions with: `rules`, or `model`, which is the judge. None if it reads no
        sessions."""
        by = self._ormah.settings.extraction.by
        if by in {"auto", "judge"} and self._asker is not None:
            return "model"
        return "rules" if by in {"auto", "rules"} else None

    # ------------------------------------------------------------ life

    def start(self) -> None:
        """Start the thread, and listen to commits."""
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

    def _committed(self, ops: Sequence[Committed]) -> None:
        """Wake the thread if one of these ops deleted a note. The thread then writes tombstones for deleted memories
        at once, while the state still has a record of them."""
        if any(change.data is None for done in ops for change in done.changes):
            self.wake()

    def _run(self) -> None:
        """Read sessions until `stop`, whenever `wake` is called and at intervals; this is the thread."""
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
        with self.reading_lock:
            bury_deleted(self._ormah)
        reader, made = self.reader, 0
        if reader == "model":
            return self._judge_all()
        if reader is None:
            return 0
        for tail in self.waiting():
            if self._stopping:
                break
            priority.give()
            found = self._try_to_read(tail, reader)
            made += len(found.memories) if found is not None else 0
        return made

    def _judge_all(self) -> int:
        """Have the judge read all sessions that are due, newest first, also those that become due meanwhile. Return the
        number of memories made."""
        tried: set[str] = set()
        made = 0
        while not self._stopping:
            tail = next((tail for tail in self.waiting() if tail.path not in tried and self._is_due(tail)), None)
            if tail is None:
                break
            tried.add(tail.path)
            try:
                found = self._try_to_read(tail, "model")
            except JudgeGone as error:
                self._judge_error = str(error)
                Extractions(self._ormah.state).failed(tail.path, "model", self._judge_error, again=True)
                break
            made += len(found.memories) if found is not None else 0
        return made

    def _is_due(self, tail: SessionTail) -> bool:
        """Return whether the judge should read a session now: its last turn is at least `RESTED` ago, or at least
        `MUCH` characters of it are unread."""
        last = iso_time(tail.last)
        if last is None or self._ormah.clock() - datetime.fromisoformat(last) >= RESTED:
            return True
        session = unread_turns(self._ormah, tail, "model")
        return sum(len(message.text) for message in session.turns[session.start :]) >= MUCH

    def waiting(self, *, also_failed: bool = False) -> list[SessionTail]:
        """Return the sessions with unread turns, newest first. With `also_failed`, they include those that failed and
        are to be tried again later."""
        reader: Way | None = "model" if self._ormah.settings.extraction.by == "agent" else self.reader
        if reader is None:
            return []
        known = Extractions(self._ormah.state).all(reader)
        now = self._ormah.clock()
        tails = readable(self._ormah)
        return [tail for tail in tails if has_unread(known.get(tail.path), tail, None if also_failed else now)]

    def _try_to_read(self, tail: SessionTail, reader: Way) -> Learning | None:
        """Read one session, and return the result. If that fails, record the failure, so that the session is tried
        again later, and return None. Raises JudgeGone."""
        try:
            return self._read(tail, reader)
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
        Extractions(self._ormah.state).failed(tail.path, reader, why)
        return None

    def _read(self, tail: SessionTail, reader: Way) -> Learning:
        """Read the unread turns of a session, and commit the memories found. Raises OrmahError, OSError, JudgeGone."""
        with self.reading_lock:
            session = unread_turns(self._ormah, tail, reader)
            if reader == "rules":
                title = tail.title or "" if tail.harness in CHATS else ""
                proposed = rules.candidates(session.with_context, today=self._ormah.clock(), title=title)
                return self._learn(session, proposed, len(session.turns), session.fresh, None)
        return self._judge_session(session)

    def _judge_session(self, session: UnreadTurns) -> Learning:
        """Have the judge read the unread turns of a session in batches, and return what was found. The memories of a
        batch are committed before the next batch is asked about. Raises JudgeGone, Unusable."""
        asker = self._asker
        assert asker is not None
        whole, run = Learning(), self._ormah.new_run()
        before = Extractions(self._ormah.state).of(session.tail.path, "model")
        tries = before.tries if before is not None else 0
        for batch in batches(session):
            if self._stopping:
                break
            if not asker.within(SHARE):
                raise JudgeGone("the rest of today's budget is for the jobs")
            data = list(msgspec.to_builtins(batch.turns))
            answer = asker.ask(JudgeQuestion(TASK, INSTRUCTIONS, data, Remembered, all_or_nothing=tries < PARTLY))
            self._judge_error = ""
            whole.add(self._learn(session, candidates(batch, answer), batch.end, batch.fresh, run))
        return whole

    def _learn(
        self, session: UnreadTurns, proposed: list[MemoryCandidate], end: int, fresh: Collection[str], run: str | None
    ) -> Learning:
        """Check the proposed memories, commit the accepted ones, and report contradictions; return the result. `end`,
        `run`: see `learn`; `fresh`: see `propose`."""
        with self.reading_lock:
            found = propose(self._ormah, Checks(self._ormah, session.reader), session, proposed, fresh)
            learn(self._ormah, session, found, Caller(agent=JOB), end=end, hold=self._hold, run=run)
        if found.replaces:
            self._conflicts()
        return found

    # ------------------------------------------------------------ with a command

    def read_grown(self, out: IngestedFile, grown: set[str]) -> None:
        """Read the sessions `grown`, which got turns from one file, and add the memories made to `out`, the result for
        that file. If the judge reads sessions, only store their number in `out.unread`, and wake the thread."""
        reader = self.reader
        if reader is None or not grown:
            return
        if reader == "model":
            out.unread = len(grown)
            self.wake()
            return
        for tail in readable(self._ormah):
            if tail.path in grown and (found := self._try_to_read(tail, reader)) is not None:
                out.memories += len(found.memories)
                for memory in found.memories[: LISTED - len(out.learned)]:
                    out.learned.append(
                        LearnedMemory(
                            node_id=memory.node_id,
                            short_id=short_id(memory.node_id),
                            type=memory.type,
                            title=memory.title,
                            turn=memory.turn,
                        )
                    )
                out.refused = dict(found.refused + Counter(out.refused))

    # ------------------------------------------------------------ reports

    def health(self) -> LearningHealth:
        """Return who reads sessions for memories, how many sessions wait for it, and why reading some failed."""
        settings, reader, why = self._ormah.settings, self.reader, None
        by = {"rules": "rules", "model": "judge", None: "nobody"}[reader]
        if settings.extraction.by == "agent":
            by = "your agent (ormahctl maintenance)"
        elif reader is None:
            why = "extraction.by is off"
            if settings.extraction.by == "judge":
                why = "extraction.by is judge, and jobs.judge is none"
        waiting = self.waiting(also_failed=True)
        known = {} if reader is None else Extractions(self._ormah.state).all(reader)
        errors = [progress.error for tail in waiting if (progress := known.get(tail.path)) and progress.error]
        if self._judge_error and waiting:
            errors.append(self._judge_error)
        return LearningHealth(by, why, len(waiting), list(dict.fromkeys(errors)))
