"""What the vault has learned beside its notes (`.ormah/`): strength and judgements, followed wherever they change.

A commit of ours, an undo, a sync, git typed by hand: all of them change files, and the files are the truth. Judgements are
looked for before each use (a few microseconds), so that no way of changing them is forgotten.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ormahd.errors import OrmahError
from ormahd.model import decision
from ormahd.model.change import Committed, Kind
from ormahd.model.decision import ProposalDecision, key_of, line_id
from ormahd.model.judgement import FILES, FOLDER, Small, model_name
from ormahd.model.node import ProposalType
from ormahd.model.strength import STRENGTH_FILE as STRENGTH
from ormahd.model.strength import Pace, read_strength
from ormahd.note.note import digest
from ormahd.process import priority
from ormahd.state import whispers
from ormahd.state.feedback import Judgements, LineFiles, Seal
from ormahd.state.proposals import CONFLICT, Verdicts, text_key

if TYPE_CHECKING:
    from ormahd.index.index import Index
    from ormahd.state.state import State
    from ormahd.vault.vault import Vault

log = logging.getLogger("ormah")

TOGETHER = 200
"""Judgements that are embedded anew before they begin to count."""
PAUSE = 0.1
"""Seconds of rest between two of them, at most; else four times what the one took."""


class Learned:
    """Of one vault. Safe for many threads."""

    def __init__(self, vault: Vault, index: Index, state: State) -> None:
        self._vault = vault
        self._index = index
        self._state = state
        self._strength: str | None = None
        self._files = LineFiles(vault.root, FILES, self._read)
        self._decisions: LineFiles[ProposalDecision] = LineFiles(vault.root, decision.FILES, self._read)
        self._rejected: tuple[int, frozenset[str]] = (-1, frozenset())
        self._lock = threading.Lock()
        self._judgements = Judgements()
        self._made: tuple[int, str | None, int] | None = None
        self._anew: dict[str, Small] = {}
        """Vectors of the present model for judgements of another one, by the id of the line."""
        self._anew_of: str | None = None
        self._trouble: str | None = None
        self.seal = Seal(state.path.parent)
        """Keyed hashes for what must not be readable in the vault."""

    # ------------------------------------------------------------ following

    def read(self, pace: Pace = priority.giving) -> None:
        """Take in what the vault has now, where that is something new."""
        data = self._vault.read(STRENGTH) or b""
        found = digest(data)
        if found != self._strength:  # asked after every batch that a scan brings; parsed when it says something new
            self._strength = found
            self._index.set_strength(read_strength(data, pace=pace))
        with self._lock:
            self._look()

    def forget(self) -> None:
        """Tell the index of strength anew: it is another one."""
        self._strength = None
        self.read()

    def committed(self, done: Committed) -> None:
        """Our own commits. What a sync brought may be anything."""
        if done.kind is Kind.SYNC or any(one.path == STRENGTH or FILES.ours(one.path) for one in done.changes):
            self.read(iter)  # without a pause: everybody who writes waits for this

    # ------------------------------------------------------------ judgements

    @property
    def model(self) -> str | None:
        """The model whose vectors prompts have now, as judgements name it; None until it is loaded."""
        embedder = self._index.embedder
        return None if embedder is None else model_name(embedder.name)

    @property
    def judgements(self) -> Judgements:
        """All judgements of the vault. While another thread takes in new ones, those from before: nobody waits for it."""
        if self._lock.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._lock.release()
        return self._judgements

    def _look(self) -> None:
        try:
            self._files.look()
        except OSError as exc:
            if exc.strerror != self._trouble:
                log.warning("the judgements in %s cannot be read: %s", FOLDER, exc.strerror)
            self._trouble = exc.strerror
        model = self.model
        if model != self._anew_of:
            self._anew, self._anew_of = {}, model
        now = (self._files.version, model, len(self._anew))
        if now != self._made:
            self._judgements = Judgements.of(self._files.all(), model, anew=self._anew)
            self._made = now

    def both_hold(self, one_id: str, other_id: str) -> bool:
        """Whether somebody decided that both memories hold, as they read now: a person who rejected the conflict, a judge who
        denied it."""
        rows = list(self._index.notes([one_id, other_id], connections=False).values())
        texts = [text_key(row.title, row.content) for row in rows]
        if line_id(key_of(ProposalType.CONFLICT, [row.id for row in rows], texts)) in self._rejections():
            return True
        verdict = Verdicts(self._state).known(CONFLICT, texts)
        return verdict is not None and verdict.get("kind") == "none"

    def _rejections(self) -> frozenset[str]:
        """The ids of all lines that reject a proposal."""
        try:
            self._decisions.look()
        except OSError as exc:
            log.warning("the decisions in %s cannot be read: %s", decision.FOLDER, exc.strerror)
        if self._rejected[0] != (version := self._decisions.version):
            lines = self._decisions.by_id().items()
            self._rejected = version, frozenset(name for name, one in lines if one.verdict == "rejected")
        return self._rejected[1]

    def embed_anew(self, stopping: Callable[[], bool] = lambda: False) -> int:
        """Embed the prompts of judgements that were made with another model, where their text is known: committed with
        them, or still in the whisper log. The newest first, and with pauses, because whispers want the model too: some 50 ms
        each. Returns how many."""
        embedder = self._index.embedder
        if embedder is None:
            return 0
        model, made = model_name(embedder.name), 0
        idle = [one for one in self.judgements.idle if one.model != model]
        texts = whispers.prompt_texts(self._state, {one.event for one in idle if not one.prompt})
        known = [(one, text) for one in idle if (text := one.prompt or texts.get(one.event))]
        known.sort(key=lambda pair: pair[0].confirmed_at, reverse=True)
        for start in range(0, len(known), TOGETHER):
            vectors = {}
            for one, text in known[start : start + TOGETHER]:
                if stopping():
                    return made
                begun = time.monotonic()
                vectors[one.id] = Small.of(embedder.embed_query(text).vector)
                time.sleep(min(PAUSE, 4 * (time.monotonic() - begun)))
            with self._lock:
                self._look()
                if self._anew_of != model:
                    return made
                self._anew = {**self._anew, **vectors}
                self._look()
            made += len(vectors)
        return made

    def tidy(self, days: float, *, stopping: Callable[[], bool]) -> None:
        """Forget prompts that were asked longer ago; make judgements of another model comparable where that can be done."""
        whispers.prune(self._state, days)
        self.embed_anew(stopping)

    def bad_lines(self) -> list[tuple[str, int, str]]:
        """Lines of judgements that cannot be read: (path, number from 1, why)."""
        with self._lock:
            self._look()
            return self._files.bad()

    def _read(self, path: str) -> bytes | None:
        try:
            return self._vault.read(path)
        except OrmahError as exc:
            log.warning("the judgements in %s cannot be read: %s", path, exc.message)
            return None
