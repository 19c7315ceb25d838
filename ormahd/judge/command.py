"""Runs a program as the judge: it reads the prompt from its stdin, and its stdout is the answer.

The program runs in an empty folder of its own, in a process group that is killed at the end, and with a mark in its
environment (`judge.own_sessions`). The presets are the headless modes of coding agents: without tools, without hooks,
and if the agent has an option for that, without saving the session.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final

from msgspec import Struct

from ormahd.judge.own_sessions import VARIABLE
from ormahd.judge.transport import ANSWER_BYTES, POLL_S, Failed, JudgeReply, Stopping, last_line, quote

STDERR_BYTES: Final = 16_384
"""How many of the last bytes of stderr are kept. Its last line is reported as the reason of a failure."""
DRAIN_S: Final = 1.0
"""Seconds for which output is still read after the program has ended: a child process may keep the pipe open."""
PIECE: Final = 65_536
OF_A_SESSION: Final = frozenset({
    "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_EXECPATH",
    "CLAUDE_PROJECT_DIR", "CLAUDE_ENV_FILE", "CODEX_THREAD_ID", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED",
    "GEMINI_CLI", "GEMINI_SESSION_ID", "GEMINI_PROJECT_DIR",
})  # fmt: skip
"""Environment variables that agents set for their child processes. They are removed: if the daemon was started from an
agent's session, the judge would otherwise take itself for a part of that session."""
OURS: Final = "ORMAH_"
"""Prefix of Ormah's own environment variables. They are removed, because no judge needs them."""


class Preset(Struct, frozen=True):
    """How to run a coding agent without a user. Its command line is `words`, `model_flag` with the model, and `last`.
    `read` finds the answer in the agent's output; `environ`: environment variables to add."""

    words: tuple[str, ...]
    model_flag: str
    read: Callable[[str], JudgeReply]
    last: tuple[str, ...] = ()
    environ: Mapping[str, str] = {}


class Command:
    """A transport that runs a program for each prompt: the one that the setting `judge.command` states, or the preset
    that it names. `folder`: the program's working directory, which is emptied before."""

    def __init__(self, command: str, model: str, folder: Path) -> None:
        self._folder = folder
        self._preset = PRESETS.get(command.strip())
        self._command = command
        self._model = model

    @property
    def name(self) -> str:
        first = self._command.split()[0].rpartition("/")[2] if self._command.split() else self._command
        return f"{first} {self._model}" if self._preset is not None and self._model else first

    def send(self, prompt: str, schema: Mapping[str, Any], seconds: float, stopping: Callable[[], bool]) -> JudgeReply:  # noqa: ARG002 - a prompt says it in words
        words, environ = self._words(), _environ()
        if self._preset is not None:
            environ |= self._preset.environ
        self._empty_folder()
        with tempfile.TemporaryFile() as given:
            given.write(prompt.encode("utf-8", "replace"))
            given.seek(0)
            run = _Run(words, environ, self._folder, given)
            status, said = run.wait(time.monotonic() + seconds, stopping)
        if self._preset is not None:
            return self._taken_apart(said, status, run)
        if status != 0:
            raise Failed(_ended(status, last_line(run.stderr)))
        if not said.strip():
            raise Failed(f"it printed nothing{_because(last_line(run.stderr))}")
        return JudgeReply(said, None)

    def _taken_apart(self, said: str, status: int, run: _Run) -> JudgeReply:
        assert self._preset is not None
        try:
            found = self._preset.read(said)
        except Failed as exc:  # the agent's JSON says why it failed
            raise Failed(exc.reason if status == 0 else _ended(status, exc.reason)) from None
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            if status != 0:
                raise Failed(_ended(status, last_line(run.stderr))) from None
            raise Failed(
                f"it printed something else than its JSON{_because(last_line(run.stderr))}", rude=True
            ) from None
        if status != 0:
            raise Failed(_ended(status, last_line(run.stderr)))
        if not found.text.strip():
            raise Failed("the answer is empty")
        return found

    def _words(self) -> list[str]:
        if self._preset is not None:
            model = [self._preset.model_flag, self._model] if self._model else []
            words = [*self._preset.words, *model, *self._preset.last]
        else:
            try:
                words = shlex.split(self._command)
            except ValueError as exc:
                raise Failed(f"judge.command cannot be read: {exc}", sent=False) from None
            if words:
                words[0] = os.path.expanduser(words[0])
        if not words:
            raise Failed("judge.command is empty", sent=False)
        found = shutil.which(words[0])
        if found is None and Path(words[0]).is_file():
            raise Failed(f"{words[0]!r} is no program that may be run: chmod +x makes it one", sent=False)
        if found is None:
            raise Failed(
                f"there is no program {words[0]!r} where the daemon runs: judge.command takes its full path too",
                sent=False,
            )
        return [found, *words[1:]]

    def _empty_folder(self) -> None:
        """Delete the folder and create it again, so that the program cannot read what an earlier run left there."""
        try:
            if self._folder.is_symlink() or (self._folder.exists() and not self._folder.is_dir()):
                self._folder.unlink()
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if any(self._folder.iterdir()):
                raise Failed(f"{self._folder} cannot be emptied", sent=False)
        except OSError as exc:
            raise Failed(f"{self._folder} cannot be made: {exc.strerror}", sent=False) from None


class _Run:
    """One run of a program. Its output is read until a point in time, and up to a maximum number of bytes."""

    def __init__(self, words: list[str], environ: Mapping[str, str], folder: Path, given: IO[bytes]) -> None:
        try:
            self._process = subprocess.Popen(
                words, cwd=folder, env=dict(environ), stdin=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                start_new_session=True,
            )  # fmt: skip
        except OSError as exc:
            raise Failed(f"{words[0]} cannot be run: {exc.strerror}", sent=False) from None
        self._said, self._stderr = bytearray(), bytearray()

    @property
    def stderr(self) -> str:
        return self._stderr.decode("utf-8", "replace")

    def wait(self, end: float, stopping: Callable[[], bool]) -> tuple[int, str]:
        """Wait for the program to end, until `end` (`time.monotonic`) at the latest. Return (exit status, stdout). In
        any case, the program and its children are killed. Raises Failed, Stopping."""
        try:
            self._read(end, stopping)
            status = self._process.wait(max(POLL_S, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise Failed(_LATE) from None
        finally:
            self._kill()
        return status, self._said.decode("utf-8", "replace")

    def _read(self, end: float, stopping: Callable[[], bool]) -> None:
        assert self._process.stdout is not None and self._process.stderr is not None  # noqa: PT018
        ended: float | None = None
        with selectors.DefaultSelector() as streams:
            streams.register(self._process.stdout, selectors.EVENT_READ, self._said)
            streams.register(self._process.stderr, selectors.EVENT_READ, self._stderr)
            while streams.get_map():
                now = time.monotonic()
                if ended is None and self._process.poll() is not None:
                    ended = now
                if stopping():
                    raise Stopping
                if now > end:
                    raise Failed(_LATE)
                if ended is not None and now > ended + DRAIN_S:
                    return
                for key, _ in streams.select(POLL_S):
                    piece = os.read(key.fd, PIECE)
                    if not piece:
                        streams.unregister(key.fileobj)
                    key.data.extend(piece)
                if len(self._said) > ANSWER_BYTES:
                    raise Failed(f"it printed more than {ANSWER_BYTES:,} bytes", rude=True)
                del self._stderr[: -STDERR_BYTES or None]

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()


_LATE: Final = "no answer came in time (judge.timeout_seconds)"


def _environ() -> dict[str, str]:
    """Return the environment for the program: the daemon's, without the variables of an agent's session and of Ormah,
    and with the variable that marks the judge's own sessions."""
    kept = {name: value for name, value in os.environ.items() if name not in OF_A_SESSION and not name.startswith(OURS)}
    return kept | {VARIABLE: "1", "NO_COLOR": "1"}


def _ended(status: int, why: str) -> str:
    how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
    return f"it {how}{_because(why)}"


def _because(why: str) -> str:
    return f": {why}" if why else ""


# ---------------------------------------------------------------- what agents print


def _claude(said: str) -> JudgeReply:
    found = json.loads(said)
    if isinstance(found, list):
        found = next(one for one in reversed(found) if isinstance(one, dict) and one.get("type") == "result")
    if found.get("is_error") or not isinstance(found.get("result"), str):
        raise Failed(quote(str(found.get("result") or found.get("subtype") or "it says that it failed")))
    usage = found.get("usage") or {}
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    return JudgeReply(found["result"], _sum(usage.get(name) for name in names))


def _codex(said: str) -> JudgeReply:
    text, tokens = "", None
    for line in said.splitlines():
        if not line.strip().startswith("{"):
            continue
        event = json.loads(line)
        kind, item = event.get("type"), event.get("item") or {}
        if kind == "item.completed" and item.get("type") == "agent_message":
            text = str(item.get("text", ""))
        elif kind == "turn.completed":
            usage = event.get("usage") or {}
            tokens = _sum(usage.get(name) for name in ("input_tokens", "output_tokens"))
        elif kind in {"turn.failed", "error"}:
            error = event.get("error") or event
            raise Failed(quote(str(error.get("message", "it says that it failed"))))
    if not text:
        raise ValueError("no message")
    return JudgeReply(text, tokens)


def _gemini(said: str) -> JudgeReply:
    found = json.loads(said[said.index("{") :])
    if found.get("error"):
        raise Failed(quote(str(found["error"].get("message", "it says that it failed"))))
    models = (found.get("stats") or {}).get("models") or {}
    return JudgeReply(
        str(found["response"]), _sum((model.get("tokens") or {}).get("total") for model in models.values())
    )


def _sum(counts: Iterator[Any]) -> int | None:
    whole = [count for count in counts if type(count) is int and count >= 0]
    return sum(whole) if whole else None


PRESETS: Final[Mapping[str, Preset]] = {
    "claude": Preset(
        ("claude", "--print", "--output-format", "json", "--no-session-persistence", "--safe-mode", "--strict-mcp-config", "--tools", ""),
        "--model", _claude,
    ),
    "codex": Preset(
        ("codex", "exec", "--json", "--ephemeral", "--ignore-user-config", "--ignore-rules", "--skip-git-repo-check",
         "--sandbox", "read-only", "--disable", "hooks", "--disable", "shell_tool"),
        "--model", _codex, ("-",),
    ),
    "gemini": Preset(
        ("gemini", "--output-format", "json", "--extensions", "none"), "--model", _gemini,
        ("--prompt", "Answer the question above, with nothing but its JSON."), {"GEMINI_CLI_TRUST_WORKSPACE": "true"},
    ),
}  # fmt: skip
"""Value of `judge.command` -> the headless mode of that coding agent. Claude Code: `--safe-mode` leaves out hooks,
plugins and CLAUDE.md, and keeps the sign-in. Codex: `-` is stdin. Gemini CLI has no flag that prevents saving the
session; Ormah's hooks in it do nothing because of the mark in the environment."""
