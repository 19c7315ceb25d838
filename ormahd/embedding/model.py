"""The embedder of a real model: load it, batch its forward passes, and turn texts into vectors.

`load` returns the embedder that the settings name. A model runs on ONNX Runtime (`onnx.py`) if its vectors there equal
those of sentence-transformers (`check.py`), else on torch (`model_files.Torch`). Importing this module imports none of
these libraries.

`Model` splits texts into windows of tokens, runs forward passes, and returns vectors.

`Together` batches passes: concurrent callers with a text or two each share one pass, because that is faster. The first
caller runs a pass at once. Callers that arrive meanwhile wait for its end; then the first of them runs one pass for all
that wait.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from ormahd.api import EmbeddingHealth
from ormahd.embedding import scale, token_vectors
from ormahd.embedding.embedder import DocumentVectors, Embedder, ModelProperties, Piece, QueryVectors
from ormahd.embedding.families import family_of
from ormahd.embedding.model_files import in_place, is_default
from ormahd.embedding.reading import read_share
from ormahd.embedding.scale import Scale
from ormahd.embedding.token_vectors import (
    OVERLAP,
    SEARCH_BACK,
    Float,
    ForwardPass,
    Ids,
    Runtime,
    forward_pass,
    ids_of,
    run,
    split,
)
from ormahd.errors import Unavailable
from ormahd.process import priority
from ormahd.process import priority as memory
from ormahd.settings import EmbeddingSettings

W = TypeVar("W")
M = TypeVar("M")
X = TypeVar("X")


def fitting(waiting: list[X], lengths: Callable[[X], Sequence[int]], most: int) -> list[X]:
    """Remove the first items from `waiting` that fit into one pass of `most` tokens, at least one, and return them.

    `lengths`: returns the number of tokens of each window of an item. Tokens of padding count too. The caller must
    keep other threads from changing `waiting`.
    """
    batch: list[X] = []
    count = longest = 0
    for one in waiting:
        windows = lengths(one)
        count += len(windows)
        longest = max([longest, *windows])
        if batch and count * longest > most:
            break
        batch.append(one)
    del waiting[: len(batch)]
    return batch


class _Ticket(Struct, Generic[W, M], eq=False):
    """A call of `Together` that waits for its results."""

    windows: Sequence[W]
    turn: threading.Event = field(default_factory=threading.Event)
    """Set when the call is over, or when its thread has to run the next pass."""
    over: bool = False
    """Whether the results (`made`), or the `error` of the pass, are set."""
    made: list[M] | None = None
    error: BaseException | None = None


class Together(Generic[W, M]):
    """Joins calls from several threads into one call of `forward`. Thread-safe.

    `forward` returns one result for each window (the token ids of a text or piece), in order.
    """

    def __init__(self, forward: Callable[[Sequence[W]], list[M]], length: Callable[[W], int], *, most: int) -> None:
        """`length`: returns the number of tokens of a window. `most`: maximum number of tokens in a pass, with
        padding."""
        self._forward = forward
        self._length = length
        self._most = most
        self._lock = threading.Lock()
        self._busy = False
        """Whether a pass is running. If none is, no call waits."""
        self._waiting: list[_Ticket[W, M]] = []

    def __call__(self, windows: Sequence[W]) -> list[M]:
        """Return the results for `windows`. If the call of `forward` with them raised, raise the same exception."""
        ticket: _Ticket[W, M] = _Ticket(windows)
        with self._lock:
            self._waiting.append(ticket)
            first, self._busy = not self._busy, True
        if not first:
            ticket.turn.wait()
        if not ticket.over:
            priority.give()
            self._run()
        if ticket.error is not None:
            raise ticket.error
        assert ticket.made is not None
        return ticket.made

    def _run(self) -> None:
        """Call `forward` for as many waiting calls as fit, at least one. Then wake the thread that runs the next
        pass."""
        with self._lock:
            batch = fitting(self._waiting, lambda ticket: [*map(self._length, ticket.windows)], self._most)
        try:
            made = self._forward([window for ticket in batch for window in ticket.windows])
        except BaseException as exc:  # noqa: BLE001  # each caller raises it
            for ticket in batch:
                ticket.error = exc
        else:
            at = 0
            for ticket in batch:
                ticket.made = made[at : at + len(ticket.windows)]
                at += len(ticket.windows)
        with self._lock:
            self._busy = bool(self._waiting)
            if self._waiting:
                self._waiting[0].turn.set()
        for ticket in batch:
            ticket.over = True
            ticket.turn.set()


BATCH_SIZE = 32
"""Maximum number of texts in one forward pass. On a CPU more texts are not faster, and take more memory."""
MAX_PIECES = 64
"""Maximum number of pieces of one note that are embedded. The rest of the note is found by full text search only."""
PASS_TOKENS = 512
"""Maximum number of tokens in one forward pass, with padding. On a CPU more tokens are slower."""
STEP_TOKENS = 256
"""The same for bulk work in int8. There longer passes gain little, and shorter ones give a waiting request a core
sooner."""
PASSES = 4
"""Maximum number of forward passes in one task. Their results are processed together, because each numpy call may wait
for the GIL."""
APART = 3
"""Minimum number of texts for each core when the texts of a small urgent batch are divided among cores."""
MANY = 64
"""Number of texts above which several threads tokenize them."""
TOKENIZED = 65_536
"""Maximum number of characters that are tokenized in one call, where each text counts as much as the longest. It limits
memory, because the tokenizer's results are many times as large as the text."""
HEADING_SHARE = 0.25
"""Maximum share of the window that the heading takes in each piece of a text with several pieces."""
CHARACTERS_PER_TOKEN = 8
"""Assumed maximum number of characters of a token. By it a text is cut to what its pieces can contain, before it is
tokenized."""
BULK_NICE = 10
"""Added to the niceness of threads that embed in bulk, so that they do not delay a whisper on a busy machine."""
ASIDE_NICE = 5
"""Added to the niceness of threads that embed urgent batches. They do not need the GIL. Threads that hold it, and git,
shall run first, because many requests wait for these."""
RECIPE = 2
"""Version of how texts are turned into vectors. It is part of the fingerprint, so that vectors of different versions
are not mixed."""

log = logging.getLogger(__name__)


class Model:
    """An embedder that runs a model on the CPU. The model's files must be on this machine.

    Each forward pass uses one core, and several run at once. Bulk work uses as many threads as the settings allow, at
    low priority; queries run at the same time in their callers' threads.
    """

    def __init__(
        self, settings: EmbeddingSettings, about: ModelProperties, runtime: Runtime, identity: Sequence[str], directory: Path,
        served: EmbeddingHealth,
    ) -> None:  # fmt: skip
        """`identity`: lines that identify the model and how it is computed; `directory`: where the PCA basis of token
        vectors and the scale of similarities are stored."""
        self.name = settings.model
        self.served = served
        self._batch = BATCH_SIZE
        self._most = MAX_PIECES
        self._threads = settings.threads or min(8, priority.cores())
        self._pool = ThreadPoolExecutor(self._threads, "embed")
        self._quiet = ThreadPoolExecutor(
            self._threads, "embed-quiet", initializer=priority.step_back, initargs=(BULK_NICE,)
        )
        self._one = threading.Lock()
        self._aside = ThreadPoolExecutor(
            self._threads, "embed-aside", initializer=priority.step_back, initargs=(ASIDE_NICE,)
        )
        self._few = PASS_TOKENS * self._threads
        """Maximum number of tokens, with padding, of a small urgent batch. All threads together embed it in one go."""
        self._together = Together[Ids, Made](self._forward_aside, lambda window: len(window.ids), most=self._few)
        self._runtime = runtime
        self._tokenizer = about.tokenizer
        self._pad = about.pad
        self._specials = int(about.tokenizer.num_special_tokens_to_add(is_pair=False))
        self._window = about.window
        family = family_of(settings.model, *identity[:1]) if not (about.query or about.document) else None
        self._query_prefix = settings.query_prefix or about.query or (family.query if family else "")
        self._prefix = settings.document_prefix or about.document or (family.document if family else "")
        self.fingerprint = self._fingerprint(identity, token_vectors.DIMENSIONS)
        self._basis: Float | None = None
        self._basis = self._load_basis(directory, token_vectors.DIMENSIONS)
        self._scale: Scale | None = None
        if not is_default(settings.model):
            self._scale = self._load_scale(directory)
        self.dimensions = len(self.embed_query("dimensions").vector)
        self.late_dimensions = int(self._basis.shape[1])

    @property
    def window(self) -> int:
        """Maximum number of tokens in a forward pass of one text."""
        return self._window

    @property
    def query_prefix(self) -> str:
        return self._query_prefix

    @property
    def document_prefix(self) -> str:
        return self._prefix

    def embed_documents(
        self, texts: Sequence[str], headings: Sequence[str | None] | None = None, *, urgent: bool = False
    ) -> list[DocumentVectors]:
        each = self._windows_of_all(texts, headings or [None] * len(texts), urgent=urgent)
        windows = [*itertools.chain(*each)]
        owners = [number for number, some in enumerate(each) for _ in some]
        made = self._forward_all(windows, urgent=urgent)
        pieces: list[list[Piece]] = [[] for _ in texts]
        for owner, (vector, ids, codes) in zip(owners, made, strict=True):
            pieces[owner].append(Piece(vector, ids, codes))
        return [DocumentVectors(tuple(some)) for some in pieces]

    def embed_query(self, text: str) -> QueryVectors:
        """Return the vectors of a query. If it has more tokens than a forward pass takes, its beginning and its end
        are used."""
        room = (self._window - self._specials) * CHARACTERS_PER_TOKEN
        if len(text) > 2 * room:
            text = f"{text[:room]} {text[-room:]}"
        found = self._tokenizer.encode(self._query_prefix + text)
        read = read_share(self._query_prefix + text, len(self._query_prefix), found.offsets, found.tokens)
        window = ids_of(found)
        if len(window.ids) > self._window:
            half = self._window // 2
            window = Ids(window.ids[:half] + window.ids[-half:], window.special[:half] + window.special[-half:])
        vectors, ids, wide = run(self._runtime, [window], self._pad)
        return QueryVectors(vectors[0], ids[0], self._small(wide[0]), wide[0], read, self._scale)

    def give_back(self) -> None:
        """Free RAM, see `Embedder.give_back`."""
        self._runtime.give_back()

    # Texts to windows

    def _windows_of_all(self, texts: Sequence[str], headings: Sequence[str | None], *, urgent: bool) -> list[list[Ids]]:
        """Return for each text its pieces as token ids (`_windows`). Several threads tokenize many urgent texts.

        Bulk work uses one thread for that, because meanwhile another batch is embedded.
        """
        several = self._threads if urgent and len(texts) > MANY else 1
        if several == 1:
            return self._windows(texts, headings)
        parts = ([some[at::several] for at in range(several)] for some in (texts, headings))
        found: list[list[Ids]] = [[] for _ in texts]
        for at, part in enumerate(self._pool.map(self._windows, *parts)):
            found[at::several] = part
        return found

    def _windows(self, texts: Sequence[str], headings: Sequence[str | None]) -> list[list[Ids]]:
        """Return for each text its pieces as token ids, with special tokens. `headings`: one for each text."""
        heads = [self._prefix + (f"{heading}\n" if heading else "") for heading in headings]
        bodies = [text[: self._most * self._window * CHARACTERS_PER_TOKEN] for text in texts]
        found: list[list[Ids]] = []
        waiting = [head + body for head, body in zip(heads, bodies, strict=True)]
        while waiting:
            some = fitting(waiting, lambda text: [len(text)], TOKENIZED)
            # `encode_batch` releases the GIL, also for one text; `encode` holds it.
            for whole in self._tokenizer.encode_batch(some):
                at = len(found)
                found.append([ids_of(whole)] if len(whole.ids) <= self._window else self._pieces(heads[at], bodies[at]))
        return found

    def _pieces(self, head: str, body: str) -> list[Ids]:
        """Split `body`, a text too long for one forward pass, into pieces, and return each as token ids. `head`
        (prefix and heading) is put before each piece."""
        room = self._window - self._specials
        alone = self._tokenizer.encode(head, add_special_tokens=False)
        if len(alone.ids) > room * HEADING_SHARE:
            head = head[: alone.offsets[int(room * HEADING_SHARE) - 1][1]] + "\n"
            alone = self._tokenizer.encode(head, add_special_tokens=False)
        (whole,) = self._tokenizer.encode_batch([body], add_special_tokens=False)
        spans = whole.offsets
        places = split(body, spans, room - len(alone.ids), self._most)
        pieces = [head + body[spans[first][0] : spans[last - 1][1]] for first, last in places]
        return [ids_of(piece, self._window) for piece in self._tokenizer.encode_batch(pieces)]

    # Windows to vectors

    def _forward_all(self, windows: Sequence[Ids], *, urgent: bool) -> list[Made]:
        """Return (vector, token ids, token vectors) of each window, in order. Each forward pass takes windows of
        similar length. `urgent`: whether a request waits for the result."""
        order = sorted(range(len(windows)), key=lambda at: -len(windows[at].ids))
        few = urgent and bool(order) and len(order) * len(windows[order[0]].ids) <= self._few
        eight = self.served.precision == "int8"
        most = self._few if few else STEP_TOKENS if eight else PASS_TOKENS
        batches: list[list[int]] = []
        while order:
            longest = len(windows[order[0]].ids)
            size = min(len(order), max(1, min(self._batch, most // longest)))
            if eight and not few:  # int8 takes only windows of the same length in one pass
                while len(windows[order[size - 1]].ids) < longest:
                    size -= 1
            batches.append(order[:size])
            order = order[size:]
        passes = [[windows[at] for at in batch] for batch in batches]
        several = max(1, min(PASSES, len(passes) // self._threads)) if urgent else PASSES
        tasks = [passes[at : at + several] for at in range(0, len(passes), several)]
        results: Iterator[list[Made]]
        if urgent and len(batches) == 1:
            results = map(self._together, passes)
        elif urgent:
            results = self._pool.map(self._forward, tasks)
        else:
            results = self._quiet.map(self._by_the_way, tasks)
        made = dict(zip(itertools.chain(*batches), itertools.chain.from_iterable(results), strict=True))
        return [made[at] for at in range(len(windows))]

    def _by_the_way(self, passes: Sequence[Sequence[Ids]]) -> list[Made]:
        outcomes = []
        for windows in passes:
            priority.give()
            # While there are requests, only one bulk pass runs at a time.
            with self._one if priority.asked_lately() else nullcontext():
                outcomes.append(forward_pass(self._runtime, windows, self._pad))
        return self._finished(outcomes)

    def _forward(self, passes: Sequence[Sequence[Ids]]) -> list[Made]:
        return self._finished([forward_pass(self._runtime, windows, self._pad) for windows in passes])

    def _forward_aside(self, windows: Sequence[Ids]) -> list[Made]:
        """Return (vector, token ids, token vectors) of each window, in order. The windows are divided among as many
        cores as make it faster. They must be sorted by length, so that those in one pass are similar."""
        passes = -(-sum(len(window.ids) for window in windows) // PASS_TOKENS)
        parts = min(self._threads, max(passes, len(windows) // APART), len(windows))
        ends = [len(windows) * part // parts for part in range(parts + 1)]
        tasks = [[windows[begin:end]] for begin, end in itertools.pairwise(ends)]
        return [*itertools.chain.from_iterable(self._aside.map(self._forward, tasks))]

    def _finished(self, passes: Sequence[ForwardPass]) -> list[Made]:
        vectors = token_vectors.unit(np.concatenate([one.pooled for one in passes]))
        small = self._small(np.concatenate([one.tokens for one in passes]))
        tokens: Tokens = small if self._basis is None else token_vectors.quantise(small)
        ends = np.cumsum([count for one in passes for count in one.counts])[:-1]
        ids = np.split(np.concatenate([one.ids for one in passes]), ends)
        return list(zip(vectors, ids, np.split(tokens, ends), strict=True))

    def _small(self, wide: Float) -> Float:
        """Return token vectors projected to the PCA basis, as unit vectors; before there is a basis, only
        normalised."""
        return token_vectors.unit(wide) if self._basis is None else token_vectors.project(wide, self._basis)

    # Fingerprint and basis of the model

    def _fingerprint(self, identity: Sequence[str], late_dimensions: int) -> str:
        sha = hashlib.sha256()
        for line in identity:
            sha.update(f"{line}\n".encode())
        for part in (
            *token_vectors.calibration(), self._prefix, self._query_prefix, self._window, self._most, late_dimensions, RECIPE,
            OVERLAP, SEARCH_BACK, HEADING_SHARE,
        ):  # fmt: skip
            sha.update(f"{part}\n".encode())
        return sha.hexdigest()

    def _load_basis(self, directory: Path, dimensions: int) -> Float:
        """Return the PCA basis of token vectors from its file in `directory`. If that is missing or damaged, compute
        the basis and write the file. All vaults share the directory."""
        path = directory / f"basis-{self.fingerprint[:16]}.npy"
        try:
            kept = np.load(path, allow_pickle=False)
            if kept.dtype == np.float32 and kept.ndim == 2 and np.isfinite(kept).all():
                return np.asarray(kept, np.float32)
        except (OSError, ValueError, EOFError):
            log.info("computing the basis of the token vectors of %s", self.name)
        lines = token_vectors.calibration()
        windows = [*itertools.chain(*self._windows(lines, [None] * len(lines)))]
        made = self._forward_all(windows, urgent=False)
        found = token_vectors.basis(np.concatenate([tokens for _, _, tokens in made]), dimensions)
        with in_place(path) as opened:
            np.save(opened, found)
        return found

    def _load_scale(self, directory: Path) -> Scale:
        """Return the scale of the model's similarities from its file in `directory`. If that is missing or damaged,
        measure the scale and write the file."""
        path = directory / f"scale-{self.fingerprint[:16]}.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=Scale)
        except (OSError, msgspec.DecodeError):
            log.info("measuring the scale of the similarities of %s", self.name)
        texts = scale.texts()
        found = scale.measure([self.embed_query(text) for text in texts], self.embed_documents(texts))
        with in_place(path) as opened:
            opened.write(msgspec.json.encode(found))
        return found


Tokens = NDArray[Any]
"""Token vectors of a window: int8 codes in the PCA basis (`token_vectors.quantise`); before there is a basis, unit
float32 vectors of the model's width."""
Made = tuple[Float, NDArray[np.uint32], Tokens]
"""Results for one window: (vector, token ids, token vectors)."""


def load(settings: EmbeddingSettings, directory: Path) -> Embedder:
    """Load the embedder that the settings name. `directory`: where data computed for a model is stored.

    Takes half a second on ONNX Runtime, seconds on torch. For a model that was never compared with
    sentence-transformers, the first call also waits for that comparison, in another process.

    Raises Unavailable, with a hint, if the model's files are not on this machine, or do not run on the runtime that
    `embedding.runtime` requires.
    """
    if settings.model == "hashing":
        from ormahd.embedding.embedder import Hashing

        return Hashing(late_dimensions=token_vectors.DIMENSIONS)
    made = _load(settings, directory)
    made.give_back()
    memory.give_back()
    return made


def _load(settings: EmbeddingSettings, directory: Path) -> Embedder:
    from ormahd.embedding import model_files

    where = model_files.find_model(settings.model)
    folder = model_files.folder_of(where)
    if folder is not None and folder == model_files.default_folder():
        model_files.check_weights(folder)
    identity = model_files.identity(where, folder)
    why = None
    if settings.runtime != "torch" and folder is not None:
        from ormahd.embedding import check

        try:
            opened = check.open_onnx(folder, identity, directory, settings.precision)
            return Model(settings, opened.about, opened.runtime, opened.identity, directory, opened.served)
        except Unavailable as unfit:
            if settings.runtime == "onnx":
                raise
            why = str(unfit.data.get("why") or unfit.message)
            log.log(logging.WARNING if unfit.data.get("fault") else logging.INFO, "%s", unfit.message)
    from ormahd.embedding.model_files import Torch

    torch = Torch(where, settings)
    log.info("the embedding model runs on torch")
    about = torch.about(settings.model)
    return Model(
        settings,
        about,
        torch,
        identity,
        directory,
        EmbeddingHealth("torch", torch.version, torch.precision, why, None, None, 0, None, None),
    )
