"""A real daemon in a house of its own: every directory temporary, the hashing stand-in instead of a model.

Tests reach it as everybody does: by socket, by commands, by files, by git.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ormahctl.gateway import reach
from ormahctl.shim import gateway
from ormahd import api
from ormahd.embedding.model_files import DEFAULT_MODEL
from ormahd.rpc import wire
from tests import forked, fresh_vault, models
from tests.surroundings import surroundings

START_SECONDS = 180.0
CRASHED = {-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS, -signal.SIGILL, -signal.SIGFPE}
"""Statuses that no test asks for: faulthandler has written the stack of every thread to the house's `stderr`."""


def wait_until(
    condition: Callable[[], Any], what: str | Callable[[], str], seconds: float = 120.0, *, every: float = 0.02
) -> Any:
    """The first true value of `condition`; fails with `what` (called then, where it can be) when there is none in time.

    What takes longer is asked for less often: a question each 20 ms holds up what it waits for.
    """
    begun = time.monotonic()
    while (waited := time.monotonic() - begun) < seconds:
        found = condition()
        if found:
            return found
        time.sleep(max(every, min(waited / 5, 0.5)))
    pytest.fail(f"waited {seconds:.0f} s for: {what if isinstance(what, str) else what()}")


def save(file: Path, text: str) -> None:
    """Write a file as most editors save: beside it, then in its place. One that is cut short and then filled can be met empty in
    between, where the machine is busy for longer than a file has to rest; an emptied note is no memory until it is filled."""
    beside = file.with_name(f".{file.name}.tmp")
    beside.write_text(text)
    os.replace(beside, file)


def write_notes(vault: Path, notes: Mapping[str, str]) -> None:
    """Write notes (path in the vault -> text), with the folders above them."""
    for path, text in notes.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text)


@dataclass
class House:
    """One vault and the daemon that keeps it. `home` is short, because a socket's path has 103 bytes. Daemon and commands are forks
    of a process that has imported them (tests/forked.py), unless `plainly`, for tests of what a start does."""

    home: Path
    settings: dict[str, str] = field(default_factory=dict)
    plainly: bool = False
    process: subprocess.Popen[bytes] | forked.Process | None = None
    begins: bool = False
    """The daemon makes the vault itself, with an id of its own; else it finds a copy in which nothing was done yet."""
    module: str = "ormahd"
    """What `python -m` runs as the daemon."""
    before: tuple[str, ...] = ()
    """A command that starts daemon and commands (tests/without_rights.py)."""

    @property
    def vault(self) -> Path:
        return self.home / "vault"

    @property
    def socket(self) -> Path:
        return self.home / "s"

    @property
    def state(self) -> Path:
        """The state directory of the vault (logs, state.sqlite3)."""
        mine = (self.home / "state_home" / "ormah").iterdir()
        return next(path for path in mine if path.name != "setup")  # what `ormahctl setup` remembers is of no vault

    @property
    def env(self) -> dict[str, str]:
        ours = {
            "ORMAH_VAULT": str(self.vault), "ORMAH_SOCKET": str(self.socket), "ORMAH_EMBEDDING_MODEL": "hashing",
            "ORMAH_VAULT_QUIET_SECONDS": "0.1",
        }  # fmt: skip
        return surroundings(self.home) | ours | self.settings

    def _forks(self) -> bool:
        """The daemon finds git on its `PATH` already while it is imported."""
        return not (self.plainly or self.before) and all(name.startswith("ORMAH_") for name in self.settings)

    # ------------------------------------------------------------ the daemon

    def start(self, *, phase: str = "ready") -> None:
        """Start the daemon in the foreground and wait for `phase`; an empty one: until it answers."""
        set_up = {name for name in self.settings if name.startswith("ORMAH_EMBEDDING_")}
        usual = set_up == {"ORMAH_EMBEDDING_MODEL"} and self.settings["ORMAH_EMBEDDING_MODEL"] == DEFAULT_MODEL
        with models.made_once(self.models_dir) if usual and not self.plainly else contextlib.nullcontext():
            self._start(phase)

    def _start(self, phase: str) -> None:
        with (self.home / "stderr").open("ab") as stderr, open(os.devnull, "rb") as nothing:
            if self.module in forked.PRELOADED and self._forks():
                if not self.begins and not self.vault.exists() and "ORMAH_VAULT" not in self.settings:
                    fresh_vault.copy_to(self.vault, "of a daemon", _fresh)
                self.process = forked.start(
                    self.module, "run", env=self.env, cwd=self.home, files=(nothing, stderr, stderr)
                )
            else:
                self.process = subprocess.Popen(
                    [*self.before, sys.executable, "-m", self.module, "run"], env=self.env, cwd=self.home, stdin=nothing, stdout=stderr,
                    stderr=stderr, start_new_session=True,
                )  # fmt: skip
        process = self.process

        def there() -> bool:
            if process.poll() is not None:
                pytest.fail(f"the daemon ended with status {process.returncode}:\n{self.said()}")
            with contextlib.suppress(wire.Unavailable):
                answer: api.HelloResult = self.call("hello")
                return phase in {"", answer.phase}
            return False

        wait_until(
            there,
            lambda: f"the daemon's phase '{phase}'; it said:\n{self.said()}",
            START_SECONDS,
            every=0.05 if phase else 0.02,
        )

    def stop(self) -> int:
        """SIGTERM, and the exit status."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(180)

    def kill(self) -> None:
        """SIGKILL to the daemon and whatever it has started, at this instant."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(120)

    def age(self, days: float) -> None:
        """As if nobody had been here for so long: every commit of the vault is older by it. The daemon is restarted."""
        self.stop()
        date = f"@$(( ${{seconds#@}} - {round(days * 86_400)} )) +0000"
        older = f'seconds=${{GIT_COMMITTER_DATE%% *}}; export GIT_COMMITTER_DATE="{date}"'
        self.git("filter-branch", "-f", "--env-filter", older, "HEAD")
        self.git("update-ref", "-d", f"refs/original/{self.git('symbolic-ref', 'HEAD').strip()}")
        self.start()

    def restart(self) -> None:
        assert self.process is not None
        if self.process.poll() is None:
            self.stop()
        self.start()

    def said(self) -> str:
        file = self.home / "stderr"
        said = file.read_text(errors="replace") if file.exists() else ""
        crash = said.rfind("Fatal Python error")
        return said[-4000:] if crash < 0 else said[crash : crash + 4000]

    def close(self) -> None:
        if self.process is not None and self.process.poll() in CRASHED:
            pytest.fail(f"the daemon crashed with status {self.process.returncode}:\n{self.said()}")
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(120)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(120)
        if Path(f"{self.socket}{gateway.SUFFIX}.lock").is_file():
            wait_until(self._gateway_ended, "the gateway has ended, also one that was starting")
        if self.socket.exists():  # one that `ormahctl up` started
            done = self.ctl("down")
            assert done.returncode == 0, done.stderr

    def _gateway_ended(self) -> bool:
        reach.stop(self.socket)
        lock = gateway.take_lock(str(self.socket))
        if lock is not None:
            os.close(lock)
        return lock is not None

    # ------------------------------------------------------------ the ways to reach it

    def connect(self) -> wire.ClientConnection:
        """A connection that stays open, for many calls."""
        return wire.connect(self.socket)

    @property
    def index_dir(self) -> Path:
        return next(one for one in self.models_dir.parent.iterdir() if one != self.models_dir)

    @property
    def models_dir(self) -> Path:
        """What was made of models, for every vault."""
        return self.home / "cache_home" / "ormah" / "models"

    def notes(self) -> dict[str, bytes]:
        """Every note of the vault, by its path. Hidden folders are not entered: git moves things about in its own."""
        found: dict[str, bytes] = {}
        for folder, inner, names in os.walk(self.vault):
            inner[:] = sorted(name for name in inner if not name.startswith("."))
            for file in (Path(folder, name) for name in names if name.endswith(".md")):
                found[file.relative_to(self.vault).as_posix()] = file.read_bytes()
        return dict(sorted(found.items()))

    def call(self, method: str, *, agent: str | None = "test", cwd: str | None = None, **params: Any) -> Any:
        """One call over the socket, on a connection of its own; the method's result Struct."""
        with wire.connect(self.socket) as connection:
            return connection.call(method, params, agent=agent, cwd=cwd, timeout=300.0)

    def ctl(
        self,
        *args: str,
        input: str | bytes = b"",  # noqa: A002 - as subprocess.run calls it
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float = 300.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run `ormahctl` with `args` to its end."""
        given = input.encode() if isinstance(input, str) else input
        where, environment = cwd or self.home, self.env | (env or {})
        if not (self.plainly or self.before) and forked.fits(self.settings | (env or {})):
            done = forked.run("ormahctl", *args, env=environment, cwd=where, given=given, timeout=timeout)
        else:
            done = subprocess.run(
                [*self.before, sys.executable, "-m", "ormahctl", *args], input=given, capture_output=True, env=environment, cwd=where,
                timeout=timeout, check=False,
            )  # fmt: skip
        return subprocess.CompletedProcess(args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def json(self, *args: str, status: int = 0, **more: Any) -> Any:
        """The JSON that `ormahctl --json` prints; it must end with `status`."""
        done = self.ctl("--json", *args, **more)
        if args[:1] == ("recall",) and status == 0 and done.returncode == 1 and done.stdout:
            return json.loads(done.stdout)  # 1 says that nothing was found
        assert done.returncode == status, done.stdout + done.stderr
        return json.loads(done.stdout)

    def git(self, *args: str) -> str:
        """git in the vault, as a person types it."""
        done = subprocess.run(
            ["git", *args], cwd=self.vault, env=self.env, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)


def _fresh(root: Path) -> None:
    with open_house() as house:
        house.begins = True
        house.start()
        house.stop()
        house.vault.rename(root)


@contextlib.contextmanager
def open_house(**settings: str) -> Iterator[House]:
    """A house without a daemon yet; `settings` are further `ORMAH_*` variables."""
    with tempfile.TemporaryDirectory(prefix="orm", ignore_cleanup_errors=True) as directory:
        house = House(Path(directory), settings)
        (house.home / ".gitconfig").write_text("[user]\n\tname = Ada Person\n\temail = ada@example.org\n")
        try:
            yield house
        finally:
            house.close()
