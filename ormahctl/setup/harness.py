"""The agents that we know: where each keeps its settings, which events it has, in which words it wants a hook."""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from ormahctl.setup import entry, file, paragraph
from ormahctl.setup.edits import Document
from ormahctl.setup.json_edit import Json
from ormahctl.setup.record import Record
from ormahctl.setup.toml_edit import Toml
from ormahd import paths
from ormahd.rpc.wire import OrmahError


class Harness(ABC):
    """One agent's program. The module of each says where its facts come from."""

    name: ClassVar[str]
    """As people type it, and as the shim hands it to the daemon."""
    title: ClassVar[str]
    program: ClassVar[str]
    events: ClassVar[tuple[str, ...]]
    strict: ClassVar[bool]
    """It reads its settings as strict JSON: with a comment in it the whole file counts for nothing."""
    reads: ClassVar[str]
    """The name of the file that it reads at the start of a session."""
    after: ClassVar[str]
    """What the person has to do after a change."""

    @abstractmethod
    def home(self) -> Path:
        """The directory of its settings."""

    def files(self) -> tuple[Path, ...]:
        """Files that may hold its hooks."""
        return (self.home() / "settings.json",)

    def target(self) -> Path:
        """The file into which new hooks go."""
        return self.files()[0]

    def instructions(self, project: Path | None = None) -> Path:
        """The file that it reads at the start of a session: the person's, or the one of a project."""
        return (project or self.home()) / self.reads

    def handler(self, event: str, *, socket: str | None, deadline: int) -> dict[str, Any]:
        """What runs our shim for `event`; `deadline` in milliseconds."""
        text = entry.command(event, self.name, socket=socket, deadline=deadline)
        return {"type": "command", "command": text, "timeout": entry.timeout(deadline)}

    def found(self) -> str | None:
        """Where it is on this machine: its program, else its directory with something that we did not make; None where it is not."""
        program = shutil.which(self.program)
        if program is None and self.home().is_dir():
            ours = [*Record.all(self.name), *Record.all(paragraph.owner(self.name))]
            made = {Path(one.file) for one in ours if not one.existed}
            return str(self.home()) if set(self.home().iterdir()) - made else None
        return program

    def off(self) -> str | None:
        """The setting by which the person switched hooks off."""
        return None


def parse(path: Path, data: bytes) -> Document:
    """The settings file at `path`, by its ending."""
    return Toml.parse(data) if path.suffix == ".toml" else Json.parse(data)


def peek(path: Path) -> Document | None:
    """The settings file at `path` as far as it can be read: whoever writes to it reads it strictly."""
    try:
        data = file.read(path).data
        return None if data is None else parse(path, data)
    except (OrmahError, OSError):
        return None


def settings(path: Path) -> Mapping[str, Any]:
    """What that file says; nothing where it cannot be read."""
    document = peek(path)
    return {} if document is None else document.value


def place(variable: str, usual: str) -> Path:
    """The directory that an environment variable names, else `usual` in the person's home."""
    given = os.environ.get(variable)
    return paths.expand(Path(given)).absolute() if given else paths.home() / usual
