"""Judgements: whether a whispered memory was useful; one JSON line each in `.ormah/feedback/YYYY-MM.jsonl`.

A line has the prompt's vector in signed bytes and a keyed hash of the prompt. It has the prompt's text only if the person
enabled that. No I/O; FORMAT.md specifies the format.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from datetime import datetime
from typing import Any, Final, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ormahd.model.lines import MonthFiles
from ormahd.model.node import is_node_id, short_id

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
        """Return the vector with its components rounded to signed bytes. This changes the cosine of unit vectors by at
        most 0.002; zeros remain zeros."""
        scale = float(np.abs(vector).max(initial=0.0)) / _STEPS or 1.0
        return cls(np.rint(vector / scale).astype(np.byte).tobytes(), float(f"{scale:.6g}"))

    @property
    def vector(self) -> Float:
        """The vector as float32[dimensions]."""
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
        """The id of the judgement's line, see `line_id`."""
        return line_id(self.event, self.node_id, self.source)


def line_id(event: str, node_id: str, source: str) -> str:
    """Return the id of a judgement's line. A later judgement with the same whisper, memory and source has the same id,
    and replaces the earlier one."""
    return f"{event}-{short_id(node_id)}-{source}"


def model_name(name: str) -> str:
    """Return the name of a model without its folder or account, which differ between machines."""
    return re.split(r"[/\\]", name.rstrip("/\\"))[-1]


def _line_keys(judgement: Judgement) -> dict[str, Any]:
    """Return the keys of a judgement's line, without `id` and time."""
    keys = ("node_id", "signal", "source", "event", "space", "session_id", "prompt_hash", "model")
    row = {key: getattr(judgement, key) for key in keys}
    row |= {"scale": judgement.vector.scale, "vector": base64.b64encode(judgement.vector.steps).decode()}
    return row if judgement.prompt is None else row | {"prompt": judgement.prompt}


def _parse_line(row: dict[str, Any], confirmed_at: datetime) -> Judgement | str:
    """Return the judgement that a line holds, or a sentence that says why the line is invalid."""
    for key in ("source", "event", "model", "prompt_hash"):
        if not isinstance(row.get(key), str) or not row[key]:
            return f"`{key}` is missing"
    if not isinstance(row.get("node_id"), str) or not is_node_id(row["node_id"]):
        return "`node_id` is no id of a memory"
    if row.get("signal") not in (1, -1) or not isinstance(row["signal"], int) or isinstance(row["signal"], bool):
        return "`signal` is neither 1 nor -1"
    if row["source"] not in ("explicit", "implicit"):
        return "`source` is neither explicit nor implicit"
    for key in ("space", "session_id", "prompt"):
        if row.get(key) is not None and not isinstance(row[key], str):
            return f"`{key}` is no text"
    vector = _parse_vector(row)
    if vector is None:
        return "`vector` and `scale` are no vector"
    return Judgement(
        node_id=row["node_id"],
        signal=row["signal"],
        source=row["source"],
        confirmed_at=confirmed_at,
        event=row["event"],
        model=row["model"],
        vector=vector,
        prompt_hash=row["prompt_hash"],
        **{key: row.get(key) for key in ("space", "session_id", "prompt")},
    )


def _parse_vector(row: dict[str, Any]) -> Int8Vector | None:
    """Return the vector that a line holds; None if it is invalid."""
    text, scale = row.get("vector"), row.get("scale")
    if not isinstance(text, str) or not isinstance(scale, (int, float)) or isinstance(scale, bool):
        return None
    try:
        steps, size = base64.b64decode(text, validate=True), float(scale)
    except (binascii.Error, ValueError, OverflowError):
        return None
    return Int8Vector(steps, size) if steps and math.isfinite(size) and size > 0 else None


FILES: Final = MonthFiles(FOLDER, "confirmed_at", "`event`, `node_id` and `source`", _line_keys, _parse_line)
"""The files of judgements. A judgement stays in the file of the month of its whisper, even if it is changed later."""
encode, decode = FILES.encode, FILES.decode
