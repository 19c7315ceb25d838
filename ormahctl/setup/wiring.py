"""How each connected agent reaches us, written down for the daemon, which makes the agent's texts with it."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import msgspec

from ormahctl.setup import record
from ormahd import paths


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
