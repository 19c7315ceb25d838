"""Prompts that are silent before anything is embedded (seed: "1. Early exits")."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ormahd.whisper.analyse import MAX_WORDS, _phrases, acknowledges, early_silence, typed_text
from ormahd.whisper.types import Silence
from tests.tables import rows

TABLES = Path(__file__).with_suffix(".toml")
EARLY = {Silence.EMPTY, Silence.SHORT, Silence.COMMAND, Silence.MACHINE, Silence.ACKNOWLEDGEMENT, Silence.ORDER}


@pytest.mark.parametrize("prompt", ["", " ", "\n\t\n", "\x00", "\ud800\udfff", "\x1b[0m", "[Image #1]"])
def test_empty(prompt: str) -> None:
    """Seed: "the prompt is empty"."""
    assert early_silence(prompt) is Silence.EMPTY


@pytest.mark.parametrize(
    "prompt", ["!!!", "…", "👍", "👍🏽👍🏽", "ok", "1.", "— 7 —", "好的", "네", "はい", "да", "a?b", "é́", "e\u0301e\u0301", "क़ा", "\u200b"]
)  # fmt: skip
def test_short(prompt: str) -> None:
    """Seed: "the prompt is effectively only punctuation / <= 2 alphanumeric characters"; the same in every script."""
    assert early_silence(prompt) is Silence.SHORT


@pytest.mark.parametrize("prompt", rows(__file__, "words_of_any_script_are_heard"))
def test_words_of_any_script_are_heard(prompt: str) -> None:
    """Issue: "prompts in any script (Cyrillic, Greek, CJK, Arabic) are words, not empty"."""
    assert early_silence(prompt) is None
    assert typed_text(prompt) == prompt


def test_commands_and_machines() -> None:
    assert early_silence("/clear") is Silence.COMMAND
    assert early_silence("/x") is Silence.COMMAND
    assert early_silence("<task-notification>done</task-notification>") is Silence.MACHINE
    assert early_silence("/etc/hosts is empty, why?") is None


@pytest.mark.parametrize("prompt", [one for (one,) in rows(TABLES, "acknowledgement")])
def test_acknowledgement(prompt: str) -> None:
    """Issue: "acknowledgements … stay silent"."""
    assert early_silence(prompt) in {Silence.ACKNOWLEDGEMENT, Silence.SHORT}


@pytest.mark.parametrize("prompt", [one for (one,) in rows(TABLES, "order")])
def test_an_order_without_a_matter_of_its_own(prompt: str) -> None:
    assert early_silence(prompt) is Silence.ORDER


@pytest.mark.parametrize("prompt", [one for (one,) in rows(TABLES, "meant")])
def test_no_acknowledgement(prompt: str) -> None:
    assert early_silence(prompt) is None


def test_a_long_text_of_phrases_is_meant() -> None:
    assert acknowledges("yes " * MAX_WORDS)
    assert not acknowledges("yes " * (MAX_WORDS + 1))
    assert not acknowledges("yes " * 1_000_000)


@given(st.text())
def test_any_prompt(prompt: str) -> None:
    silence = early_silence(prompt)
    assert silence is not None or typed_text(prompt)
    assert silence is None or silence in EARLY


@given(st.lists(st.sampled_from(sorted(_phrases())[1:]), min_size=1, max_size=MAX_WORDS + 4).map(" ".join))
def test_any_phrases(prompt: str) -> None:
    silence = early_silence(prompt)
    assert silence is None or silence in EARLY - {Silence.COMMAND, Silence.MACHINE}
