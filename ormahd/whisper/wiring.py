"""How each agent reaches its memory, as `ormahctl setup` wrote it down when it connected the agent."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from ormahd import paths
from ormahd.process import own_files
from ormahd.text.injected import PROGRAM, Commands, shell

log = logging.getLogger("ormahd.wiring")

AGENT: Final = "agent:"
"""How the source of an agent begins (`actions.caller`)."""


class Wiring:
    """The commands of each agent. The file is read again when it has changed; thread-safe."""

    def __init__(self, file: Path | None = None) -> None:
        """`file`: where setup writes; the usual place if None."""
        self._file = file or paths.wiring_file()
        self._usual = shell(paths.program(PROGRAM))
        self._known: tuple[tuple[int, int, int] | None, Mapping[str, Commands]] = (None, {})

    def of(self, agent: str | None) -> Commands:
        """The commands of the agent with this name or source; of one that was not set up, those of a shell on this machine."""
        return self._read().get((agent or "").removeprefix(AGENT), self._usual)

    def _read(self) -> Mapping[str, Commands]:
        try:
            found = os.stat(self._file)
        except OSError:
            return {}
        stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
        known, commands = self._known
        if known != stamp:
            commands = _parsed(self._file)
            self._known = (stamp, commands)
        return commands


def _parsed(file: Path) -> Mapping[str, Commands]:
    """What the file says; nothing where it cannot be read, because a whisper does not fail over its footnote."""
    try:
        programs = msgspec.json.decode(own_files.read(file, follow=True), type=dict[str, paths.Wired])
    except (OSError, msgspec.DecodeError) as exc:
        log.warning("%s cannot be read (%s); renew it: ormahctl setup AGENT", file, type(exc).__name__)
        return {}
    return {agent: shell(wired["program"]) for agent, wired in programs.items()}
