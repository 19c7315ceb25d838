"""What containers, cron and CI lack: everything works without it, or one sentence names it and the mend."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.house import House, wait_until
from tests.scratch import ON_DISK
from tests.surroundings import ROOT

STRANGER = ("unshare", "--user", "--map-user=54321", "--map-group=54321")
"""Runs a command as a user that no database knows (the kernel's rights stay ours)."""
PROMPT = json.dumps({"prompt": "who is allergic to peanuts?", "session_id": "s"})


def can(*command: str) -> bool:
    """Whether this machine lets us make such surroundings."""
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0


stranger = pytest.mark.skipif(not can(*STRANGER), reason="no user namespaces here")


class Bare:
    """A process's surroundings with nothing in them but what is given."""

    def __init__(self, home: Path, before: Sequence[str] = (), **env: str) -> None:
        self.home = home
        self.before = before
        self.env = {
            "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "ORMAH_EMBEDDING_MODEL": "hashing",
            "GIT_CONFIG_NOSYSTEM": "1",
        } | {name: value.replace("HERE", str(home)) for name, value in env.items()}  # fmt: skip

    def run(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        command = [*self.before, sys.executable, *words]
        return subprocess.run(
            command, input=given, capture_output=True, text=True, env=self.env, cwd=self.home, timeout=120, check=False
        )

    def ctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "ormahctl", *words)

    def hook(self) -> subprocess.CompletedProcess[str]:
        words = ["--hook", "UserPromptSubmit", "--harness", "claude-code", "--deadline", "30000"]
        return self.run(str(ROOT / "ormahctl" / "hook.py"), *words, given=PROMPT)


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ors", dir=ON_DISK, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


XDG = {
    "XDG_CONFIG_HOME": "HERE/c", "XDG_DATA_HOME": "HERE/d", "XDG_CACHE_HOME": "HERE/k", "XDG_STATE_HOME": "HERE/s",
}  # fmt: skip
HOME = {"HOME": "HERE"}
NO_SHM = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
          'mount -t tmpfs none /dev/shm -o size=4k,mode=0 && exec "$@"', "-")  # fmt: skip
ODD = {
    "XDG_RUNTIME_DIR": "/nowhere", "TMPDIR": "/nowhere", "TZ": "Nowhere/City", "PYTHONTZPATH": "", "TERM": "unknown-256", "COLUMNS": "x",
    "EDITOR": "/nowhere/vi",
}  # fmt: skip


def alone(env: dict[str, str], what: str) -> Any:
    """What another line has together with more: the soak shows that it takes none of the rest."""
    return pytest.param((), env, id=what, marks=pytest.mark.soak)


WORKS = [
    pytest.param(STRANGER, XDG, id="no passwd entry and no HOME", marks=stranger),
    pytest.param((), {"HOME": "HERE/not/there/yet"} | ODD, id="a HOME that is not there, and nothing else in order"),
    pytest.param((), HOME | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, id="ASCII only"),
    pytest.param(NO_SHM, HOME, id="no /dev/shm", marks=pytest.mark.skipif(not can(*NO_SHM), reason="no namespaces")),
    pytest.param((), HOME | {"LC_ALL": "en_US.ISO-8859-1"}, id="a locale of one byte a letter"),
    pytest.param(STRANGER, HOME, id="no passwd entry", marks=[stranger, pytest.mark.soak]),
    alone(XDG, "no HOME"),
    alone(HOME, "no USER, TERM, locale, runtime folder and git identity"),
    alone({"HOME": "HERE/not/there/yet"}, "a HOME that is not there"),
    alone(HOME | {"XDG_RUNTIME_DIR": "/nowhere", "TMPDIR": "/nowhere"}, "runtime and temporary folder gone"),
    alone(HOME | {"TZ": "Nowhere/City", "PYTHONTZPATH": ""}, "no time zone data"),
    alone(HOME | {"LC_ALL": "xx_XX.UTF-9", "LANG": "C"}, "a locale that is not installed"),
    alone(HOME | {"TERM": "unknown-256", "COLUMNS": "x", "EDITOR": "/nowhere/vi"}, "an odd terminal"),
]


@pytest.mark.parametrize(("before", "env"), WORKS)
def test_works_without(home: Path, before: Sequence[str], env: dict[str, str]) -> None:
    bare = Bare(home, before, **env)
    with contextlib.ExitStack() as after:
        after.callback(bare.ctl, "down")
        up = bare.ctl("up")
        assert up.returncode == 0, up.stderr
        told = bare.ctl("remember", "Allergic to peanuts, says Zoë.", "--json")
        assert told.returncode == 0, told.stderr
        assert json.loads(told.stdout)["commit"], "it is committed"
        found = bare.ctl("recall", "peanuts")
        assert "Allergic to peanuts" in found.stdout, found.stderr
        hook = bare.hook()
        assert (hook.returncode, hook.stderr) == (0, "")
        assert "Allergic to peanuts" in hook.stdout
        doctor = bare.ctl("doctor")
        assert doctor.returncode == 0, doctor.stdout + doctor.stderr
        for done in (up, told, found, doctor):
            assert "Traceback" not in done.stderr
    assert bare.ctl("status").returncode == 69, "it is down"


NO_WATCHES = ("unshare", "--user", "--map-root-user", "sh", "-c",
              'echo 1 > /proc/sys/user/max_inotify_watches && exec "$@"', "-")  # fmt: skip


@pytest.mark.skipif(not can(*NO_WATCHES), reason="no namespaces")
def test_without_watches_edits_are_found_all_the_same_and_doctor_says_so(home: Path) -> None:
    bare = Bare(home, NO_WATCHES, **HOME)
    with contextlib.ExitStack() as after:
        after.callback(bare.ctl, "down")
        assert bare.ctl("up").returncode == 0
        vault = Path(json.loads(bare.ctl("status", "--json").stdout)["vault"])
        (vault / "idea.md").write_text("About the owls in the barn.\n")
        wait_until(lambda: "About the owls" in bare.ctl("recall", "owls").stdout, "the edit is found")
        said = bare.ctl("doctor").stdout
        assert "not watched but scanned every two seconds: inotify watch limit reached" in said


REFUSED = [
    pytest.param(STRANGER, {}, "HOME is not set", "set HOME to a folder that you may write to", id="no home", marks=stranger),
    pytest.param(STRANGER, XDG | {"ORMAH_VAULT": "~/notes"}, "home directory is not known", "write the whole path", id="~ without a home",
                 marks=stranger),
    pytest.param((), {"HOME": "/dev/null"}, "/dev/null", "is a file, not a folder\nhint: set vault.path", id="HOME is a device"),
    pytest.param((), {"HOME": "/proc"}, "/proc/.local", "set vault.path", id="HOME may not be written"),
    pytest.param((), HOME | {"XDG_STATE_HOME": "/proc/1"}, "/proc/1/ormah/", "set HOME, or the XDG_* variable that names it", id="no place for the state"),
    pytest.param((), HOME | {"ORMAH_VAULT": "/proc/notes"}, "/proc/notes", "", id="a vault where nothing can be written"),
    pytest.param((), HOME | {"PATH": "/nowhere"}, "git", "install git", id="no git"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "env", "says", "mend"), REFUSED)
def test_or_says_in_a_sentence_what_is_lacking(
    home: Path, before: Sequence[str], env: dict[str, str], says: str, mend: str
) -> None:
    before = [shutil.which(word) or word if number == 0 else word for number, word in enumerate(before)]
    bare = Bare(home, before, **env)
    for words in (("-m", "ormahd", "run"), ("-m", "ormahctl", "up"), ("-m", "ormahctl", "recall", "peanuts")):
        done = bare.run(*words)
        assert done.returncode not in {0, 1}, done.stdout
        assert "Traceback" not in done.stderr, done.stderr
        assert says in done.stderr, done.stderr
        if words[1] == "ormahd":
            assert mend in done.stderr, done.stderr
    hook = bare.hook()
    assert (hook.returncode, hook.stdout, hook.stderr) == (0, "", "")


def test_an_agent_that_names_its_folder_is_answered_without_a_home(house: House) -> None:
    house.plainly = True
    env = {"HOME": "", "ORMAH_EMBEDDING_MODEL": "hashing"}
    house.settings |= env
    house.start()
    found = house.call("agent.remember", content="Allergic to peanuts.", cwd="/srv/shop")
    assert found.space == "shop"
