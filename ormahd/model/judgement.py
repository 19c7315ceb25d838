"""Judgements: whether a whispered memory was useful; one JSON line each in `.ormah/feedback/YYYY-MM.jsonl`.

A line has the prompt's vector in signed bytes and a keyed hash of the prompt. It has the prompt's text only if the person
enabled that. No I/O; FORMAT.md specifies the format.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from datetime import datetime
from typing import Any, Final, Literal, cast

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ormahd.model.lines import MonthFiles, read_row
from ormahd.model.node import is_node_id, read_time, short_id, write_time

FOLDER = ".ormah/feedback"
"""The folder of the files, relative to the vault."""
_STEPS = 127

Float = NDArray[np.float32]
Source = Literal["explicit", "implicit"]
"""`explicit`: stated on purpose. `implicit`: inferred by an agent."""


class Int8Vector(Struct, frozen=True):
    """A vector stored in one byte per component: each byte of `steps`, read as a signed byte, is multiplied by `scale`."""

    steps: bytes
    scale: float

    @classmethod
    def of(cls, vector: Float) -> Int8Vector:
        """Round the components of `vector` to signed bytes. This changes the cosine of unit vectors by at most 0.002;
        zeros stay zeros."""
        scale = float(np.abs(vector).max(initial=0.0)) / _STEPS or 1.0
        return cls(np.rint(vector / scale).astype(np.byte).tobytes(), float(f"{scale:.6g}"))

    @property
    def vector(self) -> Float:
        return np.frombuffer(self.steps, np.byte).astype(np.float32) * np.float32(self.scale)


class Judgement(Struct, frozen=True):
    """One judgement. `session_id` and `prompt_hash` are keyed hashes; `prompt` is None unless its text is to be
    committed."""

    node_id: str
    signal: int
    """1: useful; -1: not useful."""
    source: Source
    confirmed_at: datetime
    event: str
    """The id of the judged whisper."""
    model: str
    """The name of the embedding model (`model_name`); vectors of other models are not comparable."""
    vector: Int8Vector
    prompt_hash: str
    space: str | None = None
    session_id: str | None = None
    prompt: str | None = None

    @property
    def id(self) -> str:
        return line_id(self.event, self.node_id, self.source)


def line_id(event: str, node_id: str, source: str) -> str:
    """Return the id of a judgement's line. Of one whisper, memory and source only the latest judgement is kept."""
    return f"{event}-{short_id(node_id)}-{source}"


def model_name(name: str) -> str:
    """Return the name of a model without its folder or account, which differ between machines."""
    return re.split(r"[/\\]", name.rstrip("/\\"))[-1]


def encode(judgement: Judgement) -> bytes:
    """Return the JSON line without its newline. `confirmed_at` is its second key, so `merge_lines` keeps the later
    version."""
    row = {
        "id": judgement.id, "confirmed_at": write_time(judgement.confirmed_at, "milliseconds"), "node_id": judgement.node_id,
        "signal": judgement.signal, "source": judgement.source, "event": judgement.event, "space": judgement.space,
        "session_id": judgement.session_id, "prompt_hash": judgement.prompt_hash, "model": judgement.model,
        "scale": judgement.vector.scale, "vector": base64.b64encode(judgement.vector.steps).decode(),
    }  # fmt: skip
    if judgement.prompt is not None:
        row["prompt"] = judgement.prompt
    return json.dumps(row, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def decode(line: bytes) -> Judgement | str:
    """Return the judgement of a line, or a sentence that says why it is invalid. Unknown keys are ignored."""
    row = read_row(line)
    if isinstance(row, str):
        return row
    for key in ("id", "source", "event", "model", "prompt_hash"):
        if not isinstance(row.get(key), str) or not row[key]:
            return f"`{key}` is missing"
    if not isinstance(row.get("node_id"), str) or not is_node_id(row["node_id"]):
        return "`node_id` is no id of a memory"
    if row.get("signal") not in (1, -1) or not isinstance(row["signal"], int) or isinstance(row["signal"], bool):
        return "`signal` is neither 1 nor -1"
    if row["source"] not in ("explicit", "implicit"):
        return "`source` is neither explicit nor implicit"
    if row["id"] != line_id(row["event"], row["node_id"], row["source"]):
        return "`id` is not made of `event`, `node_id` and `source`"
    for key in ("space", "session_id", "prompt"):
        if row.get(key) is not None and not isinstance(row[key], str):
            return f"`{key}` is no text"
    when, small = read_time(row.get("confirmed_at")), _small(row)
    if when is None:
        return "`confirmed_at` is no time with a zone"
    if small is None:
        return "`vector` and `scale` are no vector"
    return Judgement(
        row["node_id"], row["signal"], cast(Source, row["source"]), when, row["event"], row["model"], small,
        row["prompt_hash"], row.get("space"), row.get("session_id"), row.get("prompt"),
    )  # fmt: skip


def _small(row: dict[str, Any]) -> Int8Vector | None:
    text, scale = row.get("vector"), row.get("scale")
    if not isinstance(text, str) or not isinstance(scale, (int, float)) or isinstance(scale, bool):
        return None
    try:
        steps, size = base64.b64decode(text, validate=True), float(scale)
    except (binascii.Error, ValueError, OverflowError):
        return None
    return Int8Vector(steps, size) if steps and math.isfinite(size) and size > 0 else None


FILES: Final[MonthFiles[Judgement]] = MonthFiles(
    FOLDER, encode, decode, id=lambda one: one.id, said=lambda one: one.confirmed_at
)
"""The files of judgements. A judgement stays in the file of the month of its whisper, even if it is changed later."""
