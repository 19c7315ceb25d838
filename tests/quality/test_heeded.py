"""Replies of agents after a whisper: which used the whispered memory (`heeded.tsv`, halves fixed beforehand)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ormahd.whisper.review import is_used
from tests.quality.sets import rows

ROWS = rows(Path(__file__).with_name("heeded.tsv"), 5)


@pytest.mark.parametrize("half", ["dev", "held"])
def test_a_reply_that_uses_a_memory_is_told_from_one_that_does_not(half: str) -> None:
    found = [
        (heeded == "1", is_used(memory, prompt, reply)) for of, heeded, memory, prompt, reply in ROWS if of == half
    ]
    assert found.count((False, True)) == 0
    assert found.count((True, True)) >= 9
