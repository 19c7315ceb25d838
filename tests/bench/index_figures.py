"""What the index costs: time to fill and to ask, bytes on the disk and in memory.

    python -m tests.bench.index_figures [notes] [--model]

Without `--model` vectors are random (in clusters), so that everything but the model is measured; with it the real
model embeds, beside sentence-transformers' own `encode` over the same texts. Prints a line for each figure; "cpu" is
the time of all threads of this process.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from ormahd.embedding import model as choose
from ormahd.embedding import model_files, token_vectors
from ormahd.embedding.embedder import DocumentVectors, Embedder, Piece, QueryVectors
from ormahd.embedding.model_files import Torch
from ormahd.embedding.token_vectors import calibration, quantise, unit
from ormahd.index.index import Index
from ormahd.index.rows import Filter
from ormahd.model.change import FileState
from ormahd.model.node import NodeType, Tier
from ormahd.note.read import digest
from ormahd.note.values import path_for
from ormahd.note.write import compose
from ormahd.settings import EmbeddingSettings

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BATCH = 1000
TURNS = 60


class Random:
    """Vectors in 300 clusters, as many tokens as a text of English has."""

    name = fingerprint = "random"
    dimensions, late_dimensions = 384, token_vectors.DIMENSIONS

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)
        self._centres = self._random.standard_normal((300, self.dimensions)).astype(np.float32)
        self._tokens = quantise(unit(self._random.standard_normal((500, self.late_dimensions))))

    def _vectors(self, count: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        noise = self._random.standard_normal((count, self.dimensions)).astype(np.float32)
        return unit(self._centres[self._random.integers(0, 300, count)] + noise)

    def embed_documents(
        self, texts: Sequence[str], headings: Sequence[str | None] | None = None, *, urgent: bool = False
    ) -> list[DocumentVectors]:
        made = []
        for text, vector in zip(texts, self._vectors(len(texts)), strict=True):
            count = len(text) // 5 + 1
            ids = self._random.integers(0, 30_000, count).astype(np.uint32)
            made.append(DocumentVectors((Piece(vector, ids, self._tokens[ids % 500]),)))
        return made

    def embed_query(self, text: str) -> QueryVectors:
        (vector,) = self._vectors(1)
        return QueryVectors(vector, np.arange(8, dtype=np.uint32), unit(self._tokens[:8]), vector[None].repeat(8, 0))


class Notes:
    """Notes of 8 to 40 words whose frequencies fall as in natural text (Zipf)."""

    def __init__(self) -> None:
        self._chance = random.Random(1)
        found = sorted({word.strip(".,?!").lower() for line in calibration() for word in line.split()})
        self.words = found + [word + ending for word in found for ending in ("ix", "or", "um", "et", "al")]
        self._chance.shuffle(self.words)
        self._weights = [1 / (rank + 10) for rank in range(len(self.words))]

    def text(self, least: int, most: int) -> str:
        return " ".join(self._chance.choices(self.words, self._weights, k=self._chance.randint(least, most)))

    def make(self, count: int) -> Iterator[tuple[str, tuple[bytes, FileState]]]:
        for number in range(count):
            identity = str(uuid.UUID(int=self._chance.getrandbits(128), version=4))
            kind = self._chance.choice(list(NodeType))
            space = self._chance.choice([None, "ormah", "web", "infra"])
            created = NOW + timedelta(minutes=number)
            title, content = self.text(3, 5), self.text(8, 40)
            data = compose(
                id=identity, type=kind, tier=self._chance.choice([Tier.CORE, Tier.WORKING, Tier.WORKING, Tier.ARCHIVAL]),
                space=space, title=title, tags=self._chance.sample(self.words, 2), source="agent:bench", confidence=1.0,
                created=created, updated=created, content=content,
            )  # fmt: skip
            path = path_for(id=identity, type=kind, space=space, title=title, content=content, created=created)
            yield path, (data, FileState(path, len(data), 1, number, digest(data)))


def say(what: str, value: float, unit_: str) -> None:
    print(f"{what:<44} {value:10.2f} {unit_}", flush=True)


def rss() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def times(what: str, ask: Callable[[int], object]) -> None:
    """Median and 95th percentile in milliseconds."""
    taken = []
    used = time.process_time()
    for turn in range(TURNS):
        begun = time.perf_counter()
        ask(turn)
        taken.append((time.perf_counter() - begun) * 1e3)
    used = (time.process_time() - used) / TURNS * 1e3
    taken.sort()
    print(
        f"{what:<44} p50 {taken[TURNS // 2]:7.2f}   p95 {taken[TURNS * 95 // 100]:7.2f}   cpu {used:7.2f} ms",
        flush=True,
    )


def opened(directory: Path, embedder: Embedder) -> Index:
    begun = time.perf_counter()
    index = Index.open(directory, clock=lambda: NOW)
    say("open", (time.perf_counter() - begun) * 1e3, "ms")
    begun = time.perf_counter()
    index.attach(embedder)
    say("attach", (time.perf_counter() - begun) * 1e3, "ms")
    return index


def fill(index: Index, files: list[tuple[str, tuple[bytes, FileState]]]) -> None:
    count = len(files)
    begun, used = time.perf_counter(), time.process_time()
    for at in range(0, count, BATCH):
        index.apply(dict(files[at : at + BATCH]), (), head="head")
    say("apply, a note", (time.perf_counter() - begun) / count * 1e3, "ms")
    index.wait_filled(3600)
    say("until all vectors are there, a note", (time.perf_counter() - begun) / count * 1e3, "ms")
    index.wait_filled(3600, settled=True)
    say("until Chroma knows them, a note", (time.perf_counter() - begun) / count * 1e3, "ms")
    say("cpu of all that, a note", (time.process_time() - used) / count * 1e3, "ms")


def sizes(index: Index, directory: Path, count: int) -> None:
    with index.database.read() as connection:
        tokens = connection.execute("SELECT sum(length(ids)) / 4 FROM token").fetchone()[0]
    total = sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
    say("tokens, a note", tokens / count, "")
    say("disk, a note", total / count / 1e3, "KB")
    say("  without 128 bytes a token", (total - 128 * tokens) / count / 1e3, "KB")
    say("  of it Chroma", sum(f.stat().st_size for f in (directory / "chroma").rglob("*") if f.is_file()) / count / 1e3, "KB")  # fmt: skip


def ask(index: Index, embedder: Embedder, notes: Notes) -> None:
    queries = [notes.text(4, 10) for _ in range(TURNS)]
    vectors = [embedder.embed_query(query).vector for query in queries]
    whisper = Filter(tiers=(Tier.CORE, Tier.WORKING), spaces=("ormah", "global"), alive_at=NOW)
    few = Filter(tags=(notes.words[500],))
    say("whisper's filter passes", index.count(whisper), "notes")
    say("a tag's filter passes", index.count(few), "notes")
    found = [one for one, _ in index.search_vectors(vectors[0], 100)]
    times("embed a question", lambda turn: embedder.embed_query(queries[turn]))
    times("search_text, 100", lambda turn: index.search_text(queries[turn], 100))
    times("search_text, 100, filter", lambda turn: index.search_text(queries[turn], 100, whisper))
    times("search_vectors, 100", lambda turn: index.search_vectors(vectors[turn], 100))
    times("search_vectors, 30, filter", lambda turn: index.search_vectors(vectors[turn], 30, whisper))
    times("search_vectors, 30, few pass", lambda turn: index.search_vectors(vectors[turn], 30, few))
    times("cosines of 100", lambda turn: index.cosines(vectors[turn], found))
    times("tokens of 100", lambda turn: index.tokens(found, vectors[turn]))
    times("notes of 100", lambda _: index.notes(found))
    times("resolve a short id", lambda turn: index.resolve(found[turn][:8]))
    active = index.indexer.active
    assert active is not None
    shares = []
    for vector in vectors[:30]:
        exact = {one for one, _ in active.matrix.nearest(vector, 30)}
        shares.append(len(exact & {one for one, _ in index.search_vectors(vector, 30)}) / 30)
    say("of the 30 nearest, found through Chroma", float(np.mean(shares)) * 100, "%")


def encode(embedder: Embedder, texts: list[str]) -> None:
    """The model's own speed beside ours, in turns, so that other work on the machine hits both."""
    raw, ours = [], []
    reference = Torch(model_files.find_model(embedder.name), EmbeddingSettings())
    for at in range(0, len(texts), 500):
        some = texts[at : at + 500]
        begun = time.perf_counter()
        reference.model.encode(some, batch_size=32, normalize_embeddings=True, show_progress_bar=False)
        middle = time.perf_counter()
        embedder.embed_documents(some)
        raw.append(middle - begun)
        ours.append(time.perf_counter() - middle)
    say("sentence-transformers encode", len(texts) / sum(raw), "notes/s")
    say("embed_documents", len(texts) / sum(ours), "notes/s")


def main(arguments: Sequence[str]) -> None:
    count = int(next((argument for argument in arguments if argument.isdigit()), "10000"))
    notes = Notes()
    files = list(notes.make(count))
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "index"
        say("resident before", rss(), "MB")
        embedder: Embedder = Random()
        if "--model" in arguments:
            begun = time.perf_counter()
            embedder = choose.load(EmbeddingSettings(), directory)
            say("load the model", time.perf_counter() - begun, "s")
            say("resident with the model", rss(), "MB")
            encode(embedder, [notes.text(8, 40) for _ in range(min(count, 2000))])
        index = opened(directory, embedder)
        fill(index, files)
        sizes(index, directory, count)
        say("resident when filled", rss(), "MB")
        ask(index, embedder, notes)
        extra = list(notes.make(20))
        times("apply one note", lambda turn: index.apply(dict([extra[turn % 20]]), (), head="head"))
        begun = time.perf_counter()
        different = index.verify()
        say(f"verify ({len(different)} differences)", time.perf_counter() - begun, "s")
        index.close()
        index = opened(directory, embedder)
        begun = time.perf_counter()
        index.wait_filled(60, settled=True)
        say("until Chroma is open", (time.perf_counter() - begun) * 1e3, "ms")
        begun = time.perf_counter()
        index.known()
        say("known", (time.perf_counter() - begun) * 1e3, "ms")
        say("resident at the end", rss(), "MB")
        index.close()


if __name__ == "__main__":
    main(sys.argv[1:])
