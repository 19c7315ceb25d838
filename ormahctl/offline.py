"""Run `ormahd` as a child process: to start the daemon, and for commands that work without one (doctor, config)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection

from ormahd.rpc.wire import BY_CODE, Internal, OrmahError


def command(*arguments: str) -> list[str]:
    """Return the command line of `ormahd ARGUMENTS`. `-P` keeps Python from importing modules from the current
    directory."""
    return [sys.executable, "-P", "-m", "ormahd", *arguments]


def ask(*arguments: str) -> int:
    """Run `ormahd ARGUMENTS` with this process's stdin, stdout and stderr, and return its exit status."""
    sys.stdout.flush()
    sys.stderr.flush()
    return subprocess.run(command(*arguments), check=False).returncode


def answer(*arguments: str, fine: Collection[int] = (0,)) -> bytes:
    """Return what `ormahd ARGUMENTS` writes to stdout. `fine`: exit statuses that are no error.

    Raises:
        OrmahError: the exit status is not in `fine`; the message is the error that `ormahd` printed.
    """
    done = subprocess.run(command(*arguments), stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode in fine:
        return done.stdout
    message, hint = parse_error(done.stderr.decode("utf-8", "replace"))
    kinds = {kind.exit_status: kind for kind in reversed(BY_CODE.values())}
    failed: type[OrmahError] = kinds.get(done.returncode, Internal)
    raise failed(message or f"ormahd {arguments[0]} ended with status {done.returncode}", hint=hint)


def parse_error(stderr: str) -> tuple[str | None, str | None]:
    """Return (error, hint) from the `error:` and `hint:` lines in `stderr`, the output of `ormahd`. If there is no
    `error:` line, the last line is the error."""
    lines = [text.strip() for text in stderr.splitlines() if text.strip()]
    error = next((text.removeprefix("error:").strip() for text in lines if text.startswith("error:")), None)
    hint = next((text.removeprefix("hint:").strip() for text in lines if text.startswith("hint:")), None)
    return error or (lines[-1] if lines else None), hint
