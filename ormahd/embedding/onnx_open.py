"""A model opened on ONNX Runtime: in eight bits where that is as good and quicker, else in full.

Its record (`check.py`) holds a few of the reference's vectors. Each load embeds those texts again: so a damaged file, or a
version of ONNX Runtime that computes something else, is noticed before it answers.

Notes and questions are embedded alike, and what an index holds was all computed in one way. So whether eight bits are quicker on
this processor is weighed once, not at each start, and kept with the matrices.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from ormahd.api import EmbeddingHealth
from ormahd.embedding import check as embed_check
from ormahd.embedding import int8, token_vectors
from ormahd.embedding.check import EIGHT_LEAST, LEAST, Record, key_of, measured, one_pass, record_of, tokenizer
from ormahd.embedding.embedder import About
from ormahd.embedding.forward import Runtime
from ormahd.embedding.model_files import sha256_of
from ormahd.embedding.onnx import OnnxRuntime, parts, unfit
from ormahd.errors import Unavailable
from ormahd.process import own_files

TIMED = 4
"""Texts that are embedded in one pass, as notes are, when the two ways are timed."""
UNUSED_S = 60 * 86_400
"""Seconds from when matrices were last opened, after which they go when others are made: they are of a model that nobody uses any
more, or of other rounding. All vaults of a person share what is kept."""
LINES = 2
"""Of the calibration, in each of them: as long as a short note, some 36 tokens."""

log = logging.getLogger(__name__)


class Opened(Struct, frozen=True):
    """A model on ONNX Runtime, ready."""

    about: About
    runtime: OnnxRuntime
    identity: list[str]
    """Lines that tell the model, and its precision, from every other."""
    served: EmbeddingHealth


class Weighed(msgspec.Struct, frozen=True):
    """What is kept of a model in eight bits."""

    sha256: str
    """Of the file of matrices."""
    milliseconds: float
    full_milliseconds: float
    """See `api.EmbeddingHealth`."""

    @property
    def pays(self) -> bool:
        return self.milliseconds <= int8.PAYS * self.full_milliseconds


def open_onnx(folder: Path, lines: Sequence[str], directory: Path, precision: str) -> Opened:
    """The model in `folder`, of this `identity`, on ONNX Runtime. `directory`: where records are kept; `precision`: as
    `embedding.precision` has it.

    Raises Unavailable, with the reason, when it does not give there what it gives with sentence-transformers.
    """
    parts(folder)  # what cannot be is seen before a process is started for it
    record = record_of(folder, key_of(lines), directory)
    if record.refused is not None:
        raise unfit(folder, record.refused)
    about = About(tokenizer(folder), record.window, record.pad, record.query, record.document)
    found = None if precision == "fp32" else _in_eight_bits(about, folder, record, directory, precision)
    if isinstance(found, tuple):
        runtime, weighed = found
        served = EmbeddingHealth(
            runtime.name, runtime.version, "int8", None, record.eight, record.eight_tokens, record.texts,
            round(weighed.milliseconds, 2), round(weighed.full_milliseconds, 2),
        )  # fmt: skip
        return Opened(about, runtime, [*lines, f"int8 {embed_check.FORMAT}"], served)
    runtime = OnnxRuntime(folder, record.pooling)
    cosine = _as_probed(about, runtime, record)
    if not cosine >= LEAST:
        why = f"it gives other vectors than when it was compared with sentence-transformers (cosine {cosine:.6f})"
        raise unfit(folder, why, fault=True)
    served = EmbeddingHealth(
        runtime.name, runtime.version, "fp32", found, record.vectors, record.tokens, record.texts, None, None
    )
    return Opened(about, runtime, list(lines), served)


def _as_probed(about: About, runtime: Runtime, record: Record) -> float:
    """The least cosine to the reference's vectors that the record holds."""
    return min(
        float(one_pass(about, runtime, [probe.text])[0][0] @ np.frombuffer(probe.vector, "<f4"))
        for probe in record.probes
    )


def _in_eight_bits(
    about: About, folder: Path, record: Record, directory: Path, precision: str
) -> tuple[OnnxRuntime, Weighed] | str:
    """The model in eight bits, or why it serves in full."""
    if not min(record.eight, record.eight_tokens) >= EIGHT_LEAST:
        what = f"cosine {min(record.eight, record.eight_tokens):.4f}" if record.eight else "it does not run so"
        return f"eight bits lose too much of this model ({what})"
    slow = "eight bits are hardly quicker on this processor"
    file = directory / f"eight-{record.key[:16]}.bin"
    kept = _kept(file.with_suffix(".json"))
    if kept is not None and not kept.pays and precision == "auto":
        return slow
    cosine = 0.0
    try:
        if kept is not None and own_files.kind(file) == "a file" and sha256_of(file) == kept.sha256:
            eight = OnnxRuntime(folder, record.pooling, file)
            cosine = _as_probed(about, eight, record)
            with contextlib.suppress(OSError):
                os.utime(file)
        if kept is None or not cosine >= EIGHT_LEAST:
            eight, kept = _make(about, folder, record, file, kept)
            cosine = _as_probed(about, eight, record)
    except (Unavailable, OSError) as error:
        log.warning("the model in %s serves in full, not in eight bits: %s", folder, error)
        return "it does not run in eight bits here"
    if not cosine >= EIGHT_LEAST:
        log.warning(
            "the model in %s gives other vectors in eight bits than when it was compared (cosine %.6f)", folder, cosine
        )
        return f"in eight bits it differs here (cosine {cosine:.4f})"
    return (eight, kept) if kept.pays or precision == "int8" else slow


def _make(about: About, folder: Path, record: Record, file: Path, kept: Weighed | None) -> tuple[OnnxRuntime, Weighed]:
    """Write the matrices in eight bits, and what they are and take; what they took before on this machine stands."""
    full = OnnxRuntime(folder, record.pooling)
    eight = full.round_off(file, measured(about))
    for other in file.parent.glob("eight-*.bin"):
        with contextlib.suppress(OSError):  # another daemon may be at it as well
            if other != file and time.time() - other.stat().st_mtime > UNUSED_S:
                other.unlink()
    if kept is None:
        lines = token_vectors.calibration()
        texts = [" ".join(lines[at * LINES : (at + 1) * LINES]) for at in range(TIMED)]
        quick, slow = int8.seconds([lambda: one_pass(about, eight, texts), lambda: one_pass(about, full, texts)])
        kept = Weighed("", 1e3 * quick / TIMED, 1e3 * slow / TIMED)
    kept = msgspec.structs.replace(kept, sha256=sha256_of(file))
    embed_check.write(kept, file.with_suffix(".json"))
    return eight, kept


def _kept(file: Path) -> Weighed | None:
    """What was kept, or None where there is nothing, or not all of it."""
    try:
        return msgspec.json.decode(own_files.read(file), type=Weighed)
    except (OSError, msgspec.DecodeError):
        return None
