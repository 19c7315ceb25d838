"""What `ormahctl whisper --explain` says of each memory follows from the numbers of the trace."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from ormahctl.commands.whisper import EVIDENCE, SILENCES, WORDS, outcome_text
from ormahd.model.chance import sigmoid
from ormahd.whisper.pipeline import relevance_steps
from ormahd.whisper.relevance import PART, WITNESSES, fitted
from ormahd.whisper.types import Intent, Silence

WEIGHTS = fitted().weights
USUAL: dict[str, Any] = {
    "source": "search", "shown": None, "dropped": None, "gate": 0.35, "place": 1.0, "certain": 1.0, "twin": 0.0,
    "identity": 0.0, "text_base": 0.0, **{f"text_{name}": WEIGHTS[name] * EVIDENCE[name]["usual"] for name in WITNESSES},
}  # fmt: skip
ROWS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))["rows"]


@pytest.mark.parametrize(("differs", "words"), ROWS)
def test_the_sentence_says_what_decided(differs: dict[str, Any], words: list[str]) -> None:
    row = USUAL | differs
    row = {"text": sigmoid(sum(value for name, value in row.items() if name.startswith(PART)))} | row
    sentence, at = outcome_text(row | {"parts": relevance_steps(row)}, WEIGHTS), 0
    for part in words:
        assert part in sentence[at:], sentence
        at = sentence.index(part, at) + len(part)


def test_there_are_words_for_everything() -> None:
    assert set(WITNESSES) <= EVIDENCE.keys()
    assert SILENCES.keys() == {one.value for one in Silence}
    assert WORDS["intents"].keys() == {one.value for one in Intent} - {"general"}
    assert all("for" in words or "against" in words for words in EVIDENCE.values())
