"""Runs a program as the judge: it reads the prompt from its stdin, and its stdout is the answer.

The program runs in an empty folder of its own, in a process group that is killed at the end, and with a mark in its
environment (`judge.own_sessions`). The presets are the headless modes of coding agents: without tools, without hooks,
and if the agent has an option for that, without saving the session.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event
from typing import Any, Final

from msgspec import Struct

from ormahd.judge.own_sessions import VARIABLE
from ormahd.judge.port import ANSWER_BYTES, LATE, POLL_S, Failed, JudgeReply, Stopping, quote, token_sum

OF_A_SESSION: Final = frozenset(
    [
        *("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_SSE_PORT"),
        *("CLAUDE_CODE_EXECPATH", "CLAUDE_PROJECT_DIR", "CLAUDE_ENV_FILE"),
        *("CODEX_THREAD_ID", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED"),
        *("GEMINI_CLI", "GEMINI_SESSION_ID", "GEMINI_PROJECT_DIR"),
    ]
)
"""Environment variables that agents set for their child processes. They are removed: if the daemon was started from an
agent's session, the judge would otherwise take itself for a part of that session."""
OURS: Final = "ORMAH_"
"""Prefix of Ormah's own environment variables. They are removed, because no judge needs them."""


class Preset(Struct, frozen=True):
    """How to run a coding agent without a user.

    Its command line is `words`, `model_flag` with the model, and `last`. `read`: returns the answer in the agent's
    output. `environ`: environment variables to add.
    """

    words: tuple[str, ...]
    model_flag: str
    read: Callable[[str], JudgeReply]
    last: tuple[str, ...] = ()
    environ: Mapping[str, str] = {}


class Command:
    """A transport that runs a program for each prompt: that of the setting `judge.command`, or of the preset that it
    names.

    `folder`: the program's working directory, which is emptied before each prompt.
    """

    def __init__(self, command: str, model: str, folder: Path) -> None:
        """`command`: a command line, or the name of a preset; `model`: the preset's model, "" for its default."""
        self._folder = folder
        self._preset = PRESETS.get(command.strip())
        self._command = command
        self._model = model

    @property
    def name(self) -> str:
        """The program's name; for a preset with the model."""
        first = self._command.split()[0].rpartition("/")[2] if self._command.split() else self._command
        return f"{first} {self._model}" if self._preset is not None and self._model else first

    def send(self, prompt: str, schema: Mapping[str, Any], seconds: float, stopping: Event) -> JudgeReply:  # noqa: ARG002 - a prompt says it in words
        """Run the program with the prompt on its stdin, and return its answer, see `Transport.send`."""
        # run the program, without the variables of the session in which the daemon was started
        words = self._words()
        environ = {
            name: value for name, value in os.environ.items() if name not in OF_A_SESSION and not name.startswith(OURS)
        }
        environ |= {VARIABLE: "1", "NO_COLOR": "1"} | dict(self._preset.environ if self._preset is not None else {})
        self._empty_folder()
        status, printed, stderr = _run(words, environ, self._folder, prompt, time.monotonic() + seconds, stopping)

        # the answer, or why there is none
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        reason = f": {stderr}" if stderr else ""
        try:
            reply = JudgeReply(printed, None) if self._preset is None else self._preset.read(printed)
        except Failed as exc:  # the agent's JSON says why it failed
            raise exc if status == 0 else Failed(f"it {how}: {exc.reason}") from None
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, StopIteration):
            if status == 0:
                raise Failed(f"it printed something else than its JSON{reason}", unusable=True) from None
            reply = None
        if status != 0 or reply is None:
            raise Failed(f"it {how}{reason}")
        if not reply.text.strip():
            raise Failed(f"it printed nothing{reason}" if self._preset is None else "the answer is empty")
        return reply

    def _words(self) -> list[str]:
        """Return the command line, with the program's full path. Raises Failed if there is no such program."""
        if self._preset is not None:
            model = [self._preset.model_flag, self._model] if self._model else []
            words = [*self._preset.words, *model, *self._preset.last]
        else:
            try:
                words = shlex.split(self._command)
            except ValueError as exc:
                raise Failed(f"judge.command cannot be read: {exc}", sent=False) from None
        if not words:
            raise Failed("judge.command is empty", sent=False)
        program = os.path.expanduser(words[0])
        path = shutil.which(program)
        if path is None:
            why = f"there is no program {program!r} where the daemon runs: judge.command takes its full path too"
            if Path(program).is_file():
                why = f"{program!r} is no program that may be run: chmod +x makes it one"
            raise Failed(why, sent=False)
        return [path, *words[1:]]

    def _empty_folder(self) -> None:
        """Delete the working directory and create it again. Thus the program cannot read files of an earlier run."""
        try:
            if self._folder.is_symlink() or (self._folder.exists() and not self._folder.is_dir()):
                self._folder.unlink()
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if any(self._folder.iterdir()):
                raise Failed(f"{self._folder} cannot be emptied", sent=False)
        except OSError as exc:
            raise Failed(f"{self._folder} cannot be made: {exc.strerror}", sent=False) from None


def _run(
    words: list[str], environ: Mapping[str, str], folder: Path, prompt: str, end: float, stopping: Event
) -> tuple[int, str, str]:
    """Run a program until it ends, and return (exit status, stdout, last line of stderr).

    In any case, the program and its children are killed. Its output goes to files, so that a child which keeps running
    does not block. `end`: the value of `time.monotonic` at which the time is up.

    Raises:
        Failed: the program cannot be run, prints too much, or has not ended at `end`.
        Stopping: `stopping` was set.
    """
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        stdin.write(prompt.encode("utf-8", "replace"))
        stdin.seek(0)
        try:
            process = subprocess.Popen(
                words, cwd=folder, env=environ, stdin=stdin, stdout=out, stderr=err, start_new_session=True
            )
        except OSError as exc:
            raise Failed(f"{words[0]} cannot be run: {exc.strerror}", sent=False) from None
        try:
            while True:
                ended = process.poll() is not None  # asked first, so that the sizes below are final once it has ended
                if max(os.fstat(file.fileno()).st_size for file in (out, err)) > ANSWER_BYTES:
                    raise Failed(f"it printed more than {ANSWER_BYTES:,} bytes", unusable=True)
                if ended:
                    break
                if stopping.is_set():
                    raise Stopping
                if time.monotonic() > end:
                    raise Failed(LATE)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(POLL_S)
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        err.seek(0)
        lines = err.read(ANSWER_BYTES).decode("utf-8", "replace").rstrip().splitlines()
        return process.returncode, out.read(ANSWER_BYTES).decode("utf-8", "replace"), quote(lines[-1]) if lines else ""


# ---------------------------------------------------------------- what agents print


def _read_claude(output: str) -> JudgeReply:
    """Return the reply in Claude Code's output: a JSON object, or a list of events. Raises Failed if it reports an
    error."""
    found = json.loads(output)
    if isinstance(found, list):
        found = next(part for part in reversed(found) if isinstance(part, dict) and part.get("type") == "result")
    if found.get("is_error") or not isinstance(found.get("result"), str):
        raise Failed(quote(str(found.get("result") or found.get("subtype") or "it says that it failed")))
    usage = found.get("usage") or {}
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    return JudgeReply(found["result"], token_sum(usage.get(name) for name in names))


def _read_codex(output: str) -> JudgeReply:
    """Return the reply in the output of Codex: one JSON event a line. Raises Failed if it reports an error."""
    text, tokens = "", None
    for line in output.splitlines():
        if not line.strip().startswith("{"):
            continue
        event = json.loads(line)
        kind, item = event.get("type"), event.get("item") or {}
        if kind == "item.completed" and item.get("type") == "agent_message":
            text = str(item.get("text", ""))
        elif kind == "turn.completed":
            usage = event.get("usage") or {}
            tokens = token_sum(usage.get(name) for name in ("input_tokens", "output_tokens"))
        elif kind in {"turn.failed", "error"}:
            error = event.get("error") or event
            raise Failed(quote(str(error.get("message", "it says that it failed"))))
    if not text:
        raise ValueError("no message")
    return JudgeReply(text, tokens)


def _read_gemini(output: str) -> JudgeReply:
    """Return the reply in the output of Gemini CLI: one JSON object. Raises Failed if it reports an error."""
    found = json.loads(output[output.index("{") :])
    if found.get("error"):
        raise Failed(quote(str(found["error"].get("message", "it says that it failed"))))
    models = (found.get("stats") or {}).get("models") or {}
    return JudgeReply(
        str(found["response"]), token_sum((model.get("tokens") or {}).get("total") for model in models.values())
    )


PRESETS: Final[Mapping[str, Preset]] = {
    "claude": Preset(
        ("claude", "--print", "--output-format", "json", "--no-session-persistence", "--safe-mode", "--strict-mcp-config", "--tools", ""),
        "--model", _read_claude,
    ),
    "codex": Preset(
        ("codex", "exec", "--json", "--ephemeral", "--ignore-user-config", "--ignore-rules", "--skip-git-repo-check",
         "--sandbox", "read-only", "--disable", "hooks", "--disable", "shell_tool"),
        "--model", _read_codex, ("-",),
    ),
    "gemini": Preset(
        ("gemini", "--output-format", "json", "--extensions", "none"), "--model", _read_gemini,
        ("--prompt", "Answer the question above, with nothing but its JSON."), {"GEMINI_CLI_TRUST_WORKSPACE": "true"},
    ),
}  # fmt: skip
"""Value of `judge.command` -> the headless mode of that coding agent. Claude Code: `--safe-mode` leaves out hooks,
plugins and CLAUDE.md, and keeps the sign-in. Codex: `-` is stdin. Gemini CLI has no flag that prevents saving the
session; Ormah's hooks in it do nothing because of the mark in the environment."""
