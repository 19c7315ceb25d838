"""A model opened on ONNX Runtime: in full for notes, in eight bits for questions where that pays.

Its record (`embed_check.py`) holds a few of the reference's vectors. Each load embeds those texts again: so a damaged file, or a
version of ONNX Runtime that computes something else, is noticed before it answers.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ormahd.errors import Unavailable
from ormahd.index import embed_eight, late
from ormahd.index.embed import Questions, Served
from ormahd.index.embed_check import EIGHT_LEAST, LEAST, Record, key_of, measured, one_pass, record_of, tokenizer
from ormahd.index.embed_model import About, Runtime
from ormahd.index.embed_onnx import OnnxRuntime, parts, unfit

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Opened:
    """A model on ONNX Runtime, ready."""

    about: About
    notes: OnnxRuntime
    questions: OnnxRuntime
    served: Served


def open_onnx(folder: Path, lines: Sequence[str], directory: Path, precision: str) -> Opened:
    """The model in `folder`, of this `identity`, on ONNX Runtime. `directory`: where records are kept; `precision`: of
    questions, as `embedding.question_precision` has it.

    Raises Unavailable, with the reason, when it does not give there what it gives with sentence-transformers.
    """
    parts(folder)  # what cannot be is seen before a process is started for it
    record = record_of(folder, key_of(lines), directory)
    if record.refused is not None:
        raise unfit(folder, record.refused)
    runtime = OnnxRuntime(folder, record.pooling)
    about = About(tokenizer(folder), record.window, record.pad, record.query, record.document)
    cosine = _as_probed(about, runtime, record)
    if not cosine >= LEAST:
        why = f"it gives other vectors than when it was compared with sentence-transformers (cosine {cosine:.6f})"
        raise unfit(folder, why, fault=True)
    questions, told = _questions(about, runtime, record, directory, precision)
    served = Served(runtime.name, runtime.version, "fp32", None, record.vectors, record.tokens, record.texts, told)
    return Opened(about, runtime, questions, served)


def _as_probed(about: About, runtime: Runtime, record: Record) -> float:
    """The least cosine to the reference's vectors that the record holds."""
    return min(
        float(one_pass(about, runtime, [probe.text])[0][0] @ np.frombuffer(probe.vector, "<f4"))
        for probe in record.probes
    )


def _questions(
    about: About, full: OnnxRuntime, record: Record, directory: Path, precision: str
) -> tuple[OnnxRuntime, Questions]:
    """What embeds questions: in eight bits where that is as good and quicker (or asked for), else what embeds notes."""
    if precision == "fp32":
        return full, Questions("fp32", "embedding.question_precision says so")
    if not min(record.eight, record.eight_tokens) >= EIGHT_LEAST:
        what = f"cosine {min(record.eight, record.eight_tokens):.4f}" if record.eight else "it does not run so"
        return full, Questions("fp32", f"eight bits lose too much of this model ({what})")
    file = directory / f"eight-{record.key[:16]}.bin"
    try:
        eight = full.in_eight_bits(file, measured(about))
    except (Unavailable, OSError) as error:
        log.warning("questions are embedded in full, not in eight bits: %s", error)
        return full, Questions("fp32", "they do not run in eight bits here")
    cosine = _as_probed(about, eight, record)
    if not cosine >= EIGHT_LEAST:
        file.unlink(missing_ok=True)  # damaged, perhaps: the next start makes it anew
        log.warning("questions in eight bits give other vectors than when they were compared (cosine %.6f)", cosine)
        return full, Questions("fp32", f"in eight bits they differ here (cosine {cosine:.4f})")
    text = [late.calibration()[0]]
    quick, slow = embed_eight.seconds([lambda: one_pass(about, eight, text), lambda: one_pass(about, full, text)])
    pays = quick <= embed_eight.PAYS * slow
    figures = (round(record.eight, 7), round(record.eight_tokens, 7), round(1e3 * quick, 2), round(1e3 * slow, 2))
    if not pays and precision == "auto":
        return full, Questions("fp32", "eight bits are hardly quicker on this processor", *figures)
    return eight, Questions("int8", None, *figures)
