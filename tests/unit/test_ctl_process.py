"""Commands as processes: mistakes in what was typed, errors and exit statuses, signals, locales."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from ormahd import api
from ormahd.rpc.wire import BY_CODE, Ambiguous, Incompatible
from tests.surroundings import surroundings
from tests.tables import rows
from tests.unit.ctl_desk import Desk, ctl, health, hit, node, quick, remembered


@pytest.fixture
def nobody(tmp_path: Path) -> dict[str, str]:
    """An environment in which no daemon runs."""
    return surroundings(tmp_path)


# ---------------------------------------------------------------- what was typed


@pytest.mark.parametrize("args", rows(__file__, "usage_errors_say_what_and_what_next"))
def test_usage_errors_say_what_and_what_next(desk: Desk, args: list[str]) -> None:
    done = desk.ctl(*args)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert "\nhint: " in done.stderr
    assert "Traceback" not in done.stderr
    assert not desk.calls
    error = json.loads(desk.ctl("--json", *args).stderr)["error"]
    assert error["code"] == "bad_request"
    assert set(error) == {"code", "message", "hint", "data"}


def test_hints_for_mistakes(desk: Desk) -> None:
    assert "did you mean recall?" in desk.ctl("recal", "x").stderr
    assert "quotes" in desk.ctl("remember", "two", "words").stderr
    assert "put -- before" in desk.ctl("remember", "-5 degrees are cold").stderr
    assert "--title" in desk.ctl("remember", "x", "--titel", "y").stderr


def test_bytes_that_are_no_utf8_are_refused_as_arguments(desk: Desk) -> None:
    done = desk.ctl("remember", b"caf\xe9")
    assert done.returncode == 2
    assert done.stderr.startswith("error: argument 2 (caf\\udce9) is not valid UTF-8")
    assert desk.ctl("remember", "x", env={"ORMAH_SPACE": "caf\udce9"}).returncode == 2


# ---------------------------------------------------------------- errors and exits


@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_the_exit_status_is_that_of_the_error(desk: Desk, code: str) -> None:
    desk.answers["agent.get"] = BY_CODE[code]("what, \x1bwhich", hint="what next", data={"a": 1})
    desk.answers["agent.sessions"] = BY_CODE["not_found"]("no session")
    done = desk.ctl("show", "97ac")
    assert done.returncode == BY_CODE[code].exit_status
    assert done.stdout == ""
    assert done.stderr == "error: what, \\x1bwhich\nhint: what next\n"
    assert json.loads(desk.ctl("--json", "show", "97ac").stderr) == {
        "error": {"code": code, "message": "what, \x1bwhich", "hint": "what next", "data": {"a": 1}}
    }


def test_an_ambiguous_id_lists_what_it_may_be(desk: Desk) -> None:
    desk.answers["agent.get"] = Ambiguous(
        "'97ac' is ambiguous", hint="give more", data={"ids": ["97ac0001", "97ac0002"]}
    )
    done = desk.ctl("show", "97ac")
    assert done.returncode == 2
    assert "  97ac0001\n  97ac0002\n" in done.stderr


def test_nobody_answers(nobody: dict[str, str]) -> None:
    for args in (["status"], ["recall", "x"], ["rebuild"], ["export"]):
        done = quick(*args, env=nobody)
        assert done.returncode == 69
        assert done.stdout == ""
        assert done.stderr.startswith("error: the daemon is not running")
        assert "ormahctl up" in done.stderr
    assert json.loads(quick("--json", "status", env=nobody).stderr)["error"]["code"] == "unavailable"
    down = quick("down", env=nobody)
    assert (down.returncode, down.stdout) == (0, "ormahd is not running\n")


def test_another_version_and_another_protocol(desk: Desk) -> None:
    desk.answers["admin.health"] = health(version="0.0.1")
    done = desk.ctl("status")
    assert done.returncode == 0
    assert "the daemon is version 0.0.1" in done.stderr
    desk.answers["admin.health"] = Incompatible("protocol 2", hint="restart")
    assert desk.ctl("status").returncode == 76


# ---------------------------------------------------------------- the world around


def test_ctrl_c_ends_quietly(desk: Desk) -> None:
    arrived, go_on = threading.Event(), threading.Event()

    def wait(_: Any) -> api.NodeResult:
        arrived.set()
        go_on.wait(120)
        return node()

    desk.answers["agent.get"] = wait
    command = [sys.executable, "-m", "ormahctl", "show", "97ac"]
    with subprocess.Popen(command, env=desk.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert arrived.wait(120)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        go_on.set()
    assert (process.returncode, out, err) == (130, "", "interrupted\n")


def test_utf8_in_every_locale(desk: Desk) -> None:
    desk.answers["agent.recall"] = api.RecallResult(text="", results=[hit(title="日本 עברית")])
    for env in (
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "nowhere.ISO-8859-1"},
        {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"},
    ):
        done = desk.ctl("recall", "日本".encode(), env=env)
        assert done.returncode == 0, done.stderr
        assert "日本 עברית" in done.stdout
    assert {params.query for params in desk.params("agent.recall")} == {"日本"}


def test_a_working_directory_that_is_gone(desk: Desk, tmp_path: Path) -> None:
    desk.answers["agent.remember"] = remembered()
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f'rmdir "{gone}"; exec "{sys.executable}" -m ormahctl remember x'
    done = subprocess.run(["sh", "-c", script], cwd=gone, env=desk.env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert desk.calls[-1].cwd is None


def test_a_start_imports_only_what_it_needs(desk: Desk) -> None:
    desk.answers["admin.health"] = health()
    script = (
        "import sys; from ormahctl.run import run; status = run(['--json', 'status']); "
        "print(status, *sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], env=desk.env, capture_output=True, text=True, check=True)
    status, *modules = done.stderr.split()
    assert status == "0"
    heavy = {
        "rich",
        "pydantic",
        "numpy",
        "yaml",
        "git",
        "chromadb",
        "torch",
        "ormahd.config",
        "ormahd.core",
        "ormahd.vault",
    }
    assert not heavy & set(modules)
    assert [name for name in modules if name.startswith("ormahctl.commands.")] == [
        f"ormahctl.commands.{name}" for name in ("daemon", "judge")
    ]


def test_version_and_help(nobody: dict[str, str]) -> None:
    from ormahd import __version__

    said = ctl("--version", env=nobody)
    assert (said.returncode, said.stdout) == (0, f"ormahctl {__version__}\n")
    assert quick("--help", env=nobody).stdout.startswith("Usage: ormahctl")
    assert "ormahctl help --all" in quick(env=nobody).stdout
