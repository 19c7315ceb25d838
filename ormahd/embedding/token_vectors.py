"""Token vectors: split a text into pieces, run a model on them, and make the vectors of their tokens small.

`split` cuts a text that is longer than the model's window into overlapping pieces, at the best place near the end of
each. It uses the positions of tokens in the text, so it works with any tokenizer.

`forward_pass` runs one forward pass of a model over windows of tokens.

Late interaction compares each token of a query with each token of a note (ColBERT, arXiv:2004.12832). For that, token
vectors are projected to fewer dimensions by a fixed PCA basis, rotated, and quantised to 4 bits per dimension. A
model's token vectors fill only part of its space, so fewer dimensions are enough. The basis is computed from fixed
texts. One computed from the vault would fit better; many dimensions with few bits each make up for that. The
rotation, random but fixed, spreads each vector evenly, so that one step size fits all dimensions.
"""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Float = NDArray[np.float32]
Half = NDArray[np.float16]
Codes = NDArray[np.byte]

DIMENSIONS = 256
"""Number of dimensions of a projected token vector. With 4 bits each, a token takes 128 bytes."""
LEVELS = 7
"""Number of quantisation steps above 0, and below 0. The code -8 of four bits is not used."""
ROWS_AT_ONCE = 512
"""Number of stored token vectors that are multiplied at once."""
REACH = 3.0
"""The outermost step, in standard deviations of a component. The 0.3 % of components beyond it are clipped."""


def step(dimensions: int) -> float:
    """Return the size of a quantisation step of vectors with this number of dimensions.

    The components of a rotated unit vector have the standard deviation 1 / sqrt(dimensions).
    """
    return float(REACH / (LEVELS * np.sqrt(dimensions)))


def rotation(dimensions: int) -> Float:
    """Return a random orthogonal matrix, float32[dimensions, dimensions], that is the same on every machine."""
    random = np.random.default_rng(dimensions).standard_normal((dimensions, dimensions))
    turned, upper = np.linalg.qr(random)
    return np.asarray(turned * np.sign(np.diag(upper)), np.float32)


def calibration() -> list[str]:
    """Return the sentences of `calibration.txt`. They are fixed, so a model's basis is the same each time."""
    text = (importlib.resources.files("ormahd.embedding") / "calibration.txt").read_text("utf-8")
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def basis(tokens: Float, dimensions: int) -> Float:
    """Return the PCA basis of `tokens`, rotated: float32[width, dimensions].

    `tokens`: unit vectors, float32[n, width]. They are not centred, because their dot products are compared. The
    result does not depend on the linear algebra library: it is computed in float64, and the largest component of each
    direction is made positive.
    """
    wide = tokens.astype(np.float64)
    _, vectors = np.linalg.eigh(wide.T @ wide)
    chosen = vectors[:, ::-1][:, :dimensions]
    signs = np.sign(chosen[np.abs(chosen).argmax(axis=0), np.arange(chosen.shape[1])])
    return np.ascontiguousarray((chosen * signs @ rotation(chosen.shape[1])).astype(np.float32))


def unit(vectors: NDArray[Any]) -> Float:
    """Return the rows scaled to length 1; a row of zeros remains zero."""
    wide = vectors.astype(np.float32, copy=False)
    lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    return np.asarray(wide / np.maximum(lengths, 1e-12)[:, None], np.float32)


def centred(vectors: NDArray[Any], middle: Float) -> Float:
    """Return the rows as unit vectors from `middle`, the mean of unit vectors.

    Vectors of some models point in nearly one direction: two unrelated texts have a cosine of 0.8. Without the mean it
    is near 0, and differences count.
    """
    return unit(unit(vectors) - middle)


def project(tokens: Float, onto: Float) -> Float:
    """Return token vectors in the basis `onto`, as unit vectors: float32[n, dimensions]."""
    return unit(tokens @ onto)


def quantise(small: Float) -> Codes:
    """Return the codes, from -7 to 7, of projected vectors: bytes, [n, dimensions].

    The dot product of codes and a projected vector, times `step`, is their cosine but for rounding.
    """
    scaled = small / step(small.shape[1])
    np.rint(scaled, out=scaled)
    return np.clip(scaled, -LEVELS, LEVELS, out=scaled).astype(np.byte)


def pack(codes: Codes) -> bytes:
    """Return codes packed for storage, two in a byte. The number of dimensions must be even."""
    shifted = (codes + (LEVELS + 1)).astype(np.ubyte)
    return (shifted[:, 0::2] | shifted[:, 1::2] << 4).tobytes()


def cosines(packed: NDArray[np.ubyte], tokens: Float) -> Float:
    """Return the cosines between stored token vectors and those of a query: float32[n, m].

    `packed`: the bytes of `pack`, [n, dimensions / 2]; `tokens`: unit vectors, float32[m, dimensions]. The codes are
    not unpacked to one array: the low and the high halves of the bytes are multiplied separately, `ROWS_AT_ONCE` rows
    at a time, so that the data fits the processor's cache.
    """
    question = tokens.T * np.float32(step(tokens.shape[1]))
    low, high = np.ascontiguousarray(question[0::2]), np.ascontiguousarray(question[1::2])
    found = np.empty((len(packed), len(tokens)), np.float32)
    for at in range(0, len(packed), ROWS_AT_ONCE):
        rows = packed[at : at + ROWS_AT_ONCE]
        found[at : at + ROWS_AT_ONCE] = (rows & 15).astype(np.float32) @ low + (rows >> 4).astype(np.float32) @ high
    found -= np.float32(LEVELS + 1) * question.sum(axis=0)
    return found


SEARCH_BACK = 0.35
"""Share of a piece, at its end, in which the best place to cut is searched."""
OVERLAP = 0.125
"""Share of a piece that the next piece repeats, so that a sentence at the cut is complete in one of them."""

_SENTENCE = re.compile(r"[.!?;:…]['\")\]»”’]*\s$|[。！？；…]['\")\]»”’]*$")


def split(text: str, spans: Sequence[tuple[int, int]], window: int, count: int) -> list[tuple[int, int]]:
    """Return (first token, token after the last) of each piece: at most `count` pieces of at most `window` tokens.

    `spans`: (start, end) of each token in `text`, ascending. Each piece overlaps the one before, so that no token
    before the end of the last piece is left out.
    """
    if len(spans) <= window:
        return [(0, len(spans))] if spans else []
    found: list[tuple[int, int]] = []
    first = 0
    while len(found) < count:
        if len(spans) - first <= window:
            found.append((first, len(spans)))
            break
        last = _best_cut(text, spans, first + window - int(window * SEARCH_BACK), first + window)
        found.append((first, last))
        # The next piece begins at the best place within the overlap, such as the start of a sentence.
        back = last - max(1, int(window * OVERLAP))
        first = max(_best_cut(text, spans, back, last, first=True), first + 1)
    return found


def _best_cut(text: str, spans: Sequence[tuple[int, int]], low: int, high: int, *, first: bool = False) -> int:
    """Return the number of the token, after `low` and up to `high`, before which to cut the text.

    The best is the first token of a paragraph, then that of a sentence, of a line, of a word. If several are equally
    good, the last is returned, or with `first` the first.
    """
    best, rank = (high, -1)
    places = range(low + 1, high + 1) if first else range(high, low, -1)
    for at in places:
        if at >= len(spans):
            continue
        rank_at = _cut_rank(text, spans[at - 1][1], spans[at][0])
        if rank_at > rank:
            best, rank = at, rank_at
    return best


def _cut_rank(text: str, end: int, start: int) -> int:
    """Return how good a cut is between a token that ends at `end` and one that starts at `start`; higher is better."""
    gap = text[end:start]
    if gap.count("\n") > 1:
        return 4
    if _SENTENCE.search(text[max(0, end - 4) : start]):
        return 3
    if "\n" in gap:
        return 2
    return 1 if gap else 0


class Runtime(Protocol):
    """What an embedder needs to run a model: forward passes. Several threads may call it at once."""

    @property
    def name(self) -> str:
        """The name of the library that runs the model."""

    @property
    def version(self) -> str:
        """The version of that library."""

    def forward(self, ids: NDArray[np.int64], mask: NDArray[np.bool_]) -> tuple[Float, Float]:
        """Run a pass. Return (pooled vectors, float32[texts, dimensions]; token vectors, float32[texts, tokens,
        width]).

        `ids`: token ids, [texts, tokens]; `mask`: False for padding. Token vectors are those of the last layer. No
        vector need have unit length.
        """
        ...


class Ids(Struct, frozen=True):
    """The tokens of one window: a text, or a piece of a text, as a forward pass takes it."""

    ids: list[int]
    special: list[int]
    """1 for a special token, 0 for a token of the text."""


class ForwardPass(Struct, frozen=True):
    """The results of a forward pass over several windows (`Ids`): vectors not normalised, special tokens left out."""

    pooled: Float
    """float32[windows, dimensions]: the windows' vectors."""
    ids: NDArray[np.uint32]
    """The token ids of all windows, concatenated."""
    tokens: Float
    """float32[ids, width]: the vectors of these tokens."""
    counts: list[int]
    """The number of these tokens in each window."""


def forward_pass(runtime: Runtime, windows: Sequence[Ids]) -> ForwardPass:
    """Return the results of one forward pass over several windows. Shorter windows are padded to the longest."""
    longest = max(len(window.ids) for window in windows)
    ids = np.zeros((len(windows), longest), np.int64)
    mask = np.zeros((len(windows), longest), bool)
    ours = np.zeros((len(windows), longest), bool)
    for row, window in enumerate(windows):
        length = len(window.ids)
        ids[row, :length] = window.ids
        mask[row, :length] = True
        ours[row, :length] = np.array(window.special) == 0
    pooled, tokens = runtime.forward(ids, mask)
    return ForwardPass(pooled, ids[ours].astype(np.uint32), tokens[ours], ours.sum(axis=1).tolist())


def ids_of(found: Any, limit: int | None = None) -> Ids:
    """Return the tokens of `found`, a tokenizer's result, cut to at most `limit`. The special token at the end is
    kept."""
    if limit is not None and len(found.ids) > limit:  # keep the closing special token
        return Ids([*found.ids[: limit - 1], found.ids[-1]], [*found.special_tokens_mask[: limit - 1], 1])
    return Ids(found.ids, found.special_tokens_mask)
