"""The commands in the pages of the documentation: how they are read, and how printed output is compared with a page's.

A page's fences say what becomes of them:

- `sh`: each command is run, in order, and has to end with 0.
- `console`: commands stand behind `$ `, or `NAME$ ` where the page has several machines. What follows is what they print. A
  command that ends with another status says so: `# exit status 4`.
- `sh no-run REASON` and `console no-run REASON`: what cannot run in a test.
- anything else (`text`, `json`, `toml`, ...) holds no commands.

A comment `<!-- run` holds a block of the same kind that readers do not see: what the page takes for granted. The commands of
`<!-- run before the daemon` are run while no daemon runs yet.

In printed output `…` stands for any text, and a line of it for any number of lines. Ids, dates, times, sizes and decimal numbers differ
from run to run: an id stands for the same one on the whole page, every other number for any number of its form.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import click

from ormahctl.registry import cli

_FENCE: Final = re.compile(r"^(?P<mark>```+)(?P<info>[^\n]*)\n(?P<body>.*?)^(?P=mark) *$", re.MULTILINE | re.DOTALL)
_HIDDEN: Final = re.compile(r"^<!-- run(?P<early> before the daemon)? *\n(?P<body>.*?)^-->$", re.MULTILINE | re.DOTALL)
_PROMPT: Final = re.compile(r"(?P<machine>[a-z]*)\$ (?P<command>.*)")
_STATUS: Final = re.compile(r"# exit status (\d+)$")


@dataclass(frozen=True)
class Command:
    """One command of a page: what is typed, at which machine, what it has to print (None: anything) and its exit status."""

    line: int
    text: str
    machine: str = ""
    output: list[str] | None = None
    status: int = 0
    early: bool = False


@dataclass(frozen=True)
class Block:
    """A fence of a page. `reason` says why its commands are not run; None: they are."""

    line: int
    kind: str
    body: str
    reason: str | None
    commands: list[Command] = field(default_factory=list)


def blocks(page: Path) -> list[Block]:
    """Return the fences and hidden blocks of a page, in its order."""
    text = page.read_text("utf-8")
    found = []
    for match in sorted([*_FENCE.finditer(text), *_HIDDEN.finditer(text)], key=re.Match.start):
        line = text.count("\n", 0, match.start()) + 2
        body = match["body"]
        if "info" in match.groupdict():
            kind, _, more = match["info"].strip().partition(" ")
            word, _, reason = more.strip().partition(" ")
            reason = reason.strip() if word == "no-run" else None
        else:
            kind, reason = ("console" if _PROMPT.match(body) else "sh"), None
        commands = list(_console(body, line) if kind == "console" else _shell(body, line) if kind == "sh" else ())
        if "early" in match.groupdict() and match["early"]:
            commands = [replace(command, early=True) for command in commands]
        found.append(Block(line, kind, body, reason, commands))
    return found


def _shell(body: str, line: int) -> Iterator[Command]:
    """Yield the commands of a block without output: a line each, or several where a backslash or a quote goes on."""
    kept = ""
    for number, text in enumerate(body.splitlines(), line):
        kept = f"{kept}\n{text}" if kept else text
        if _goes_on(kept):
            continue
        if kept.strip() and not kept.lstrip().startswith("#"):
            yield Command(number, kept, status=_status(kept))
        kept = ""
    assert not kept, f"line {line}: a command has no end: {kept}"


def _console(body: str, line: int) -> Iterator[Command]:
    """Yield the commands of a transcript with what each prints."""
    machine, command, output, begun = "", "", [], 0
    for number, text in enumerate(body.splitlines(), line):
        match = _PROMPT.match(text)
        if match is None and _goes_on(command) and not output:
            command += f"\n{text}"
        elif match is None:
            assert command, f"line {number}: output without a command: {text}"
            output.append(text)
        else:
            if command:
                yield Command(begun, command, machine, _trimmed(output), _status(command))
            machine, command, output, begun = match["machine"], match["command"], [], number
    if command:
        yield Command(begun, command, machine, _trimmed(output), _status(command))


def _goes_on(command: str) -> bool:
    """Say whether the next line belongs to this command."""
    if command.endswith("\\"):
        return True
    here = re.search(r"<<'?(\w+)'?", command)
    if here is not None:
        return f"\n{here[1]}" not in command
    bare = re.sub(r"\\.|#[^\n]*$", "", command)
    bare = re.sub(r"\"[^\"]*\"|'[^']*'", "", bare)
    return '"' in bare or "'" in bare


def _status(command: str) -> int:
    found = _STATUS.search(command)
    return int(found[1]) if found else 0


def _trimmed(output: list[str]) -> list[str]:
    while output and not output[-1].strip():
        output = output[:-1]
    return output


# ---------------------------------------------------------------- what differs from run to run

_ID: Final = re.compile(
    r"(?<![\w])(?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{40}|01[0-9a-z]{24}"
    r"|(?=[a-f]*\d)[0-9a-f]{7,8})(?![\w-])|(?<=_)[0-9a-f]{8}(?=\.md|\b)|(?<=event )[a-z0-9]{12}\b|(?<=ormah:whisper )[a-z0-9]{12}\b|(?<=the whisper )[a-z0-9]{12}\b"
)
_FORMS: Final = [
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z?"), r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z?"),
    (re.compile(r"\b\d{4}-\d\d(?:-\d\d)?\b"), r"\d{4}-\d\d(?:-\d\d)?"),
    (re.compile(r"\b\d{1,2} [A-Z][a-z]{2} \d{4}\b"), r"\d{1,2} [A-Z][a-z]{2} \d{4}"),
    (re.compile(r"\b\d\d:\d\d\b"), r"\d\d:\d\d"),
    (re.compile(r"\b\d+(?:\.\d+)? (?:kB|MB|GB|B|ms|s)\b"), r"\d+(?:\.\d+)? (?:kB|MB|GB|B|ms|s)"),
    (re.compile(r"(?<![\w.])-?\d+\.\d+\b(?!\.)"), r"-?\d+(?:\.\d+)?"),
    (re.compile(r"\bpid \d+"), r"pid \d+"),
    (re.compile(r" *… *"), r".*?"),
    (re.compile(r" +"), r" +"),
]


class Ids:
    """What the ids of a page are called in this run."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}

    def typed(self, command: str) -> str:
        """Return the command with this run's ids, also where the page has the beginning of one, from four characters."""

        def ours(match: re.Match[str]) -> str:
            word = match[0]
            for written, real in self.known.items():
                if written.startswith(word):
                    return real[: len(word)] if len(word) >= 8 else real[:8]
            return word

        return re.sub(r"(?<![\w])[0-9a-z]{4,}(?:-[0-9a-f]+)*(?![\w])", ours, command) if self.known else command

    def differ(self, expected: list[str], printed: str) -> str | None:
        """Compare printed output with a page's and learn its ids. Return what is wrong; None: nothing."""
        pattern, names = self._pattern(expected)
        match = re.fullmatch(pattern, _normal(printed))
        if match is None:
            return "the page has\n" + "\n".join(expected) + "\nand this was printed\n" + printed
        for group, written in names.items():
            self._learn(written, match[group])
        return None

    def _learn(self, written: str, real: str) -> None:
        self.known[written] = real
        if len(written) > 8:  # of a UUID, a commit or an op the short form is known too
            self.known.setdefault(written[:8], real[:8])

    def _pattern(self, expected: list[str]) -> tuple[str, Mapping[str, str]]:
        names: dict[str, str] = {}
        lines = []
        for line in expected:
            if line.strip() == "…":
                lines.append(r"(?:[^\n]*\n)*?")
            else:
                lines.append(self._line(line.strip(), names) + r" *\n")
        return "".join(lines), names

    def _line(self, line: str, names: dict[str, str]) -> str:
        pattern, at = "", 0
        for match in _ID.finditer(line):
            pattern += _form(line[at : match.start()]) + self._id(match[0], names)
            at = match.end()
        return pattern + _form(line[at:])

    def _id(self, written: str, names: dict[str, str]) -> str:
        known = self.known.get(written) or next((b for a, b in self.known.items() if a[:8] == written), None)
        if known is not None:
            return re.escape(known)
        for group, other in names.items():
            if other == written:
                return f"(?P={group})"
            if other[:8] == written:
                return r"[0-9a-z]{8}"
        group = f"id{len(names)}"
        names[group] = written
        if "-" in written:
            return rf"(?P<{group}>[0-9a-f-]{{36}})"
        return rf"(?P<{group}>[0-9a-z]{{{len(written)}}})"


def _form(text: str) -> str:
    """Return a pattern for text between ids."""
    at, pattern = 0, ""
    while at < len(text):
        for form, general in _FORMS:
            match = form.match(text, at)
            if match is not None and match.end() > at:
                pattern += general
                at = match.end()
                break
        else:
            pattern += re.escape(text[at])
            at += 1
    return pattern


def _normal(printed: str) -> str:
    """Lines without white space around them, and without empty lines at the end."""
    lines = [line.strip() for line in printed.split("\n")]
    return "\n".join(_trimmed(lines)) + "\n" if any(lines) else ""


# ---------------------------------------------------------------- what is not run


def fault(span: str) -> str | None:
    """Return what is wrong with a command line as prose quotes it, with placeholders such as ID; None: nothing."""
    words = shlex.split(span.replace("…", ""), comments=True)[1:]
    command: click.Command = cli
    context = click.Context(cli)
    for word in words:
        if word.startswith("["):
            continue  # what may be left out, as usage lines have it
        if word.startswith("-") and not re.fullmatch(r"[-+]?\d.*|-", word):
            known = {
                name
                for one in (cli, command)
                for option in one.params
                for name in [*option.opts, *option.secondary_opts]
            }
            if word.partition("=")[0] not in known | {"-h", "--help"}:
                return f"there is no option {word}"
        elif isinstance(command, click.Group):
            found = command.get_command(context, word)
            if found is None:
                if word.isupper():
                    return None  # `ormahctl COMMAND`
                return f"there is no command {word}"
            command = found
    return None
