"""Two-phase maintenance: an agent answers the questions of the jobs (seeds/api-surface, "Maintenance Endpoint").

Phase one returns questions with a receipt. Phase two takes the agent's verdicts on exactly these questions, and
applies them by the same code as the jobs: one commit per change, and one for all links. For ten minutes only one receipt is
open. An agent that asks for questions meanwhile gets the same receipt and questions, and the first results count. Later
another agent gets new questions; results for the first receipt are still taken, as far as its memories are unchanged.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from msgspec.structs import replace

from ormahd.actions.amend import Caller, clean
from ormahd.actions.views import iso
from ormahd.api import ExtractionBatch, MaintenanceCounts, MaintenanceParams, MaintenanceResult, RefusedItem
from ormahd.errors import BadRequest, Conflict, NotFound, NotReady
from ormahd.jobs.job import RunContext
from ormahd.jobs.maintenance.answers import Checked, VerdictApplier, check
from ormahd.jobs.maintenance.issue import Issued, gather, show, size
from ormahd.jobs.maintenance.kinds import CLUSTERS, CONFLICTS, KINDS, LINKS, MERGES, QuestionKind
from ormahd.jobs.neighbours import NearMemories
from ormahd.ormah import Ormah
from ormahd.state.proposals import Receipt, Receipts, Verdicts

EXTRACTIONS: Final = "extractions"
"""The name of the list of results for turns of sessions, and the key of these turns in a receipt."""
LISTS = (*(kind.results for kind in KINDS), EXTRACTIONS)
LOOKS_ANEW = timedelta(hours=1)
"""How long `search_if_due` does not search again after it found that there are questions."""
CHARACTERS = 40_000
"""Maximum number of characters of JSON in phase one. Harnesses cut or reject longer outputs of a tool."""
RECEIPT = timedelta(minutes=60)
"""How long results for a receipt are taken."""
HELD = timedelta(minutes=10)
"""How long nothing but this receipt is given out. Its agent may have died since."""
SECONDS = 30.0
"""Maximum seconds that the search for candidates takes. Those found by then are used."""
TRIES = 3
"""Maximum number of times that a question is asked if each answer is refused. Then the question counts as
answered with no."""
ANOTHER = "ask for the next candidates: agent.maintenance {} (ormahctl maintenance)"

Progress = Callable[[int, int, str], None]


class SessionReading(Protocol):
    """What maintenance needs from the import of sessions (`ingest/by_agent.py`): it gives turns of sessions for an
    agent to read, and stores the memories that the agent extracts."""

    def has_unread(self) -> bool:
        """Return whether agents read sessions and there are unread turns."""

    def hand_out(self, characters: int) -> tuple[list[ExtractionBatch], list[dict[str, Any]]]:
        """Return (batches of turns for an agent, a record of each batch to keep with the receipt). The batches together
        have at most `characters` characters."""

    def batches_again(self, stored: Sequence[Mapping[str, Any]]) -> list[ExtractionBatch]:
        """Return the batches of a receipt again. `stored`: the records that `hand_out` returned."""

    def settle(
        self, stored: Sequence[Mapping[str, Any]], items: Any, caller: Caller, run: str
    ) -> tuple[int, list[RefusedItem], list[str]]:
        """Commit the memories that an agent found in the turns. Return (number of memories made, refused items,
        commits). `items`: the memories, not validated."""


class Maintenance:
    """Two-phase maintenance of one vault. Thread-safe; only one phase runs at a time."""

    def __init__(
        self, ormah: Ormah, sessions: SessionReading | None = None, kinds: Sequence[QuestionKind] = KINDS
    ) -> None:
        """`sessions`: where turns of sessions to read come from; None: there are none."""
        self._ormah = ormah
        self._sessions = sessions
        self._kinds = kinds
        self._verdicts = Verdicts(ormah.state)
        self._receipts = Receipts(ormah.state)
        self._one = threading.Lock()
        self._looked: tuple[datetime, bool] | None = None
        self._receipts.born(self._now())

    def _now(self) -> datetime:
        return self._ormah.ranking_clock()

    def answer(self, params: MaintenanceParams, caller: Caller, progress: Progress) -> MaintenanceResult:
        """Run phase one if the parameters contain no results, otherwise phase two.

        Raises:
            BadRequest: results are given twice, have an unknown list, or lack the receipt.
            Other errors: as in `hand_out` and `settle`.
        """
        lists = {name: found for name in LISTS if (found := getattr(params, name)) is not None}
        receipt: Any = params.receipt
        if params.results is not None:
            if lists:
                raise BadRequest("results stand both in `results` and beside it", hint="put all of them in one place")
            receipt, lists = _unwrapped(params.results, receipt)
        elif receipt is None and not lists:
            return self.hand_out(progress)
        if not isinstance(receipt, str) or not receipt:
            hint = "send `receipt` as phase one gave it"
            raise BadRequest("results without the receipt of what was judged", hint=hint)
        return self.settle(receipt, lists, caller)

    # ------------------------------------------------------------ phase one

    def hand_out(self, progress: Progress = lambda *_: None) -> MaintenanceResult:
        """Run phase one: return the questions of the open receipt, or new ones with a new receipt.

        Raises:
            NotReady: memories cannot be compared yet, because not all have vectors.
        """
        with self._one:
            now = self._now()
            held = self._receipts.open(now - HELD)
            if held is not None:
                turns = self._sessions.batches_again(held.issued.get(EXTRACTIONS, [])) if self._sessions else []
                again = show(self._ormah.index, Issued.from_json(held.issued), CHARACTERS - size(turns))
                if again.issued or turns:
                    return self._issued_result(held, again.batches, turns)
            if "vectors" in self._ormah.degraded():
                why = "memories cannot be compared yet: not all have their vectors"
                raise NotReady(why, hint="see: ormahctl status")
            progress(0, 0, "looking for candidates")
            found = gather(self._searching(SECONDS), self._kinds)
            turns, stored = self._sessions.hand_out(CHARACTERS // 2) if self._sessions else ([], [])
            new = show(self._ormah.index, found, CHARACTERS - size(turns))
            issued = {**new.issued.as_json(), EXTRACTIONS: stored}
            receipt = Receipt(str(uuid.uuid4()), now, now + RECEIPT, issued, None)
            self._receipts.keep(receipt)
            self._looked = (now, bool(new.issued or turns))
            return self._issued_result(receipt, new.batches, turns)

    def _issued_result(
        self, receipt: Receipt, batches: Mapping[str, list[Any]], turns: list[ExtractionBatch]
    ) -> MaintenanceResult:
        """Return the answer to phase one: the questions and turns, with their number and the end of the receipt in
        words."""
        named = [(len(batches[kind.batch]), kind.named) for kind in KINDS]
        named.append((len(turns), ("part of a session to read", "parts of sessions to read")))
        parts = [f"{number} {names[number != 1]}" for number, names in named if number]
        by = f"What gets no result counts as judged: no. Send results with this receipt by {receipt.expires:%H:%M} UTC."
        summary = f"{', '.join(parts)}. {by}" if parts else "There is nothing to judge."
        return MaintenanceResult(
            status="issued",
            receipt=receipt.id,
            summary=summary,
            expires=iso(receipt.expires) or "",
            link_candidates=batches[LINKS],
            conflict_candidates=batches[CONFLICTS],
            merge_candidates=batches[MERGES],
            consolidation_clusters=batches[CLUSTERS],
            extraction_batches=turns,
        )

    def _searching(self, seconds: float) -> RunContext:
        """Return a context in which the jobs search for questions, for at most `seconds` or until the daemon stops.

        It is no dry run: the searches mark memories as examined.
        """
        end = time.monotonic() + seconds
        return RunContext(
            self._ormah,
            self._verdicts,
            NearMemories(self._ormah.index),
            judge=None,
            run=self._ormah.new_run(),
            now=self._now(),
            dry=False,
            stopping=lambda: self._ormah.phase == "stopping" or time.monotonic() > end,
            progress=lambda *_: None,
            agent=True,
        )

    # ------------------------------------------------------------ phase two

    def settle(self, receipt_id: str, lists: Mapping[str, Any], caller: Caller) -> MaintenanceResult:
        """Run phase two: apply the results. A question without a result counts as answered with no, and is not asked
        again.

        `lists`: {name of a list of results: its items}, not validated.

        Raises:
            NotFound: there is no such receipt.
            Conflict: the receipt was used or has expired.
            VaultBusy: another process holds git. Changes made so far stay, and the same results may be sent again.
        """
        with self._one:
            handed = self._open_receipt(receipt_id).issued
            issued = Issued.from_json(handed)
            checked = check(self._ormah, lists, issued)
            course = VerdictApplier(self._ormah, caller, self._ormah.new_run(), checked)
            course.apply()
            if self._sessions is not None and (items := lists.get(EXTRACTIONS)) is not None:
                made, bad, commits = self._sessions.settle(handed.get(EXTRACTIONS, []), items, caller, course.run)
                course.counts[EXTRACTIONS] = made
                course.commits += commits
                checked.refused += bad
            self._remember(issued, checked, caller)
            self._receipts.settle(receipt_id, self._now())
            self._looked = None
        refused = [  # without secrets, in case the agent sent one in place of an id
            replace(item, **{name: clean(self._ormah, getattr(item, name), []) or "" for name in ("id", "why")})
            for item in checked.refused
        ]
        counts = MaintenanceCounts(**course.counts, skipped=len(refused) + checked.no)
        run = course.run if any(course.counts.values()) else None
        return MaintenanceResult("applied", receipt_id, counts, refused=refused, run=run, commits=course.commits)

    def _open_receipt(self, receipt_id: str) -> Receipt:
        """Return an open receipt.

        Raises:
            NotFound: the receipt is unknown.
            Conflict: it was used, or has expired.
        """
        receipt = self._receipts.find(receipt_id)
        if receipt is None:
            raise NotFound(f"there is no receipt '{receipt_id[:60]}'", hint=ANOTHER)
        if receipt.settled is not None:
            why = f"this receipt was used at {receipt.settled:%Y-%m-%d %H:%M} UTC; its results stand"
            raise Conflict(why, hint=ANOTHER)
        if receipt.expires <= self._now():
            why = f"this receipt expired at {receipt.expires:%Y-%m-%d %H:%M} UTC; nothing was changed"
            raise Conflict(why, hint=ANOTHER)
        return receipt

    def _remember(self, issued: Issued, checked: Checked, caller: Caller) -> None:
        """Remember the verdict on each question, so that it is not asked again, even if a person undoes the change.

        A question whose answer was refused stays open, but is asked at most TRIES times.
        """
        for kind in KINDS:
            for item in issued.of(kind.batch) if kind.batch not in checked.unread else ():
                verdict = checked.verdicts.get((kind.batch, item.ids), kind.no)
                if (kind.batch, item) in checked.open:
                    tries = f"{kind.task.name}: refused"
                    times = int((self._verdicts.known(tries, item.texts) or {}).get("times", 0)) + 1
                    if times < TRIES:
                        self._verdicts.remember(tries, item.texts, {"times": times})
                        continue
                    verdict = {**verdict, "refused": times}
                self._verdicts.remember(kind.task.name, item.texts, {**verdict, "by": caller.source})

    # ------------------------------------------------------------ reminding agents

    def due(self) -> bool:
        """Return whether an agent should be told that there are questions to judge.

        True if no results came for a day, no receipt is open, and the last call of `search_if_due` found a question. This does
        not search, so it is quick.
        """
        return self._looked is not None and self._looked[1] and self._is_time()

    def _is_time(self) -> bool:
        """Return whether questions may be handed out again: a day passed since the last receipt, and none is open."""
        now, last = self._now(), self._receipts.last()
        return (last is None or now - last >= timedelta(days=1)) and self._receipts.open(now - HELD) is None

    def search_if_due(self, seconds: float = SECONDS) -> None:
        """Search for questions to judge if maintenance is due, and store for `due` whether there are any. The search
        takes at most `seconds`."""
        now = self._now()
        if not self._is_time():
            self._looked = None
            return
        if self._looked is not None and now - self._looked[0] < LOOKS_ANEW and self._looked[1]:
            return
        if self._sessions is not None and self._sessions.has_unread():
            self._looked = (now, True)
            return
        found = gather(self._searching(seconds), self._kinds, enough=True)
        self._looked = (now, bool(found))


def _unwrapped(results: dict[str, Any], receipt: str | None) -> tuple[Any, dict[str, Any]]:
    """Return the receipt's id and {name of a list: results} from the results of an agent, which may contain the id.

    Raises:
        BadRequest: a list is unknown, or two different receipts are named.
    """
    unknown = sorted(results.keys() - {"receipt", *LISTS})
    if unknown:
        hint = "there are: receipt, " + ", ".join(LISTS)
        raise BadRequest(f"results: there is no list '{unknown[0][:100]}'", hint=hint)
    inner = results.get("receipt")
    if receipt is not None and inner is not None and inner != receipt:
        raise BadRequest("two different receipts", hint="send the one that phase one gave")
    return inner or receipt, {name: results[name] for name in LISTS if results.get(name) is not None}
