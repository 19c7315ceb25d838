"""The wheel: it holds what an installation needs, and works in a bare environment, on a home without a checkout."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd.embedding.model_files import SHA256
from tests.house import wait_until
from tests.surroundings import ROOT, surroundings

LARGEST_MB = 400
"""Megabytes that a default installation may take, without bytecode. Half of it is what Chroma requires."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, with the model from the installed package."""
    place = tmp_path_factory.mktemp("wheel")
    for name in ("ormahd", "ormahctl", "systemd", "launchd", "docs"):  # the package holds links to systemd and launchd
        shutil.copytree(ROOT / name, place / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, place / name)
    code = "from setuptools import build_meta; build_meta.build_wheel('out')"
    (place / "out").mkdir()
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=place, stdout=said, stderr=subprocess.STDOUT, timeout=300
        )
        said.seek(0)
        assert done.returncode == 0, said.read().decode()
    (found,) = (place / "out").glob("*.whl")
    return found


def test_it_has_the_units_and_the_model(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        for name in ("systemd/ormahd.service", "systemd/ormahd.socket", "launchd/io.ormah.ormahd.plist"):
            assert packed.read(f"ormahctl/setup/units/{Path(name).name}") == (ROOT / name).read_bytes()
        bundled = {name: packed.read(f"ormahd/embedding/bundled/{name}") for name in SHA256}
        assert {name: hashlib.sha256(data).hexdigest() for name, data in bundled.items()} == SHA256
        (about,) = [packed.read(name).decode() for name in names if name.endswith("/METADATA")]
    required = [line for line in about.splitlines() if line.startswith("Requires-Dist:") and "extra ==" not in line]
    assert not [line for line in required if "torch" in line or "transformers" in line]
    assert wheel.stat().st_size < 30_000_000, "package indexes refuse larger files"


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """The `bin` of an environment that has the wheel and what it requires, and the variables of a fresh home."""
    place = tmp_path_factory.mktemp("bare")
    venv.create(place, with_pip=True)
    subprocess.run([place / "bin" / "pip", "install", "--quiet", "--no-compile", wheel], check=True, timeout=3000)
    with tempfile.TemporaryDirectory(prefix="orm") as home:
        env = surroundings(Path(home))
        del env["PYTHONPATH"], env["ORMAH_DAEMON_AUTOSTART"]
        yield place / "bin", env | {"PATH": f"{place / 'bin'}:/usr/bin:/bin"}
        subprocess.run([place / "bin" / "ormahctl", "down"], env=env, check=False, timeout=120)


@pytest.mark.soak  # it downloads and installs half a gigabyte
def test_it_works_in_a_bare_environment(bare: tuple[Path, dict[str, str]]) -> None:
    programs, env = bare

    def run(*words: str, given: str = "") -> str:
        done = subprocess.run(words, env=env, cwd=env["HOME"], input=given, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    (packages,) = programs.parent.glob("lib/python*/site-packages")
    assert not [name for name in os.listdir(packages) if name in {"torch", "transformers", "sentence_transformers"}]
    assert sum(file.stat().st_size for file in packages.rglob("*") if file.is_file()) < LARGEST_MB * 2**20
    run("ormahctl", "remember", "Allergic to peanuts and carries an EpiPen.", "--about-self", "--tier", "core")
    wait_until(lambda: json.loads(run("ormahctl", "--json", "status"))["phase"] == "ready", "a loaded model")
    assert "embedding.runtime: onnx" in run("ormahctl", "status", "--verbose")
    assert "peanuts" in run("ormahctl", "recall", "what must I avoid in a restaurant")
    assert "EpiPen" in run("ormahctl", "whisper", "what am I allergic to?")
    for name in (".claude", ".cursor"):
        (Path(env["HOME"]) / name).mkdir()
        (Path(env["HOME"]) / name / "mine").touch()  # as after a first start of the agent
    done = json.loads(run("ormahctl", "--json", "setup", "--yes", "--no-service", "--deadline", "9000"))
    assert [(one["what"], one["ok"]) for one in done["checks"]] == [("hook of claude-code", True), ("MCP server", True)]
    settings = json.loads((Path(env["HOME"]) / ".claude" / "settings.json").read_text())
    command = settings["hooks"]["UserPromptSubmit"][0]["hooks"][0]["command"]
    event = {"hook_event_name": "UserPromptSubmit", "prompt": "what am I allergic to?", "session_id": "s", "cwd": "/"}
    assert "EpiPen" in run("/bin/sh", "-c", command, given=json.dumps(event))
    assert "all is well" in run("ormahctl", "doctor")
