"""Floors of the whisper on our own corpus, through a real daemon with the real model (definitions: README.md)."""

import pytest

from tests.quality import whisper


def test_the_corpus_is_what_it_promises() -> None:
    for half in whisper.HALVES:
        keys, asked = {one.key for one in whisper.memories(half)}, whisper.prompts(half)
        wanted = {key for prompt in asked for key in prompt.must}
        assert wanted <= keys
        assert len(keys - wanted) >= 200
        assert len(asked) >= 75
        assert len({prompt.category for prompt in asked}) >= 8


@pytest.mark.parametrize("half", whisper.HALVES)
def test_floors(half: str) -> None:
    with whisper.daemon(half) as house:
        figures = whisper.ask(house, half)
    # what the held back half gets wrong is not looked at: who tunes the gate would tune it on that
    said = f"{half}\n{figures.table()}" + (f"\n{figures.misses()}" if half == "dev" else "")
    assert figures.f1 >= 0.88, said
    assert figures.false_injection <= 0.05, said
    assert figures.suppression >= 0.95, said
