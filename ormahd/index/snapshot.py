"""The index of an earlier state of the vault: it answers like today's (`Reader`)."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from ormahd.embedding.embedder import DocumentVectors, Embedder, QueryVectors
from ormahd.index import embedding_cache
from ormahd.index.database import Database
from ormahd.index.indexer import Filler
from ormahd.index.reader import Reader
from ormahd.index.rows import micros
from ormahd.index.vector_store import Meaning
from ormahd.model.node import Strength

EMBEDDED = 500
"""Texts that are embedded for one question at most."""
EMBED_S = 5.0
"""Seconds that a question waits for that; what is not embedded by then is found by its words."""
CANDIDATES = 100
"""Notes that share words with a question, whose texts are embedded before all others."""
QUICK = 16
"""Of these, as many as a further question about the same state waits for: a fraction of a second."""
BATCH = 32
"""Texts in one forward pass, made in the thread that asks: other questions have the other cores."""

Progress = Callable[[int, int, str], None]
"""Called with how much is done, of how much (0: not known), and a word for what."""
Keep = Callable[[str, Mapping[bytes, DocumentVectors]], None]
"""Takes embeddings (the model's fingerprint; by the sha256 of the text) that may be wanted again."""


class Past(Reader):
    """One state. Its files never change; texts that today's index does not know are embedded as they are asked about."""

    def __init__(
        self,
        database: Database,
        meaning: Meaning | None,
        strength: Mapping[str, Strength],
        *,
        keep: Keep,
        clock: Callable[[], datetime],
    ) -> None:
        filler = Filler(database, threading.Lock(), clock)  # its thread is not started: `fill` does what is to be done
        filler.active = meaning
        super().__init__(database, filler)
        self._strength = strength
        self._keep = keep
        self._clock = clock
        self._filling = threading.Lock()
        self.key = ""
        self.users = 0
        self.dropped = False

    @property
    def embedder(self) -> Embedder | None:
        return self._filler.active.embedder if self._filler.active else None

    def embed_query(self, text: str) -> QueryVectors | None:
        """A question's vectors; None without a model."""
        return None if self.embedder is None else self.embedder.embed_query(text)

    @property
    def degraded(self) -> list[str]:
        """ "vectors" where some notes are found by their words only."""
        active = self._filler.active
        return ["vectors"] if active is None or active.waiting else []

    def fill(
        self,
        terms: Sequence[str],
        progress: Progress,
        *,
        quick: bool,
        most: int = EMBEDDED,
        seconds: float = EMBED_S,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """Embed texts that wait for it: those that share words with a question, then the newest of the rest. With `quick`
        one pass over the first of them, for a question about a state that has had its share."""
        meaning = self._filler.active
        if meaning is None or not meaning.waiting:
            return
        with self._filling:
            end = time.monotonic() + seconds
            near = [node_id for node_id, _ in self.search_text(terms, CANDIDATES) if node_id in meaning.waiting]
            chosen = near[:QUICK] if quick else list(dict.fromkeys([*near, *meaning.waiting]))[:most]
            for at in range(0, len(chosen), BATCH):
                if time.monotonic() >= end or stopped():
                    break
                progress(at, len(chosen), "embedding")
                self._embed(meaning, chosen[at : at + BATCH])

    def _embed(self, meaning: Meaning, ids: Sequence[str]) -> None:
        with self._database.read() as connection:
            sources = {one.sha: one for one in embedding_cache.sources(connection, ids).values()}
        texts = list(sources.values())
        vectors = meaning.embedder.embed_documents(
            [one.content for one in texts], [one.heading for one in texts], urgent=True
        )
        made = dict(zip(sources, vectors, strict=True))
        now = micros(self._clock())
        with self._database.write() as connection:
            embedding_cache.put(connection, meaning.number, made, now)
            delta = embedding_cache.follow(connection, meaning.number, ids, now)
        meaning.take(delta)
        self._keep(meaning.embedder.fingerprint, made)

    def remove(self) -> None:
        """Close it and give its disk and its memory back: without a ring, so that no garbage has to be looked for first."""
        self._filler.stop()
        self._filler.active = None
        self._beside.close()
        self._database.close()
        shutil.rmtree(self._database.directory, ignore_errors=True)
