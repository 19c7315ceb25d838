"""What was said outright of a memory decides for the prompt it was said of, and for no other."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from ormahd.model.judgement import Int8Vector, Judgement
from ormahd.state.feedback import Judgements
from ormahd.whisper.affinity import SAME, verdicts

NOW = datetime(2026, 11, 21, 20, tzinfo=UTC)
A = "00000001-6d0a-4c1e-9a55-0a52b0f4f9d1"
OLD, NEW, OTHER_TEXT = timedelta(days=9), timedelta(days=1), "another text's hash"


def at(cosine: float) -> np.ndarray:
    made = np.zeros(16, np.float32)
    made[0], made[1] = cosine, math.sqrt(1 - cosine * cosine)
    return made


PROMPT = at(1.0)


def said(
    signal: int, *, cosine: float = 1.0, ago: timedelta = NEW, source: str = "explicit", model: str = "m", text: str = OTHER_TEXT
) -> Judgement:  # fmt: skip
    event = f"event{signal + 1}{int(cosine * 100):03}{ago.days}{model}"
    return Judgement(A, signal, source, NOW - ago, event, model, Int8Vector.of(at(cosine)), text)  # type: ignore[arg-type]


def decided(
    rows: Iterable[Judgement], vector: np.ndarray | None = PROMPT, text: str = "this text's hash"
) -> int | None:
    found = verdicts(vector, text, Judgements.of(rows, "m")).get(A)
    return None if found is None else found.signal


@pytest.mark.parametrize(
    ("rows", "decision"),
    [
        ([], None),
        ([said(-1)], -1),
        ([said(1)], 1),
        ([said(-1, cosine=SAME + 0.01)], -1),
        ([said(-1, cosine=SAME - 0.01)], None),  # only alike: that is affinity's
        ([said(-1, source="implicit")], None),  # inferred, not said
        ([said(1, ago=OLD), said(-1, ago=NEW)], -1),
        ([said(1, ago=NEW), said(-1, ago=OLD)], 1),
        ([said(-1, ago=OLD), said(1, ago=NEW, source="implicit")], -1),  # what is inferred overrules nobody
        ([said(-1, ago=OLD), said(1, ago=NEW, cosine=0.5)], -1),
        ([said(-1, model="another")], None),  # its vector says nothing here
        ([said(-1, model="another", text="this text's hash")], -1),
        ([said(-1, cosine=0.1, text="this text's hash")], -1),
        ([said(-1, model="another", text="this text's hash", ago=OLD), said(1)], 1),
    ],
)
def test_the_last_word_on_this_prompt_counts(rows: list[Judgement], decision: int | None) -> None:
    assert decided(rows) == decision
    assert decided(reversed(rows)) == decision


def test_without_a_vector_the_same_text_is_known() -> None:
    assert decided([said(-1, text="this text's hash")], vector=None) == -1
    assert decided([said(-1)], vector=None) is None
    assert decided([said(-1)], vector=np.ones(3, np.float32)) is None, "of another length, it is another model's"
