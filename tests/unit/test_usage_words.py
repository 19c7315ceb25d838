"""What the commands say to words that they do not understand: the thing, what is wanted, and where to look."""

from __future__ import annotations

import pytest

from ormahctl.run import run
from ormahd.__main__ import cli, status_of
from tests.tables import rows


@pytest.mark.parametrize(("words", "said", "hint"), rows(__file__, "ormahctl"))
def test_ormahctl(words: list[str], said: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    error, _, told = capsys.readouterr().err.partition("\nhint: ")
    assert error.startswith("error: ")
    assert error.endswith(said)
    assert told.rstrip() == hint


@pytest.mark.parametrize(("words", "said", "hint"), rows(__file__, "ormahd"))
def test_ormahd(words: list[str], said: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(lambda: cli.main(words, prog_name="ormahd", standalone_mode=False)) == 2
    error, _, told = capsys.readouterr().err.partition("\nhint: ")
    assert error.startswith(f"error: {said}")
    assert told.rstrip() == hint
