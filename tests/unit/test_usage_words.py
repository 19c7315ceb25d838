"""What the commands say to words that they do not understand: the thing, what is wanted, and where to look."""

from __future__ import annotations

import pytest

from ormahctl.run import run
from ormahd.__main__ import cli, status_of


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        (["recall", "a", "--limit", "x"], "'x' is not a valid integer range", "see: ormahctl recall --help"),
        (["web", "--port", "1.5"], "'1.5' is not a valid integer range", "see: ormahctl web --help"),
        (["history", "--limit", "-1"], "-1 is not in the range 1<=x<=10000", "see: ormahctl history --help"),
        (["recall", "a", "--limit"], "option '--limit' requires an argument", "see: ormahctl recall --help"),
        (["ingest", "/none/such"], "Path '/none/such' does not exist", "see: ormahctl ingest --help"),
        (["recall", "a", "--limt", "3"], "there is no option '--limt'", "did you mean --limit?"),
        (["recll"], "there is no command 'recll'", "did you mean recall?"),
        (["show"], "missing argument 'ID'", "see: ormahctl show --help"),
    ],
)
def test_ormahctl(words: list[str], said: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    error, _, told = capsys.readouterr().err.partition("\nhint: ")
    assert error.startswith("error: ")
    assert error.endswith(said)
    assert told.rstrip() == hint


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        (["rnu"], "No such command 'rnu'", "see: ormahd --help"),
        (["run", "--vaul", "x"], "No such option '--vaul'", "see: ormahd run --help"),
    ],
)
def test_ormahd(words: list[str], said: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(lambda: cli.main(words, prog_name="ormahd", standalone_mode=False)) == 2
    error, _, told = capsys.readouterr().err.partition("\nhint: ")
    assert error.startswith(f"error: {said}")
    assert told.rstrip() == hint
