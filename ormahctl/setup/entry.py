"""The hook command that `setup` writes into an agent's settings, how it is recognised, and the record the daemon reads."""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from ormahctl.setup import change as record
from ormahd import paths
from ormahd.rpc.wire import BadRequest

SHIM: Final = Path(__file__).resolve().parents[1] / "hook.py"
SHIM_END = "/ormahctl/hook.py"
"""By which we know the path of our shim, wherever it is installed."""
DEADLINE_MS: Final = 500
"""Milliseconds after which a hook gives up and the prompt goes on without memories."""
SPARE_SECONDS: Final = 4
"""What a harness waits beyond the deadline, for a machine that is slow to start a process."""
GUARD: Final = " 2>/dev/null || true"
"""Python ends with status 2 when its script is gone (an upgrade, a removed environment), and a harness takes a 2 as "block":
the prompt would be lost, or the agent never stop. So a shell runs it, the status is 0 whatever happens, and nothing is said of it."""

OBSOLETE: Final = ("args", "async", "shell")
"""Members that would change what our command does: where an earlier setup or a person gave them, they go."""


def command(event: str, harness: str, *, socket: str | None, deadline: int) -> str:
    """The shell command for one event. `socket`: where the daemon answers, where that is not the default; `deadline`
    in milliseconds."""
    words = [sys.executable, "-I", "-S", str(SHIM), "--hook", event, "--harness", harness]
    if socket is not None:
        words += ["--socket", socket]
    words += ["--deadline", str(deadline)]
    text = shlex.join(words) + GUARD
    try:
        text.encode()
    except UnicodeEncodeError:
        shown = text.encode("utf-8", "backslashreplace").decode()
        raise BadRequest(f"a path in the hook's command is not valid UTF-8: {shown}") from None
    return text


def timeout(deadline: int) -> int:
    """Seconds that a harness gives the hook: it has ended by itself long before."""
    return math.ceil(deadline / 1000) + SPARE_SECONDS


def socket_option(found: Path) -> str | None:
    """`found` where the shim would not find it by itself, in whatever environment the harness is started."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    usual = not runtime or os.path.normpath(runtime) == f"/run/user/{os.getuid()}"
    if usual and found == paths.runtime_dir() / paths.SOCKET_NAME:
        return None
    return os.path.abspath(found)


def words(handler: Any) -> list[str]:
    """The words of a handler's command; none where it has no command."""
    if not isinstance(handler, Mapping):
        return []
    text, more = handler.get("command"), handler.get("args")
    if not isinstance(text, str):
        return []
    try:
        found = shlex.split(text)
    except ValueError:
        found = text.split()
    return found + [word for word in more if isinstance(word, str)] if isinstance(more, list) else found


def ours(handler: Any) -> bool:
    """Whether a handler runs our shim's hooks, whatever interpreter, path and options an earlier setup gave it."""
    found = words(handler)
    return "--hook" in found and any(word.endswith(SHIM_END) for word in found)


def option(handler: Any, name: str) -> str | None:
    """The value of one option in our command."""
    found = words(handler)
    at = found.index(name) + 1 if name in found else len(found)
    return found[at] if at < len(found) else None


def named(path: Path) -> bool:
    """Whether a file that cannot be parsed speaks of our shim."""
    try:
        return SHIM_END.encode() in path.read_bytes()
    except OSError:
        return False


def program(socket: Path) -> str:
    """How a shell of an agent calls ormahctl for the daemon at `socket`: with `--socket` where it would look elsewhere."""
    found = paths.program("ormahctl")
    plain = {name: value for name, value in os.environ.items() if not name.startswith("ORMAH_")}
    usual_runtime = os.environ.get("XDG_RUNTIME_DIR", "").rstrip("/") in {"", f"/run/user/{os.getuid()}"}
    if usual_runtime and socket == paths.find_socket(environ=plain):
        return found
    return f"{found} --socket {shlex.quote(os.path.abspath(socket))}"


def connected(agent: str, wired: paths.Wired) -> None:
    """Remember it for one agent."""
    _change(agent, wired)


def disconnected(agent: str) -> None:
    """Forget it."""
    _change(agent, None)


def _change(agent: str, wired: paths.Wired | None) -> None:
    file = paths.wiring_file()
    if wired is None and not file.exists():
        return
    with record.alone():
        known = _known(file)
        after = {name: one for name, one in known.items() if name != agent} | ({agent: wired} if wired else {})
        if after == known:
            return
        if not after:
            file.unlink()
            return
        fresh = file.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(after))
        fresh.replace(file)


def _known(file: Path) -> dict[str, paths.Wired]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, paths.Wired])
    except (FileNotFoundError, msgspec.DecodeError):
        return {}  # one that cannot be read is written anew; each setup brings its agent back
