"""What the vault has learned beside its notes: strength, judgements, decisions on proposals, and tombstones.

A tombstone says what must not be extracted from sessions again. All are read from files in `.ormah/`. Commits by Ormah,
an undo, a sync, or git run by hand may change these. So they are checked before each use; strength is read again after
commits and scans.
"""

from __future__ import annotations

import logging
import threading
import time

from ormahd.errors import OrmahError
from ormahd.index.index import Index
from ormahd.model import decision, tombstone
from ormahd.model.change import Committed, Kind
from ormahd.model.decision import ProposalDecision, key_of, line_id
from ormahd.model.judgement import FILES, FOLDER, Int8Vector, model_name
from ormahd.model.node import ProposalType
from ormahd.model.strength import STRENGTH_FILE as STRENGTH
from ormahd.model.strength import Pace, read_strength
from ormahd.model.tombstone import Tombstone, Tombstones
from ormahd.note.read import digest
from ormahd.process import priority
from ormahd.state import whispers
from ormahd.state.feedback import Judgements, KeyedHashes, LineFiles
from ormahd.state.proposals import CONFLICT, Verdicts, text_key
from ormahd.state.state import State
from ormahd.vault.vault import Vault

log = logging.getLogger("ormah")

TOGETHER = 200
"""The number of judgements in a batch that is embedded again. They take effect once the batch is done."""
PAUSE = 0.1
"""Maximum number of seconds between two embeddings. The pause is four times as long as the embedding before it took."""


class Learned:
    """Loads the strength, judgements and tombstones of one vault's memories, keeps them up to date with the vault's
    files, and gives strength to the index. Thread-safe."""

    def __init__(self, vault: Vault, index: Index, state: State) -> None:
        self._vault = vault
        self._index = index
        self._state = state
        self._strength: str | None = None
        self._files = LineFiles(vault.root, FILES, self._read)
        self._decisions: LineFiles[ProposalDecision] = LineFiles(vault.root, decision.FILES, self._read)
        self._rejected: tuple[int, frozenset[str]] = (-1, frozenset())
        self._tombstones: LineFiles[Tombstone] = LineFiles(vault.root, tombstone.FILES, self._read)
        self._forgotten: tuple[int, Tombstones] = (-1, Tombstones())
        self._lock = threading.Lock()
        self._judgements = Judgements()
        self._built_from: tuple[int, str | None, int] | None = None
        """(version of the files, model, number of prompts embedded again) from which `_judgements` was built."""
        self._reembedded: dict[str, Int8Vector] = {}
        """Line id of a judgement that was made with another model -> its prompt's vector by the current model."""
        self._reembedded_model: str | None = None
        self._last_error: str | None = None
        self.seal = KeyedHashes(state.path.parent)
        """Makes keyed hashes of values that must not be readable in the vault."""

    # ------------------------------------------------------------ following

    def read(self, pace: Pace = priority.giving) -> None:
        """Read strength and judgements again if the vault's files have changed."""
        data = self._vault.read(STRENGTH) or b""
        found = digest(data)
        if found != self._strength:  # called after each batch of a scan: parse only if changed
            self._strength = found
            self._index.strength = read_strength(data, pace=pace)
        with self._lock:
            self._refresh()

    def forget(self) -> None:
        """Read strength again and give it to the index, because the index was replaced."""
        self._strength = None
        self.read()

    def committed(self, done: Committed) -> None:
        """Read strength and judgements again after a commit by Ormah that changed their files, or after a sync."""
        if done.kind is Kind.SYNC or any(one.path == STRENGTH or FILES.ours(one.path) for one in done.changes):
            self.read(iter)  # without pauses: writers wait for this

    # ------------------------------------------------------------ judgements

    @property
    def model(self) -> str | None:
        """The name of the current embedding model, as judgements record it; None until it is loaded."""
        embedder = self._index.embedder
        return None if embedder is None else model_name(embedder.name)

    @property
    def judgements(self) -> Judgements:
        """All judgements of the vault. While another thread reads new ones, these are the earlier ones, without
        waiting."""
        if self._lock.acquire(blocking=False):
            try:
                self._refresh()
            finally:
                self._lock.release()
        return self._judgements

    def _refresh(self) -> None:
        """Read changed files of judgements, and rebuild the judgements if these or the model changed. Called under the
        lock."""
        try:
            self._files.refresh()
        except OSError as exc:
            if exc.strerror != self._last_error:
                log.warning("the judgements in %s cannot be read: %s", FOLDER, exc.strerror)
            self._last_error = exc.strerror
        model = self.model
        if model != self._reembedded_model:
            self._reembedded, self._reembedded_model = {}, model
        cache_key = (self._files.version, model, len(self._reembedded))
        if cache_key != self._built_from:
            self._judgements = Judgements.of(self._files.all(), model, anew=self._reembedded)
            self._built_from = cache_key

    def both_hold(self, one_id: str, other_id: str) -> bool:
        """Return whether a decision says that both memories are true in their current wording.

        Either a person rejected the proposal that they conflict, or a judge found no conflict.
        """
        rows = list(self._index.notes([one_id, other_id]).values())
        texts = [text_key(row.title, row.content) for row in rows]
        if line_id(key_of(ProposalType.CONFLICT, [row.id for row in rows], texts)) in self._rejections():
            return True
        verdict = Verdicts(self._state).known(CONFLICT, texts)
        return verdict is not None and verdict.get("kind") == "none"

    def _rejections(self) -> frozenset[str]:
        """Return the ids of all decisions that reject a proposal."""
        try:
            self._decisions.refresh()
        except OSError as exc:
            log.warning("the decisions in %s cannot be read: %s", decision.FOLDER, exc.strerror)
        if self._rejected[0] != (version := self._decisions.version):
            lines = self._decisions.by_id().items()
            self._rejected = version, frozenset(name for name, one in lines if one.verdict == "rejected")
        return self._rejected[1]

    def forgotten(self) -> Tombstones:
        """Return the tombstones, which name what must not be extracted from sessions again.

        Raises:
            OSError: their files cannot be read. Then nothing may be extracted, because a forgotten memory might come
            back.
        """
        self._tombstones.refresh()
        if self._forgotten[0] != (version := self._tombstones.version):
            self._forgotten = version, Tombstones.of(self._tombstones.all())
        return self._forgotten[1]

    def embed_again(self, stopping: threading.Event | None = None) -> int:
        """Embed with the current model the prompts of judgements whose vectors are of another model. Return the number
        of prompts embedded. Ends early once `stopping` is set.

        The newest come first. Judgements whose prompt's text is unknown are left out. After each prompt it pauses,
        because whispers need the model.
        """
        embedder = self._index.embedder
        if embedder is None:
            return 0
        model, count = model_name(embedder.name), 0
        idle = [one for one in self.judgements.idle if one.model != model]
        texts = whispers.prompt_texts(self._state, {one.event for one in idle if not one.prompt})
        known = [(one, text) for one in idle if (text := one.prompt or texts.get(one.event))]
        known.sort(key=lambda pair: pair[0].confirmed_at, reverse=True)
        for start in range(0, len(known), TOGETHER):
            vectors = {}
            for one, text in known[start : start + TOGETHER]:
                if stopping is not None and stopping.is_set():
                    return count
                begun = time.monotonic()
                vectors[one.id] = Int8Vector.of(embedder.embed_query(text).vector)
                time.sleep(min(PAUSE, 4 * (time.monotonic() - begun)))
            with self._lock:
                self._refresh()
                if self._reembedded_model != model:
                    return count
                self._reembedded = {**self._reembedded, **vectors}
                self._refresh()
            count += len(vectors)
        return count

    def bad_lines(self) -> list[tuple[str, int, str]]:
        """Return the lines of judgements and tombstones that cannot be read: (path, line number from 1, reason)."""
        with self._lock:
            self._refresh()
            return [*self._files.bad(), *self._tombstones.bad()]

    def _read(self, path: str) -> bytes | None:
        """Return the content of a file of judgements or tombstones, or None if it is missing or unreadable."""
        try:
            return self._vault.read(path)
        except OrmahError as exc:
            log.warning("the judgements in %s cannot be read: %s", path, exc.message)
            return None
