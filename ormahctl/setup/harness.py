"""The agents that `setup` can connect, and the paragraph about Ormah in the instructions file that each reads.

Claude Code: `settings.json` of the person, timeouts in seconds, strict JSON. Codex: `hooks.json` or `config.toml`,
timeouts in seconds; our hooks go into the file that has some already, and unchanged hooks are not rewritten, because
Codex stores the person's trust by position and hash. Gemini CLI: `settings.json`, timeouts in milliseconds, comments
allowed.

The paragraph stands between two comments. The first one has a digest of the text, which shows on every machine whether
a person edited it. An edited paragraph belongs to the person and is neither renewed nor removed.
"""

from __future__ import annotations

import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from ormahctl import managers
from ormahctl.setup import change as entry
from ormahctl.setup import change as record
from ormahctl.setup import file
from ormahctl.setup.change import FileChange, Record
from ormahctl.setup.edit import Json, Toml
from ormahctl.setup.file import Document, FileRead, InvalidSettings, Splice, apply, reverse
from ormahd import paths
from ormahd.rpc.wire import OrmahError

TEXT: Final = files("ormahctl.setup").joinpath("paragraph.md").read_text("utf-8")
"""The paragraph; `{program}` is the shell command for ormahctl."""

State = Literal["added", "renewed", "there", "edited", "removed", "unreadable"]
_BLOCK: Final = re.compile(rb"<!-- ormah:begin ([0-9a-f]{8})[^\n]*-->\r?\n(.*?)<!-- ormah:end -->", re.DOTALL)
_BEGUN: Final = b"<!-- ormah:begin"


def owner(agent: str) -> str:
    """Return the name for the records (`Record.agent`) of Ormah's paragraphs in an agent's instructions files."""
    return f"instructions.{agent}"


@dataclass(frozen=True)
class Paragraph(FileChange):
    """A planned change of Ormah's paragraph in an agent's instructions file; `make` carries it out."""

    state: State
    """added, renewed: the paragraph will be written. there: it is up to date. edited: a person changed it, so it stays.
    removed: a person removed it, so it is not added. unreadable: the file is no text."""

    def make(self) -> None:
        super().make()
        if not self.changed and self.record is not None and self.was is None:
            with record.alone():
                self.record.store()


def plan(agent: str, path: Path, program: str, *, wished: bool = False) -> Paragraph:
    """Plan to write Ormah's paragraph into the instructions file at `path`. `program`: the shell command for ormahctl
    that the paragraph names. `wished`: add the paragraph even if a person removed it before."""
    seen = file.read(path)
    data = seen.data or b""
    was = Record.of(owner(agent), seen.real)
    if b"\0" in data or data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return Paragraph(seen, seen.data, was, was, "unreadable")
    newline = b"\r\n" if b"\r\n" in data else b"\n"
    wanted = block(program, newline)
    found = _BLOCK.search(data)
    if found is None:
        if _BEGUN in data:
            return Paragraph(seen, seen.data, was, was, "edited")
        if was is not None and not wished:
            return Paragraph(seen, seen.data, was, was, "removed")
        return _added(agent, seen, was, data, wanted, newline, existed=seen.data is not None)
    if not _untouched(found):
        return Paragraph(seen, seen.data, was, was, "edited")
    if found[0] == wanted:
        return Paragraph(seen, seen.data, was or _borrowed(agent, seen), was, "there")
    if was is not None and was.fits(seen.data):
        before = apply(data, reverse(was.edits))
        made = _added(agent, seen, was, before, wanted, newline, existed=was.existed)
        return Paragraph(seen, made.after, made.record, was, "renewed")
    after = data[: found.start()] + wanted + data[found.end() :]
    edits = [Splice(0, b"", one.inserted.replace(found[0], wanted)) for one in (was.edits if was else ())]
    kept = Record(
        agent=owner(agent), file=str(path), real=str(seen.real), existed=was.existed if was else True, after="",
        edits=tuple(edits),
    )  # fmt: skip
    return Paragraph(seen, after, kept, was, "renewed")


def block(program: str, newline: bytes = b"\n") -> bytes:
    """Return Ormah's paragraph, from the comment that begins it to the comment that ends it, without a line end after
    that. `newline`: the line end to use."""
    body = TEXT.format(program=program).encode().replace(b"\n", newline)
    begin = f"<!-- ormah:begin {_digest(body)} (ormahctl uninstall takes this out, unless it was edited) -->".encode()
    return begin + newline + body + b"<!-- ormah:end -->"


def _added(
    agent: str, seen: FileRead, was: Record | None, before: bytes, wanted: bytes, newline: bytes, *, existed: bool
) -> Paragraph:
    """Plan to append the paragraph `wanted` to the text `before`, after an empty line. `was`: the stored record, if
    any. `existed`: whether the file existed before Ormah changed it."""
    apart = b"" if not before or before.endswith(newline * 2) else newline if before.endswith(newline) else newline * 2
    inserted = apart + wanted + newline
    after = before + inserted
    kept = Record(
        agent=owner(agent), file=str(seen.path), real=str(seen.real), existed=existed, after=record.digest(after),
        edits=(Splice(len(before), b"", inserted),),
    )  # fmt: skip
    return Paragraph(seen, after, kept, was, "added")


def _borrowed(agent: str, seen: FileRead) -> Record:
    """Return a record of `agent` for a paragraph that the file already has. It is copied from the record of another
    agent that reads this file. If there is none, the record has no edits, and says that the file existed before."""
    others = (one for one in Record.all("instructions.*") if one.real == str(seen.real))
    other = next(others, None)
    return Record(
        agent=owner(agent), file=str(seen.path), real=str(seen.real), existed=other.existed if other else True,
        after=other.after if other else "", edits=other.edits if other else (),
    )  # fmt: skip


@dataclass(frozen=True)
class Removal:
    """The changes that remove the paragraphs of disconnected agents; `make` carries them out. `edited`: files in
    which the paragraph stays, because a person changed it."""

    changes: list[FileChange] = field(default_factory=list)
    edited: list[Path] = field(default_factory=list)
    forgotten: list[Record] = field(default_factory=list)
    """Records to delete without a change, because the file was edited, is gone, or is read by another connected agent.
    """

    def make(self) -> None:
        for one in self.changes:
            one.make()
        for was in self.forgotten:
            was.forget()


def removal(agents: Collection[str]) -> Removal:
    """Plan the removal of Ormah's paragraphs from the instructions files of `agents`. A paragraph stays if another
    connected agent reads the file."""
    found = Removal()
    names = {owner(agent) for agent in agents}
    records = Record.all("instructions.*")
    needed = {one.real for one in records if one.agent not in names}
    for was in (one for one in records if one.agent in names):
        seen = file.read(Path(was.file))
        if was.real in needed or any(str(one.seen.real) == was.real for one in found.changes):
            found.forgotten.append(was)
            continue
        after, state = _without(seen.data, was)
        if state == "edited":
            found.edited.append(seen.path)
        if state == "out":
            found.changes.append(FileChange(seen, after, None, was))
        else:
            found.forgotten.append(was)
    return found


def _without(data: bytes | None, was: Record) -> tuple[bytes | None, Literal["out", "gone", "edited"]]:
    if was.fits(data):
        before = apply(data or b"", reverse(was.edits))
        return (before if was.existed or before else None), "out"
    found = _BLOCK.search(data or b"")
    if data is None or (found is None and _BEGUN not in data):
        return data, "gone"
    if found is None or not _untouched(found):
        return data, "edited"
    inserted = was.edits[-1].inserted if was.edits else b""
    if inserted and data.count(inserted) == 1:
        left = data.replace(inserted, b"")
    else:
        rest = data[found.end() :]
        left = data[: found.start()] + re.sub(rb"\A\r?\n", b"", rest)
    return (left if was.existed or left.strip() else None), "out"


def _untouched(found: re.Match[bytes]) -> bool:
    return found[1].decode() == _digest(found[2])


def _digest(body: bytes) -> str:
    """Return a digest of the paragraph `body`. It does not depend on line ends, because git may change them."""
    return record.digest(body.replace(b"\r\n", b"\n"))[:8]


TOOL_EVENT: Final = "PreToolUse"
TOOLS: Final = "Edit|MultiEdit|Write|NotebookEdit|Bash"
"""The tools of Claude Code that edit files or run commands."""


class Harness(ABC):
    """Describes a program that runs agents: where its settings files are, its events, and the form of its hooks."""

    name: ClassVar[str]
    """The name in commands, which the shim also sends to the daemon."""
    title: ClassVar[str]
    program: ClassVar[str]
    events: ClassVar[tuple[str, ...]] = ()
    """The events for which it gets hooks. Empty if it has no hooks, or they cannot add text to a prompt."""
    servers: ClassVar[str] = "mcpServers"
    """The object of its settings that holds MCP servers."""
    strict: ClassVar[bool]
    """Whether it reads its settings as strict JSON, so that a comment makes it ignore the whole file."""
    reads: ClassVar[str | None] = None
    """The name of the instructions file that it reads at the start of a session, if there is one for all projects."""
    after: ClassVar[str] = "sessions that you start from now on have it"
    """What the person has to do after a change."""

    @abstractmethod
    def home(self) -> Path:
        """Return the directory of the program's settings."""

    def files(self) -> tuple[Path, ...]:
        """Return the settings files that may have hooks or MCP servers, the usual one first."""
        return (self.home() / "settings.json",)

    def target(self) -> Path:
        """Return the settings file to which new hooks are added."""
        return self.files()[0]

    def wanted(self) -> tuple[str, ...]:
        """Return the events that should have a hook, given Ormah's present settings."""
        return self.events

    def matcher(self, event: str) -> str | None:
        """Return the pattern of tool names to which the hook for `event` is limited; None if it is not limited."""
        return TOOLS if event == TOOL_EVENT else None

    def server_file(self) -> Path:
        """Return the settings file to which the MCP server is added."""
        return self.target()

    def server(self, words: Sequence[str]) -> dict[str, Any]:
        """Return the settings entry of an MCP server that is started by the command `words`."""
        return {"command": words[0], "args": list(words[1:])}

    def instructions(self, project: Path | None = None) -> Path | None:
        """Return the instructions file that the program reads when a session starts: that of `project`, or if
        `project` is None the person's own. None if it reads no such file."""
        return None if self.reads is None else (project or self.home()) / self.reads

    def handler(self, event: str, *, socket: str | None, deadline: int) -> dict[str, Any]:
        """Return the settings entry of the hook for `event`. `socket`: the daemon's socket if it is not the default.
        `deadline`: milliseconds after which the hook ends by itself."""
        text = entry.command(event, self.name, socket=socket, deadline=deadline)
        return {"type": "command", "command": text, "timeout": entry.timeout(deadline)}

    def found(self) -> str | None:
        """Return the path of the installed program, or else of its settings directory if that has files that Ormah
        did not create; None if neither exists."""
        program = shutil.which(self.program)
        if program is None and self.home().is_dir():
            ours = [*Record.all(self.name), *Record.all(owner(self.name))]
            made = {Path(one.file) for one in ours if not one.existed}
            return str(self.home()) if set(self.home().iterdir()) - made else None
        return program

    def off(self) -> str | None:
        """Return the setting by which the person disabled hooks, such as `features.hooks = false in config.toml`;
        None if there is none."""
        return None


def parse(path: Path, data: bytes) -> Document:
    """Parse the settings file at `path`, as JSON or TOML by its suffix."""
    return Toml.parse(data) if path.suffix == ".toml" else Json.parse(data)


def peek(path: Path) -> Document | None:
    """Return the parsed settings file at `path`; None if it is missing or cannot be parsed. Only for reading: before
    a file is changed, `parse` is used, which raises."""
    try:
        data = file.read(path).data
        return None if data is None else parse(path, data)
    except (OrmahError, OSError):
        return None


def settings(path: Path) -> Mapping[str, Any]:
    """Return the parsed settings file at `path`; empty if it is missing or cannot be parsed."""
    document = peek(path)
    return {} if document is None else document.value


def place(variable: str, usual: str) -> Path:
    """Return the directory that the environment variable `variable` names. If it is not set, return the directory
    `usual` in the home directory."""
    given = os.environ.get(variable)
    return paths.expand(Path(given)).absolute() if given else paths.home() / usual


class ClaudeCode(Harness):
    name = "claude-code"
    title = "Claude Code"
    program = "claude"
    events = ("SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd")
    strict = True
    reads = "CLAUDE.md"

    def home(self) -> Path:
        return place("CLAUDE_CONFIG_DIR", ".claude")

    def wanted(self) -> tuple[str, ...]:
        """Return the usual events, and `TOOL_EVENT` only if the setting `whisper.tools` is on, because then each use
        of a tool starts a process."""
        return (*self.events, TOOL_EVENT) if paths.whispers_at_tools() else self.events

    def server_file(self) -> Path:
        """Return the path of `.claude.json`. It is in `$CLAUDE_CONFIG_DIR`, or if that is not set in the home
        directory."""
        return (self.home() if os.environ.get("CLAUDE_CONFIG_DIR") else paths.home()) / ".claude.json"

    def server(self, words: Sequence[str]) -> dict[str, Any]:
        return {"type": "stdio", **super().server(words)}

    def off(self) -> str | None:
        return "disableAllHooks" if settings(self.target()).get("disableAllHooks") is True else None


class Codex(Harness):
    name = "codex"
    title = "Codex"
    program = "codex"
    servers = "mcp_servers"
    events = ("SessionStart", "UserPromptSubmit", "Stop", "PreCompact")
    strict = True
    reads = "AGENTS.md"
    after = "Codex runs new hooks once you trust them: start codex and type /hooks"

    def home(self) -> Path:
        return place("CODEX_HOME", ".codex")

    def files(self) -> tuple[Path, ...]:
        return (self.home() / "hooks.json", self.home() / "config.toml")

    def target(self) -> Path:
        """Return the file that has Ormah's hooks. If none has, return `config.toml` if only that has hooks and a new
        one can be added to it, otherwise `hooks.json`."""
        apart, config = self.files()
        hooks = {path: _events(path) for path in (apart, config)}
        for path, events in hooks.items():
            if any(entry.ours(one) for groups in events.values() for one in _handlers(groups)):
                return path
        theirs = hooks[config] and not hooks[apart]
        return config if theirs and all(_takes_tables(config, event) for event in self.events) else apart

    def server_file(self) -> Path:
        return self.files()[1]

    def instructions(self, project: Path | None = None) -> Path:
        """Return `AGENTS.override.md` if it exists, because Codex then ignores `AGENTS.md`; otherwise `AGENTS.md`."""
        usual = (project or self.home()) / self.reads
        instead = usual.with_name("AGENTS.override.md")
        return instead if instead.is_file() else usual

    def off(self) -> str | None:
        features = settings(self.files()[1]).get("features")
        for key in ("hooks", "codex_hooks"):
            if isinstance(features, Mapping) and features.get(key) is False:
                return f"features.{key} = false in config.toml"
        return None


def _events(path: Path) -> dict[str, list[Any]]:
    """Return {event: its groups of handlers} of the settings file at `path`. `hooks.state`, where Codex stores which
    hooks the person trusts, is no event."""
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
    """Whether a `[[hooks.EVENT]]` can be added to the TOML file `config`: not if `hooks`, or `event` in it, is
    written inline."""
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

    def home(self) -> Path:
        """Return the directory `.gemini`. It is in the directory `$GEMINI_CLI_HOME`, or if that is not set in the
        home directory."""
        return Path(os.environ.get("GEMINI_CLI_HOME") or paths.home()).absolute() / ".gemini"

    def instructions(self, project: Path | None = None) -> Path:
        """Return the first file that the setting `context.fileName` names. Return `GEMINI.md` if that is one of its
        names, or if it has none."""
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


class Cursor(Harness):
    """The editor Cursor. Its hook at a prompt (beforeSubmitPrompt) cannot add text to it, so Cursor gets only the MCP
    server."""

    name = "cursor"
    title = "Cursor"
    program = "cursor"
    strict = True

    def home(self) -> Path:
        return paths.home() / ".cursor"

    def files(self) -> tuple[Path, ...]:
        return (self.home() / "mcp.json",)


class OpenCode(Harness):
    name = "opencode"
    title = "OpenCode"
    program = "opencode"
    servers = "mcp"
    strict = False
    reads = "AGENTS.md"

    def home(self) -> Path:
        return config_home() / "opencode"

    def files(self) -> tuple[Path, ...]:
        return (self.home() / "opencode.json", self.home() / "opencode.jsonc", self.home() / "config.json")

    def target(self) -> Path:
        """Return the first of `files` that exists; if none does, the first."""
        return next((path for path in self.files() if path.is_file()), self.files()[0])

    def server(self, words: Sequence[str]) -> dict[str, Any]:
        return {"type": "local", "command": list(words), "enabled": True}


class ClaudeDesktop(Harness):
    name = "claude-desktop"
    title = "Claude Desktop"
    program = "claude-desktop"
    strict = True
    after = "quit Claude Desktop and start it again"

    def home(self) -> Path:
        return application("Claude")

    def files(self) -> tuple[Path, ...]:
        return (self.home() / "claude_desktop_config.json",)


class VsCode(Harness):
    name = "vscode"
    title = "VS Code"
    program = "code"
    servers = "servers"
    strict = False
    after = "VS Code asks once whether you trust the server: start it in the chat's tools"

    def home(self) -> Path:
        return application("Code") / "User"

    def files(self) -> tuple[Path, ...]:
        return (self.home() / "mcp.json",)

    def server(self, words: Sequence[str]) -> dict[str, Any]:
        return {"type": "stdio", **super().server(words)}


def config_home() -> Path:
    """Return the directory `XDG_CONFIG_HOME`, or `~/.config` if that is not set or not absolute."""
    given = os.environ.get("XDG_CONFIG_HOME", "")
    return Path(given) if os.path.isabs(given) else paths.home() / ".config"


def application(name: str) -> Path:
    """Return the directory in which the desktop program `name` keeps its settings."""
    return paths.home() / "Library" / "Application Support" / name if managers.MACOS else config_home() / name


AGENTS: Final[Mapping[str, Harness]] = {
    one.name: one for one in (ClaudeCode(), Codex(), Gemini(), Cursor(), OpenCode(), ClaudeDesktop(), VsCode())
}
