"""The agents that `setup` can connect: where each keeps its settings, its events, and the form of its hooks.

Claude Code: `settings.json` of the person, timeouts in seconds, strict JSON. Codex: `hooks.json` or `config.toml`, timeouts in seconds;
hooks join the file that has some, and an unchanged hook is not touched, because Codex keeps the person's trust by its place and hash.
Gemini CLI: `settings.json`, timeouts in milliseconds, comments allowed.
"""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from ormahctl.setup import entry, file, paragraph
from ormahctl.setup.change import Record
from ormahctl.setup.file import Document, InvalidSettings, apply
from ormahctl.setup.json_edit import Json
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


class ClaudeCode(Harness):
    name = "claude-code"
    title = "Claude Code"
    program = "claude"
    events = ("SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd")
    strict = True
    reads = "CLAUDE.md"
    after = "sessions that you start from now on have it"

    def home(self) -> Path:
        return place("CLAUDE_CONFIG_DIR", ".claude")

    def off(self) -> str | None:
        return "disableAllHooks" if settings(self.target()).get("disableAllHooks") is True else None


class Codex(Harness):
    name = "codex"
    title = "Codex"
    program = "codex"
    events = ("SessionStart", "UserPromptSubmit", "Stop", "PreCompact")
    strict = True
    reads = "AGENTS.md"
    after = "Codex asks you to trust new hooks before it runs them: start it and type /hooks"

    def home(self) -> Path:
        return place("CODEX_HOME", ".codex")

    def files(self) -> tuple[Path, ...]:
        return (self.home() / "hooks.json", self.home() / "config.toml")

    def target(self) -> Path:
        """The file that has ours; else `config.toml` where it alone has hooks, in a form that can be added to."""
        apart, config = self.files()
        hooks = {path: _events(path) for path in (apart, config)}
        for path, events in hooks.items():
            if any(entry.ours(one) for groups in events.values() for one in _handlers(groups)):
                return path
        theirs = hooks[config] and not hooks[apart]
        return config if theirs and all(_takes_tables(config, event) for event in self.events) else apart

    def instructions(self, project: Path | None = None) -> Path:
        """`AGENTS.override.md` where it is there: then Codex does not read the other one."""
        usual = super().instructions(project)
        instead = usual.with_name("AGENTS.override.md")
        return instead if instead.is_file() else usual

    def off(self) -> str | None:
        features = settings(self.files()[1]).get("features")
        for key in ("hooks", "codex_hooks"):
            if isinstance(features, Mapping) and features.get(key) is False:
                return f"features.{key} = false in config.toml"
        return None


def _events(path: Path) -> dict[str, list[Any]]:
    """The events with hooks; `hooks.state`, where Codex keeps whom the person trusts, is none."""
    hooks = settings(path).get("hooks")
    found = hooks if isinstance(hooks, Mapping) else {}
    return {name: groups for name, groups in found.items() if isinstance(groups, list) and groups}


def _handlers(groups: list[Any]) -> list[Any]:
    return [
        one
        for group in groups
        if isinstance(group, Mapping) and isinstance(group.get("hooks"), list)
        for one in group["hooks"]
    ]


def _takes_tables(config: Path, event: str) -> bool:
    """Whether a table can be added for `event`: not where it is written as `[{...}]`, or `hooks` as `{...}`."""
    document = peek(config)
    if document is None:
        return False
    try:
        document.parse(apply(document.data, document.add(event, {})))
    except InvalidSettings:
        return False
    return True


class Gemini(Harness):
    name = "gemini"
    title = "Gemini CLI"
    program = "gemini"
    events = ("SessionStart", "BeforeAgent", "AfterAgent", "PreCompress", "SessionEnd")
    strict = False
    reads = "GEMINI.md"
    after = "sessions that you start from now on have it"

    def home(self) -> Path:
        """`GEMINI_CLI_HOME` stands for the home directory, not for the one of the settings."""
        return Path(os.environ.get("GEMINI_CLI_HOME") or paths.home()).absolute() / ".gemini"

    def instructions(self, project: Path | None = None) -> Path:
        """By the name that the person gave it (`context.fileName`, a name or several); else `GEMINI.md`."""
        said = settings(self.target())
        context = said.get("context")
        named = context.get("fileName") if isinstance(context, Mapping) else said.get("contextFileName")
        names = [named] if isinstance(named, str) else named if isinstance(named, list) else []
        plain = [name for name in names if isinstance(name, str) and name and "/" not in name]
        return (project or self.home()) / (self.reads if not plain or self.reads in plain else plain[0])

    def handler(self, event: str, *, socket: str | None, deadline: int) -> dict[str, Any]:
        made = super().handler(event, socket=socket, deadline=deadline)
        return {"name": "ormah", **made, "timeout": made["timeout"] * 1000}

    def off(self) -> str | None:
        for table in ("hooksConfig", "hooks"):
            group = settings(self.target()).get(table)
            if not isinstance(group, Mapping):
                continue
            if group.get("enabled") is False:
                return f"{table}.enabled = false"
            disabled = group.get("disabled")
            if isinstance(disabled, list) and "ormah" in disabled:
                return f"ormah in {table}.disabled"
        return None


AGENTS: Final[Mapping[str, Harness]] = {one.name: one for one in (ClaudeCode(), Codex(), Gemini())}
