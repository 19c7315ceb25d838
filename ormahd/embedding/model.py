"""The embedder of a real model: load it, and turn texts into vectors.

`load` returns the embedder that the settings name. An ONNX file runs on ONNX Runtime (`onnx.py`), any other model on
torch (`model_files.Torch`). Importing this module imports none of these libraries.

`Model` splits texts into windows of tokens, runs forward passes, and returns vectors.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from threading import Lock
from typing import TypeVar
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from ormahd.api import EmbeddingHealth
from ormahd.embedding import model_files, token_vectors
from ormahd.embedding.embedder import DocumentVectors, Embedder, Hashing, ModelProperties, Piece, QueryVectors
from ormahd.embedding.families import family_of
from ormahd.embedding.onnx import OnnxRuntime
from ormahd.embedding.reading import read_share
from ormahd.embedding.token_vectors import OVERLAP, SEARCH_BACK, Codes, Float, Ids, Runtime, forward_pass, ids_of, split
from ormahd.process import priority
from ormahd.settings import EmbeddingSettings
from ormahd.text.words import FUNCTION_WORDS, QUESTION_WORDS

X = TypeVar("X")
Made = tuple[Float, NDArray[np.uint32], Codes]
"""Results for one window: (vector, token ids, token vectors)."""

MAX_PIECES = 64
"""Maximum number of pieces of one note that are embedded. The rest of the note is found by full text search only."""
PASS_TOKENS = 512
"""Maximum number of tokens in one forward pass, with padding. On a CPU more tokens are not faster."""
MAX_THREADS = 8
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
URGENT_NICE = 5
"""Added to the niceness of threads that embed what a request waits for. They do not need the GIL. Threads that hold it,
and git, shall run first, because many requests wait for these."""
CROWDED = 0.2
"""Mean cosine of unrelated texts from which a model's vectors are centred. The default model has 0.03, e5 has 0.75."""
RECIPE = 4
"""Version of how texts are turned into vectors. It is part of the fingerprint, so that vectors of different versions
are not mixed."""

log = logging.getLogger(__name__)


def take_fitting(waiting: list[X], length: Callable[[X], int], limit: int) -> list[X]:
    """Remove the first items from `waiting`, at least one, that together have a size of at most `limit`. Return them.
    `length`: returns the size of an item in tokens or characters. Each item counts as much as the longest, because of
    padding."""
    size = longest = 0
    for one in waiting:
        longest = max(longest, length(one))
        if size and (size + 1) * longest > limit:
            break
        size += 1
    first = waiting[:size]
    del waiting[:size]
    return first


class Model:
    """An embedder that runs a model on the CPU. The model's files must be on this machine.

    Each forward pass uses one core, and several run at once. Bulk work runs at low priority; queries run at the same
    time in their callers' threads. A text has the same vectors alone and in any pass with others.
    """

    def __init__(
        self, settings: EmbeddingSettings, about: ModelProperties, runtime: Runtime, identity: Sequence[str], directory: Path
    ) -> None:  # fmt: skip
        """`identity`: lines that identify the model; `directory`: where the means and the PCA basis of token
        vectors are stored."""
        self.name = settings.model
        self.served = EmbeddingHealth(runtime.name, runtime.version)
        self._threads = min(MAX_THREADS, priority.cores())
        self._bulk = ThreadPoolExecutor(self._threads, "embed", initializer=priority.step_back, initargs=(BULK_NICE,))
        self._urgent = ThreadPoolExecutor(
            self._threads, "embed-urgent", initializer=priority.step_back, initargs=(URGENT_NICE,)
        )
        self._one_bulk_pass = Lock()
        self._runtime = runtime
        self._tokenizer = about.tokenizer
        self._function_words = [about.tokenizer.token_to_id(word) or 0 for word in FUNCTION_WORDS | QUESTION_WORDS]
        self._specials = int(about.tokenizer.num_special_tokens_to_add(is_pair=False))
        self.window = about.window
        """Maximum number of tokens in a forward pass of one text."""
        family = family_of(settings.model) if not (about.query or about.document) else None
        self.query_prefix = about.query or (family.query if family else "")
        self.document_prefix = about.document or (family.document if family else "")
        self.fingerprint = self._fingerprint(identity)
        self._middle, self._token_middle, self._basis = self._load_means_and_basis(directory)
        self.dimensions = len(self.embed_query("dimensions").vector)
        self.late_dimensions = int(self._basis.shape[1])

    def embed_documents(
        self, texts: Sequence[str], headings: Sequence[str | None] | None = None, *, urgent: bool = False
    ) -> list[DocumentVectors]:
        """Return the vectors of texts, see `Embedder.embed_documents`.

        Pieces of similar length are run in one forward pass, the longest first, so that little padding is needed.
        """
        # Divide the texts into windows, and group windows of similar length into forward passes.
        each = self._windows(texts, headings or [None] * len(texts))
        windows = [*itertools.chain(*each)]
        owners = [number for number, group in enumerate(each) for _ in group]
        order = sorted(range(len(windows)), key=lambda at: -len(windows[at].ids))
        per_core = max(1, -(-len(windows) // self._threads))  # a few texts are divided among the cores
        passes: list[list[int]] = []
        while order:
            group = take_fitting(order, lambda at: len(windows[at].ids), PASS_TOKENS)
            passes += [group[at : at + per_core] for at in range(0, len(group), per_core)]

        # Run the passes on several cores.
        pool, forward = (self._urgent, self._forward) if urgent else (self._bulk, self._forward_in_bulk)
        made: list[Made | None] = [None] * len(windows)
        results = pool.map(forward, [[windows[at] for at in group] for group in passes])
        for at, one in zip(itertools.chain(*passes), itertools.chain.from_iterable(results), strict=True):
            made[at] = one

        # Put the results in the order of the texts.
        pieces: list[list[Piece]] = [[] for _ in texts]
        for owner, found in zip(owners, made, strict=True):
            assert found is not None
            pieces[owner].append(Piece(*found))
        return [DocumentVectors(tuple(group)) for group in pieces]

    def embed_query(self, text: str) -> QueryVectors:
        """Return the vectors of a query. If it has more tokens than a forward pass takes, its beginning and its end
        are used."""
        room = (self.window - self._specials) * CHARACTERS_PER_TOKEN
        if len(text) > 2 * room:
            text = f"{text[:room]} {text[-room:]}"
        found = self._tokenizer.encode(self.query_prefix + text)
        read = read_share(self.query_prefix + text, len(self.query_prefix), found.offsets, found.tokens)
        window = ids_of(found)
        if len(window.ids) > self.window:
            half = self.window // 2
            window = Ids(window.ids[:half] + window.ids[-half:], window.special[:half] + window.special[-half:])
        one = forward_pass(self._runtime, [window])
        wide = token_vectors.centred(one.tokens, self._token_middle)
        small = token_vectors.project(wide, self._basis)
        common = np.isin(one.ids, self._function_words)
        vector = token_vectors.centred(one.pooled, self._middle)[0]
        return QueryVectors(vector, one.ids, small, wide, read, model_files.weights_of(self.name), common)

    # Texts to windows

    def _windows(self, texts: Sequence[str], headings: Sequence[str | None]) -> list[list[Ids]]:
        """Return the pieces of each text as token ids, with special tokens. `headings`: one for each text."""
        heads = [self.document_prefix + (f"{heading}\n" if heading else "") for heading in headings]
        bodies = [text[: MAX_PIECES * self.window * CHARACTERS_PER_TOKEN] for text in texts]
        found: list[list[Ids]] = []
        waiting = [head + body for head, body in zip(heads, bodies, strict=True)]
        while waiting:
            batch = take_fitting(waiting, len, TOKENIZED)
            # `encode_batch` releases the GIL, also for one text; `encode` holds it.
            for whole in self._tokenizer.encode_batch(batch):
                at = len(found)
                found.append([ids_of(whole)] if len(whole.ids) <= self.window else self._pieces(heads[at], bodies[at]))
        return found

    def _pieces(self, head: str, body: str) -> list[Ids]:
        """Return the pieces of `body`, a text too long for one forward pass, as token ids. Each begins with `head`
        (prefix and heading)."""
        # Cut the head, if it would take too much of each piece.
        room = self.window - self._specials
        alone = self._tokenizer.encode(head, add_special_tokens=False)
        if len(alone.ids) > room * HEADING_SHARE:
            head = head[: alone.offsets[int(room * HEADING_SHARE) - 1][1]] + "\n"
            alone = self._tokenizer.encode(head, add_special_tokens=False)

        # Cut the body at tokens, so that head and piece together fit the window.
        (whole,) = self._tokenizer.encode_batch([body], add_special_tokens=False)
        spans = whole.offsets
        places = split(body, spans, room - len(alone.ids), MAX_PIECES)
        pieces = [head + body[spans[first][0] : spans[last - 1][1]] for first, last in places]
        return [ids_of(piece, self.window) for piece in self._tokenizer.encode_batch(pieces)]

    # Windows to vectors

    def _forward_in_bulk(self, windows: Sequence[Ids]) -> list[Made]:
        """Do what `_forward` does, at low priority: waiting requests run first."""
        priority.give()
        # While there are requests, only one bulk pass runs at a time.
        with self._one_bulk_pass if priority.asked_lately() else nullcontext():
            return self._forward(windows)

    def _forward(self, windows: Sequence[Ids]) -> list[Made]:
        """Return (vector, token ids, token vectors) of each window, in order."""
        one = forward_pass(self._runtime, windows)
        wide = token_vectors.centred(one.tokens, self._token_middle)
        tokens = token_vectors.quantise(token_vectors.project(wide, self._basis))
        ends = np.cumsum(one.counts)[:-1]
        pooled = token_vectors.centred(one.pooled, self._middle)
        return list(zip(pooled, np.split(one.ids, ends), np.split(tokens, ends), strict=True))

    # Fingerprint and basis of the model

    def _fingerprint(self, identity: Sequence[str]) -> str:
        """Return the sha256 of all that determines the vectors: the model, the prefixes, and how texts are divided."""
        sha = hashlib.sha256()
        model = (*identity, *token_vectors.calibration(), self.document_prefix, self.query_prefix, self.window)
        recipe = (MAX_PIECES, token_vectors.DIMENSIONS, RECIPE, OVERLAP, SEARCH_BACK, HEADING_SHARE)
        for part in (*model, *recipe):
            sha.update(f"{part}\n".encode())
        return sha.hexdigest()

    def _load_means_and_basis(self, directory: Path) -> tuple[Float, Float, Float]:
        """Return (mean vector of texts, mean vector of tokens, PCA basis of token vectors), from their file in
        `directory`. If the file is missing or damaged, compute them and write it. All vaults share the directory.

        The means are zero if the vectors of unrelated texts are not close to each other, as with the default model.
        """
        path = directory / f"frame-{self.fingerprint[:16]}.npz"
        try:
            with np.load(path, allow_pickle=False) as stored:
                middle, token_middle, basis = (stored[name] for name in ("middle", "token_middle", "basis"))
            found = ((middle, 1), (token_middle, 1), (basis, 2))
            if all(one.dtype == np.float32 and one.ndim == ndim and np.isfinite(one).all() for one, ndim in found):
                return middle, token_middle, basis
        except (OSError, ValueError, EOFError, KeyError, BadZipFile):
            log.info("computing the basis of the token vectors of %s", self.name)
        lines = token_vectors.calibration()
        windows = [*itertools.chain(*self._windows(lines, [None] * len(lines)))]
        made = [*self._bulk.map(lambda window: forward_pass(self._runtime, [window]), windows)]
        pooled = token_vectors.unit(np.concatenate([one.pooled for one in made]))
        tokens = token_vectors.unit(np.concatenate([one.tokens for one in made]))
        middle, token_middle = pooled.mean(axis=0), tokens.mean(axis=0)
        if float(middle @ middle) < CROWDED:
            middle, token_middle = np.zeros_like(middle), np.zeros_like(token_middle)
        basis = token_vectors.basis(token_vectors.centred(tokens, token_middle), token_vectors.DIMENSIONS)
        with model_files.in_place(path) as opened:
            np.savez(opened, middle=middle, token_middle=token_middle, basis=basis)
        return middle, token_middle, basis


def load(settings: EmbeddingSettings, directory: Path) -> Embedder:
    """Return the embedder that the settings name. `directory`: where data computed for a model is stored.

    Takes half a second on ONNX Runtime, seconds on torch, and some more when a model is loaded for the first time.

    Raises Unavailable, with a hint, if the model's files are not on this machine, or cannot be loaded.
    """
    if settings.model == "hashing":
        return Hashing(late_dimensions=token_vectors.DIMENSIONS)
    identity = model_files.identity(settings.model)
    files = model_files.onnx_files(settings.model)
    runtime: Runtime
    if files is not None:
        runtime = OnnxRuntime(files.weights, files.pooling)
        about = ModelProperties(model_files.tokenizer(files.tokenizer), files.window)
    else:
        runtime = torch = model_files.Torch(settings)
        about = torch.properties(settings.model)
    made = Model(settings, about, runtime, identity, directory)
    priority.give_back()
    return made
