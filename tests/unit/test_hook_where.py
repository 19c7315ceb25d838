"""The hook's own way to the socket, which imports nothing of the daemon, agrees with `ormahd.paths`."""

from __future__ import annotations

import os
import posix
import subprocess
import sys
from pathlib import Path

import pytest

from ormahctl.shim import start
from ormahd import paths
from tests.tables import rows


def surroundings(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home), "PATH": os.environ["PATH"]} | more


CASES = rows(__file__, "cases")


@pytest.mark.parametrize("given", CASES, ids=lambda given: ",".join(f"{k}={v}" for k, v in given.items()) or "nothing")
def test_both_find_the_same_socket(given: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "v").mkdir()
    (tmp_path / "link").symlink_to("v")
    environ = surroundings(tmp_path, **{name: value.format(home=tmp_path) for name, value in given.items()})
    monkeypatch.setattr(posix, "environ", {os.fsencode(k): os.fsencode(v) for k, v in environ.items()})
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert start.socket_path("") == str(paths.find_socket())


def test_a_flag_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORMAH_SOCKET", "/elsewhere")
    monkeypatch.setattr(posix, "environ", {b"ORMAH_SOCKET": b"/elsewhere"})
    assert start.socket_path("/here") == "/here" == str(paths.find_socket("/here"))


def test_without_a_home_both_ask_the_system(tmp_path: Path) -> None:
    """In a process of its own, because the environment is read at its start."""
    code = "from ormahctl.shim import start as where; from ormahd import paths; print(where.socket_path('')); print(paths.find_socket())"
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(start.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    ours, theirs = done.stdout.split()
    assert ours == theirs
