"""Every command in the documentation is run, page by page, in a home directory of the page's own (tests/pages.py says how)."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ormahd.embedding.model_files import DEFAULT_MODEL
from tests import forked
from tests.house import House
from tests.pages import Command, Ids, blocks, fault
from tests.surroundings import ROOT, surroundings

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
MEANING = {"README.md", *(f"docs/{name}.md" for name in ("whispers", "feedback", "beliefs", "maintenance", "judge"))}
"""Pages that show what is found by meaning: with the default model. The others have the stand-in that loads at once."""
WAITED = 60.0
READS = re.compile(
    r"ormahctl (?:recall|whisper|history|list|show|status|doctor|log|proposals|spaces)\b|cat |ls |git (?:-C \S+ )?(?:log|status|show)\b"
)
"""Commands that change nothing: asked again until they print what the page has, because the daemon takes edits in after a while."""
SHELL = re.compile(r"[|&;<>$`*?~\n\\]|^\w+=|^cd ")
REMOTE = "git@example.org:me/memory.git"


class Home(House):
    """A house laid out as the documentation says: everything at its default place below the home directory."""

    @property
    def vault(self) -> Path:
        return self.home / ".local/share/ormah/vault"

    @property
    def socket(self) -> Path:
        return self.home / "runtime_dir/ormah/ormahd.sock"

    @property
    def models_dir(self) -> Path:
        return self.home / ".cache/ormah/models"

    @property
    def env(self) -> dict[str, str]:
        places = {"CONFIG": ".config", "DATA": ".local/share", "CACHE": ".cache", "STATE": ".local/state"}
        return (
            surroundings(self.home)
            | {f"XDG_{name}_HOME": str(self.home / place) for name, place in places.items()}
            | {
                "ORMAH_VAULT_QUIET_SECONDS": "0.1",
                "EDITOR": "true",
                "PATH": f"{self.home / 'bin'}:{os.environ['PATH']}",
            }
            | self.settings
        )


@dataclass
class Reader:
    """Somebody who types a page's commands, at as many machines as it has."""

    directory: Path
    model: str
    homes: dict[str, Home] = field(default_factory=dict)
    folders: dict[str, Path] = field(default_factory=dict)
    ids: Ids = field(default_factory=Ids)

    def home(self, machine: str, *, early: bool) -> Home:
        """Return the house of this machine. Its daemon is started with the first command that is not `early`."""
        if machine not in self.homes:
            place = self.directory / (machine or "ada")
            place.mkdir()
            home = Home(place, {"ORMAH_EMBEDDING_MODEL": self.model}, begins=True)
            (place / ".gitconfig").write_text(
                f"[user]\n\tname = Ada Byrne\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n"
                f'[url "{self.directory / "remote.git"}"]\n\tinsteadOf = {REMOTE}\n'
            )
            (place / "bin").mkdir()
            command = place / "bin" / "ormahctl"
            command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ormahctl "$@"\n')
            command.chmod(0o755)
            self.homes[machine], self.folders[machine] = home, place
        home = self.homes[machine]
        if not early and home.process is None:
            home.start()
        return home

    def type(self, command: Command, where: str) -> None:
        """Run one command and hold what it prints, and its exit status, against the page."""
        home = self.home(command.machine, early=command.early)
        text = self.ids.typed(command.text)
        until = time.monotonic() + WAITED
        while (fault := self._once(home, command, text)) is not None:
            if not READS.match(text) or time.monotonic() > until:
                pytest.fail(f"{where}:{command.line}: {text}\n{fault}\n{home.said()}", pytrace=False)
            time.sleep(0.1)

    def _once(self, home: Home, command: Command, text: str) -> str | None:
        done = self._run(home, command.machine, text)
        printed = (done.stdout + done.stderr).decode().replace(str(home.home), "~")
        if done.returncode != command.status:
            return f"it ended with {done.returncode} and printed\n{printed}"
        return None if command.output is None else self.ids.differ(command.output, printed)

    def _run(self, home: Home, machine: str, text: str) -> subprocess.CompletedProcess[bytes]:
        folder = self.folders[machine]
        if text.startswith("ormahctl ") and not SHELL.search(text):
            words = shlex.split(text, comments=True)
            return forked.run("ormahctl", *words[1:], env=home.env, cwd=folder, given=b"", timeout=300)
        script = f'{text}\nstatus=$?; pwd > "{home.home / "folder"}"; exit $status'
        done = subprocess.run(
            ["bash", "-c", script], env=home.env, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=300
        )
        self.folders[machine] = Path((home.home / "folder").read_text().rstrip("\n"))
        return done

    def close(self) -> None:
        for home in self.homes.values():
            home.close()


@contextlib.contextmanager
def reader(model: str) -> Iterator[Reader]:
    with tempfile.TemporaryDirectory(prefix="orm", ignore_cleanup_errors=True) as directory:
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", f"{directory}/remote.git"], check=True)
        found = Reader(Path(directory).resolve(), model)
        try:
            yield found
        finally:
            found.close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_commands_of_a_page_do_what_it_says(page: Path) -> None:
    commands = [command for block in blocks(page) if block.reason is None for command in block.commands]
    if not commands:
        return
    name = page.relative_to(ROOT).as_posix()
    with reader(DEFAULT_MODEL if name in MEANING else "hashing") as person:
        for command in commands:
            person.type(command, name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_stand_in_blocks_that_are_run(page: Path) -> None:
    """What is not run says why, and its commands exist all the same; a block of another kind has no commands."""
    for block in blocks(page):
        where = f"{page.relative_to(ROOT)}:{block.line}"
        if block.reason is not None:
            assert len(block.reason.split()) > 1, f"{where}: say after no-run why these commands cannot run in a test"
            for command in block.commands:
                wrong = fault(command.text) if command.text.startswith("ormahctl ") else None
                assert wrong is None, f"{where}: {command.text}: {wrong}"
        elif block.kind not in {"sh", "console"}:
            found = re.search(
                r"^(?:[a-z]*\$ |(?:sudo )?(?:ormahctl|ormahd|git|make|python3?|pip) ).*", block.body, re.MULTILINE
            )
            assert found is None, f"{where}: a command in a block that is not run: {found and found[0]}"
