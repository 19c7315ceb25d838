"""Options that contradict each other are refused before the daemon is asked, and the error names both."""

from __future__ import annotations

import re

import pytest

from ormahctl.run import USAGE, run
from tests.tables import rows

TWELVE = ["remember", "recall", "show", "edit", "forget", "undo", "history", "review", "status", "setup", "sync", "web"]
DAY, EARLIER = "2026-11-28", "2026-11-01"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nothing of this machine is reached: a command that went on would find no daemon, and start none."""
    monkeypatch.setenv("ORMAH_SOCKET", str(tmp_path_factory.mktemp("none") / "s"))


@pytest.mark.parametrize(("typed", "named"), rows(__file__, "both_are_named"))
def test_both_are_named(typed: str, named: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    status = run(typed.split())
    said = capsys.readouterr().err
    assert status == USAGE
    assert all(name in said for name in named)


@pytest.mark.parametrize(
    "typed", ["recall --after 2026-11-28 --before 2026-11-28", "history --before 1a2b3c4d --since 1d"]
)
def test_a_day_and_a_page_are_no_contradiction(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(typed.split()) != USAGE
    assert "daemon" in capsys.readouterr().err


def test_two_words_for_one_change_are_no_contradiction(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["update", "a", "--global", "--clear", "space"]) != USAGE
    assert "daemon" in capsys.readouterr().err


def test_help_as_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["help"]) == 0
    shown = capsys.readouterr().out
    assert re.findall(r"^  (\w+)  ", shown, re.MULTILINE) == TWELVE
    assert run([]) == 0
    assert capsys.readouterr().out == shown, "without a word, the same"
    assert run(["help", "--all"]) == 0
    everything = capsys.readouterr().out
    assert all(f"\n  {name} " in everything for name in (*TWELVE, "rebuild", "help"))
    assert "Exit status: 0 ok" in everything
    assert run(["help", "recall"]) == 0
    assert capsys.readouterr().out.startswith("Usage: ormahctl recall ")
    assert run(["help", "rcall"]) == USAGE
    assert "did you mean recall?" in capsys.readouterr().err


@pytest.mark.parametrize("typed", ["config set whisper.max_nodes -5", "config set --json whisper.max_nodes -5"])
def test_a_negative_value_is_a_value(
    typed: str,
    capfd: pytest.CaptureFixture[str],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path_factory.mktemp("config") / "config.toml"
    file.write_bytes(b"")
    monkeypatch.setenv("ORMAH_CONFIG", str(file))
    assert run(typed.split()) == USAGE
    said = capfd.readouterr().err
    assert "whisper.max_nodes: -5 is not allowed; it must be at least 1" in said


def test_a_hook_without_an_event_says_which_word_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hook"]) == 0
    said = capsys.readouterr().err
    assert "missing argument 'EVENT'" in said
    assert "ormahctl hook UserPromptSubmit" in said
