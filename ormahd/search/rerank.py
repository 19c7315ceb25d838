"""The cross-encoder: scores how well a memory answers a prompt by reading both together.

It is optional. Its files are used if they are on this machine; nothing is downloaded. If it fails, ranking continues
without it: a missing model is reported in `Arriving.reason` and raises no error.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from ormahd.embedding.model_files import EXTRA, cached, find_model, stay_offline
from ormahd.errors import Unavailable
from ormahd.settings import WhisperSettings

CHARACTERS: Final = 512
"""Number of characters of the prompt, and of each memory, that the cross-encoder reads."""
BATCH: Final = 8
"""Number of pairs in one forward pass. The deadline is checked between two batches."""
SECONDS: Final = 0.25
"""Default time limit for scoring one prompt: half of a prompt hook's deadline."""
DEFAULT: Final = WhisperSettings().reranker_model
WEIGHTS: Final = ("model.safetensors", "pytorch_model.bin")
TOKENIZERS: Final = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
)
"""At least one of these files must exist: without them, transformers builds a tokenizer without vocabulary, and
scores are noise."""

log = logging.getLogger(__name__)


class Reranker:
    """A cross-encoder of sentence-transformers on the CPU. Thread-safe; scores one prompt at a time."""

    def __init__(self, model: Any, name: str) -> None:
        """`model`: a CrossEncoder with one output."""
        self.name = name
        self._model = model
        self._lock = threading.Lock()  # a tokenizer changes its truncation and padding settings with each call
        self._warned = False

    @classmethod
    def load(cls, settings: WhisperSettings) -> Reranker | None:
        """Load the reranker that the settings name, which takes seconds. Return None if it is unavailable; the
        reason is logged."""
        try:
            return _load(settings)
        except Unavailable as absent:
            log.info("no reranker: %s", absent.message)
            return None

    def scores(self, query: str, texts: Sequence[str], *, deadline: float | None = None) -> list[float] | None:
        """Return for each text the logit of the chance that it answers `query`; None if scoring failed or ran out of
        time.

        `deadline`: in seconds of `time.monotonic`; by default `SECONDS` from now. Partial scores are not returned:
        they would favour the texts that were read first.
        """
        deadline = time.monotonic() + SECONDS if deadline is None else deadline
        if not texts:
            return []
        if not self._lock.acquire(timeout=min(max(deadline - time.monotonic(), 0.0), threading.TIMEOUT_MAX)):
            return None
        try:
            return self._score(query[:CHARACTERS], [text[:CHARACTERS] for text in texts], deadline)
        except Exception as error:  # noqa: BLE001 - a model that fails on some text must not cost the agent its memories
            self._warn(f"the reranker {self.name!r} failed: {error}", error)
            return None
        finally:
            self._lock.release()

    def _score(self, query: str, texts: Sequence[str], deadline: float) -> list[float] | None:
        import torch

        torch.set_num_threads(1)  # for this thread only: beside bulk embedding, more threads would be slower
        by_length = sorted(
            range(len(texts)), key=lambda at: len(texts[at])
        )  # texts of similar length need little padding
        found = [0.0] * len(texts)
        for first in range(0, len(by_length), BATCH):
            if time.monotonic() >= deadline:
                return None
            batch = by_length[first : first + BATCH]
            logits = self._model.predict(
                [(query, texts[at]) for at in batch], batch_size=BATCH, show_progress_bar=False,
                activation_fn=torch.nn.Identity(), convert_to_numpy=True,
            )  # fmt: skip
            for at, logit in zip(batch, logits, strict=True):
                found[at] = float(logit)
        if not all(map(math.isfinite, found)):
            self._warn(f"the reranker {self.name!r} gave numbers that are none: its files may be damaged")
            return None
        return found

    def _warn(self, sentence: str, error: Exception | None = None) -> None:
        if not self._warned:  # once: otherwise it would be logged with every prompt
            self._warned = True
            log.warning("%s", sentence, exc_info=error)


class BackgroundReranker:
    """A reranker that is loaded in a background thread; callers do not wait for it."""

    def __init__(self, settings: WhisperSettings, warn: Callable[[str], None] = log.warning) -> None:
        """`warn` is called if the model's files exist but cannot be used. Missing files are only logged."""
        self._settings = settings
        self._warn = warn
        self._thread: threading.Thread | None = None
        self.reason: str | None = "the reranker is not loaded yet"
        """Why there is no reranker at present; None once it is loaded."""
        self.expected = settings.reranker != "off"
        """Whether there should be a reranker: False if it is off, or if the default model is configured and not
        installed. If True, a prompt that is ranked without a reranker counts as degraded."""
        self._reranker: Reranker | None = None

    def start(self) -> None:
        """Start loading in the background; returns at once."""
        if self._settings.reranker == "off":
            self.reason = "whisper.reranker is off"
        elif self._thread is None:
            self._thread = threading.Thread(target=self._load, name="reranker", daemon=True)
            self._thread.start()

    def get(self) -> Reranker | None:
        """Return the reranker, or None if it is not loaded."""
        return self._reranker

    def wait(self, seconds: float) -> bool:
        """Wait until loading has succeeded or failed. Returns False if that takes longer than `seconds`."""
        if self._thread is not None:
            self._thread.join(seconds)
        return self._thread is None or not self._thread.is_alive()

    def _load(self) -> None:
        try:
            self._reranker = _load(self._settings)
            self.reason = None
        except Unavailable as absent:
            self.reason = absent.message
            self.expected = bool(absent.data)
            if absent.data:
                self._warn(absent.message)
            else:
                log.info("no reranker: %s", absent.message)


def locate(name: str) -> Path | None:
    """Return the folder with the model's files, without loading them; None if there is none. `name`: a path, or a
    name in the local Hugging Face cache."""
    where = find_model(name)
    return cached(where) if isinstance(where, str) else where


def _load(settings: WhisperSettings) -> Reranker:
    """Load the reranker that the settings name.

    Raises:
        Unavailable: the files are missing or cannot be used. Its `data` is empty only if the default model
            is not installed, of which no person is warned.
    """
    name = settings.reranker_model
    where = locate(name)
    if where is None:
        raise Unavailable(
            f"the reranker's files ({name}) are not on this machine",
            hint=f"`hf download {name}` puts them there; without it late interaction judges",
            data={} if name == DEFAULT else {"reason": "nothing there"},  # report it if a person configured this model
        )
    for wanted in (WEIGHTS, TOKENIZERS):
        if not any((where / file).is_file() for file in wanted):
            raise _unusable(where, f"none of {', '.join(wanted)} is there")
    stay_offline()
    try:
        from sentence_transformers import CrossEncoder
        from transformers.utils import logging as chatter
    except ImportError as error:
        raise Unavailable(
            f"the reranker ({name}) needs sentence-transformers and torch, which are not installed: {EXTRA}",
            data={} if name == DEFAULT else {"reason": str(error)},
        ) from error
    try:
        chatter.disable_progress_bar()
        model = CrossEncoder(os.fspath(where), device="cpu", local_files_only=True)
        outputs = int(model.num_labels)
        if outputs != 1:
            raise _unusable(where, f"it has {outputs} outputs, and one is needed: this is no model that ranks")
        reranker = Reranker(model, name)
        if reranker.scores("warm", ["up"], deadline=math.inf) is None:
            raise _unusable(where, "its first scoring failed")
    except Unavailable:
        raise
    except Exception as error:  # a damaged file may make the libraries raise any error; ranking works without the model
        raise _unusable(where, str(error)[:300]) from error
    return reranker


def _unusable(where: Path, why: str) -> Unavailable:
    return Unavailable(
        f"the reranker in {where} cannot be used: {why}",
        hint="download it again, set whisper.reranker_model to another, or whisper.reranker = \"off\"",
        data={"reason": why},
    )  # fmt: skip
