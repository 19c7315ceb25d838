"""Changes of other programs' settings files, the records by which they are undone, and the commands written into them.

Each changed file has a record, a JSON file in the state directory. It holds the edits, so that `uninstall` restores the
file byte for byte.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from ormahctl.setup import file
from ormahctl.setup.file import FileRead, Splice, apply, reverse
from ormahd import paths
from ormahd.rpc.wire import BadRequest, OrmahError


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What `setup` changed in one file. It is stored as a JSON file, so that `uninstall` can reverse the change.

    `agent`: the agent for which the file was changed, or another owner (`service.OWNER`, `paragraph.owner`). `file`:
    the path of the changed file. `real`: the same path with symlinks resolved.
    """

    agent: str
    file: str
    real: str
    after: str
    """sha256 of the file after the change. While the file has these bytes, the edits can be reversed one by one."""
    edits: tuple[Splice, ...]
    existed: bool
    """Whether the file existed before the change."""

    def fits(self, data: bytes | None) -> bool:
        """Whether `data`, the present bytes of the file (None: no file), is what the recorded change wrote."""
        return data is not None and digest(data) == self.after

    @classmethod
    def all(cls, agent: str) -> list[Self]:
        """Return the stored records of `agent`, a name or a pattern such as `instructions.*`. A record that cannot be
        parsed is skipped, because `uninstall` works without it."""
        found = []
        for path in sorted(_directory().glob(f"{agent}-*.json")):
            try:
                found.append(msgspec.json.decode(path.read_bytes(), type=cls))
            except msgspec.DecodeError:
                continue
        return found

    @classmethod
    def of(cls, agent: str, real: Path) -> Self | None:
        """Return the record of `agent` for the file whose path with symlinks resolved is `real`; None if there is
        none."""
        return next((record for record in cls.all(agent) if record.real == str(real)), None)

    def store(self) -> None:
        """Write the record into the state directory; it replaces an earlier one for the same file."""
        paths.private_dir(_directory())
        file.write(file.read(self._path), msgspec.json.encode(self))

    def forget(self) -> None:
        """Delete the record."""
        self._path.unlink(missing_ok=True)

    @property
    def _path(self) -> Path:
        """The file of the record. Its name has the agent and a digest of the changed file's path."""
        return _directory() / f"{self.agent}-{digest(os.fsencode(self.real))[:8]}.json"


def digest(data: bytes) -> str:
    """Return the sha256 of `data` in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


@contextmanager
def setup_lock() -> Iterator[None]:
    """Context manager: hold a lock during the block, so that one setup at a time changes files and records. Waits
    for the lock."""
    fd = os.open(paths.private_dir(_directory()), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _directory() -> Path:
    """Return the directory of the records."""
    return paths.setup_dir()


@dataclass(frozen=True)
class ConfigChange:
    """A planned change of one file; `make` carries it out. `seen`: the file as it was read for the plan. `after`:
    its new bytes; None: the file is to be removed. `was`: the stored record of an earlier change; None: there is
    none."""

    seen: FileRead
    after: bytes | None
    record: Record | None
    """The record to store after the change; None: delete the record."""
    was: Record | None

    @property
    def path(self) -> Path:
        """The path of the file, as it was named."""
        return self.seen.path

    @property
    def changed(self) -> bool:
        """Whether the change alters the file."""
        return self.seen.data != self.after

    def make(self) -> None:
        """Write the file, and store or delete its record.

        Raises:
            Conflict: the file has changed since the plan was made, or may not be written. Nothing was changed.
        """
        if not self.changed:
            if self.record is not None and self.was is None:
                self.record.store()
            return
        with setup_lock():
            file.write(self.seen, self.after)
            if self.record is not None:
                self.record.store()
            elif self.was is not None:
                self.was.forget()


def make_restores(changes: Sequence[ConfigChange]) -> None:
    """Make changes that restore files, and delete the records of what setup had changed in them."""
    for change in changes:
        change.make()
        if change.was is not None:
            change.was.forget()


def plan_whole_file(owner: str, path: Path, wanted: bytes) -> ConfigChange:
    """Return the change that makes `wanted` the whole content of the file at `path`. It has a record with the name
    `owner`, from which `plan_restores` can restore the earlier content."""
    seen = file.read(path)
    was = Record.of(owner, seen.real)
    before, existed = seen.data, seen.data is not None
    if was is not None and was.fits(seen.data):
        before, existed = apply(seen.data or b"", reverse(was.edits)), was.existed
    edits, real = (Splice(0, before or b"", wanted),), str(seen.real)
    record = Record(agent=owner, file=str(path), real=real, existed=existed, after=digest(wanted), edits=edits)
    return ConfigChange(seen, wanted, record, was)


def plan_restores(owner: str) -> tuple[list[ConfigChange], list[Path]]:
    """Return (the changes that restore all files with a record of `owner`, the paths of files that were edited
    since). Files that were edited are left alone."""
    changes, edited = [], []
    for was in Record.all(owner):
        seen = file.read(Path(was.file))
        if was.fits(seen.data):
            before = apply(seen.data or b"", reverse(was.edits)) if was.existed else None
            changes.append(ConfigChange(seen, before, None, was))
        elif seen.data is not None:
            edited.append(seen.path)
    return changes, edited


SHIM: Final = Path(__file__).resolve().parents[1] / "hook.py"
SHIM_END = "/ormahctl/hook.py"
"""End of the path of `hook.py` (the shim), by which hooks of any installation are recognised as Ormah's."""
DEADLINE_MS: Final = 500
"""Milliseconds after which a hook gives up, so that the prompt continues without memories."""
SPARE_SECONDS: Final = 4
"""Seconds that a harness waits beyond the deadline, for machines that start a process slowly."""
GUARD: Final = " 2>/dev/null || true"
"""Makes the shell always exit with 0 and print no error. Python exits with 2 if the script is gone (an upgrade, a
removed environment), and harnesses take a 2 as "block the prompt"."""


def command(event: str, harness: str, *, socket: str | None, deadline: int) -> str:
    """Return the shell command of the hook for `event`. `socket`: the daemon's socket; None: the hook finds it
    without an option. `deadline`: milliseconds after which the hook gives up.

    Raises:
        BadRequest: a path in the command is not UTF-8.
    """
    words = [sys.executable, "-I", "-S", str(SHIM), "--hook", event, "--harness", harness]
    if socket is not None:
        words += ["--socket", socket]
    words += ["--deadline", str(deadline)]
    text = shlex.join(words) + GUARD
    try:
        text.encode()
    except UnicodeEncodeError:
        escaped = text.encode("utf-8", "backslashreplace").decode()
        raise BadRequest(f"a path in the hook's command is not valid UTF-8: {escaped}") from None
    return text


def socket_option(found: Path) -> str | None:
    """Return the path that a hook's command must pass as `--socket` to reach the daemon's socket `found`; None if the
    hook finds that socket without the option."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    usual = not runtime or os.path.normpath(runtime) == f"/run/user/{os.getuid()}"
    if usual and found == paths.runtime_dir() / paths.SOCKET_NAME:
        return None
    return os.path.abspath(found)


def command_words(handler: Any) -> list[str]:
    """Return the words of the command in `handler`, a hook's entry in an agent's settings; empty if it has no
    command."""
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


def is_our_hook(handler: Any) -> bool:
    """Whether `handler`, a hook's entry in an agent's settings, runs Ormah's script `hook.py`. The interpreter, the
    path and the options do not matter."""
    found = command_words(handler)
    return "--hook" in found and any(word.endswith(SHIM_END) for word in found)


def option_value(handler: Any, name: str) -> str | None:
    """Return the value of the option `name` in the command of `handler`, a hook's entry; None if the command has no
    such option."""
    found = command_words(handler)
    at = found.index(name) + 1 if name in found else len(found)
    return found[at] if at < len(found) else None


def deadline_of(handler: Any) -> int:
    """Return the milliseconds after which the hook `handler` gives up, from its command; the default if its command
    does not say."""
    given = option_value(handler, "--deadline") or ""
    return int(given) if given.isdecimal() else DEADLINE_MS


def mentions_ormah(path: Path) -> bool:
    """Whether the file at `path` contains the path of `hook.py` or the command of our MCP server, as text. For
    settings files that cannot be parsed. False if it is no regular file, or cannot be read."""
    try:
        data = file.read(path).data or b""
    except (OSError, OrmahError):
        return False
    return SHIM_END.encode() in data or re.search(rb"\bormahctl\b.{,400}\bmcp\b", data, re.DOTALL) is not None


SERVER: Final = "ormah"
"""The name of our MCP server in the settings of agents."""


def server_words(entry: Any) -> list[str]:
    """Return the words of the command in `entry`, an MCP server's entry in an agent's settings; empty if it has no
    command."""
    if not isinstance(entry, Mapping):
        return []
    found, more = entry.get("command"), entry.get("args")
    both = [*(found if isinstance(found, list) else [found]), *(more if isinstance(more, list) else [])]
    return [word for word in both if isinstance(word, str)]


def is_our_server(entry: Any) -> bool:
    """Whether `entry`, an MCP server's entry, starts `ormahctl mcp`. The path of `ormahctl` and the options do not
    matter."""
    found = server_words(entry)
    return "mcp" in found and any(os.path.basename(word) == "ormahctl" for word in found)


def server_command(socket: Path) -> list[str]:
    """Return the words that start our MCP server for the daemon at `socket`. They begin with the absolute path of
    `ormahctl`, because desktop programs are not started with the PATH of a shell."""
    script = paths.script("ormahctl")
    words = [script] if script else [sys.executable, "-P", "-m", "ormahctl"]
    given = [] if socket_option(socket) is None else ["--socket", os.path.abspath(socket)]
    return [*words, *given, "mcp"]


def program(socket: Path) -> str:
    """Return the shell command by which an agent calls ormahctl for the daemon at `socket`, with `--socket` if needed."""
    given = socket_option(socket)
    return paths.program("ormahctl") + ("" if given is None else f" --socket {shlex.quote(given)}")


def store_program(agent: str, program: str | None) -> None:
    """Store the shell command by which the agent calls ormahctl. The daemon uses it in texts for that agent. None:
    the agent is no longer connected, so its command is removed."""
    stored = paths.wiring_file()
    with setup_lock():
        try:
            known = msgspec.json.decode(stored.read_bytes(), type=dict[str, paths.AgentConnection])
        except (FileNotFoundError, msgspec.DecodeError):
            known = {}  # an unreadable file is replaced; each setup adds its agent again
        after = {name: connection for name, connection in known.items() if name != agent}
        after |= {} if program is None else {agent: {"program": program}}
        if after == known:
            return
        file.write(file.read(stored), msgspec.json.encode(after) if after else None)


def config_home() -> Path:
    """Return the directory `XDG_CONFIG_HOME`, or `~/.config` if that is not set or not absolute."""
    given = os.environ.get("XDG_CONFIG_HOME", "")
    return Path(given) if os.path.isabs(given) else paths.home() / ".config"
