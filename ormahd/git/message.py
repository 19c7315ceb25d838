"""Write and read commit messages: sentences for people, trailers for programs. Outside text cannot forge a trailer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from ormahd.errors import BadRequest
from ormahd.model.change import Kind
from ormahd.note.forgetting import GONE, Forgotten
from ormahd.text.quoting import shortened

MAX_SUBJECT = 200
"""Characters of a subject; only a bound on very long ones, since git's tools cut at about 70 for display."""
MAX_NODES = 1000
"""The number of note ids that are listed. A larger op (an import) has `Ormah-Node-Count` instead; its paths name the
notes."""
NODES_A_LINE = 16

FIRST = ("Ormah-Part", "first")
"""The trailer of a commit that precedes the op's main commit: it has the same op id, and records the person's files
as they were."""

FILES, TAKEN, LEFT = "Ormah-Files", "taken in", "left"
"""The trailer of an op that took in files of the person, or left them as they were; and its two values."""

FOLLOWS = "Ormah-Follows"
"""The trailer of an op that completes a commit made by hand; its value is that commit."""

_PREFIX = "Ormah-"
_FORGED = re.compile(rf"^(?={_PREFIX}[A-Za-z-]*\s*:)", re.IGNORECASE | re.MULTILINE)
_BREAKS = re.compile(r"\r\n?|[\v\f\x1c-\x1e\x85\u2028\u2029]")
_KEY = re.compile(r"Ormah-[A-Z][A-Za-z-]*")
_TRAILER = re.compile(r"[A-Za-z][A-Za-z0-9-]*: |\(cherry picked from commit ")
_REVERTS = re.compile(r"This reverts commit [0-9a-f]{40,64}")


class Message(Struct, frozen=True):
    """A parsed commit message. `trailers`: {key: all its values, in order}."""

    subject: str
    body: str
    trailers: Mapping[str, tuple[str, ...]]

    def trailer(self, key: str) -> str | None:
        values = self.trailers.get(key)
        return values[-1] if values else None

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(node for line in self.trailers.get("Ormah-Nodes", ()) for node in line.split())


def one_line(text: str) -> str:
    """Return outside text as one line: line breaks and unprintable characters become spaces."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def compose(
    subject: str,
    body: str,
    *,
    op: str,
    kind: Kind,
    source: str,
    run: str | None = None,
    nodes: Sequence[str] = (),
    trailers: Iterable[tuple[str, str]] = (),
) -> str:
    """Return the message of an op, ending in a newline. `trailers` are further `Ormah-…` lines."""
    head = one_line(subject) or str(kind)
    head = shortened(head, MAX_SUBJECT)
    lines = [("Ormah-Op", op), ("Ormah-Kind", str(kind)), ("Ormah-Source", one_line(source))]
    if run is not None:
        lines.append(("Ormah-Run", one_line(run)))
    unique = list(dict.fromkeys(nodes))
    if len(unique) > MAX_NODES:
        lines.append(("Ormah-Node-Count", str(len(unique))))
    else:
        lines += [
            ("Ormah-Nodes", " ".join(unique[at : at + NODES_A_LINE])) for at in range(0, len(unique), NODES_A_LINE)
        ]
    for key, value in trailers:
        if not _KEY.fullmatch(key):
            raise BadRequest(f"{key!r} is no trailer of ours", hint="trailers are named Ormah-Something")
        lines.append((key, one_line(value)))
    parts = [_guard(head)]
    text = _guard(_BREAKS.sub("\n", body.replace("\x00", " "))).strip("\n").rstrip()
    if text.strip():
        parts.append(text)
    parts.append("\n".join(f"{key}: {value}" for key, value in lines))
    return "\n\n".join(parts) + "\n"


def _guard(text: str) -> str:
    return _FORGED.sub("  ", text)


def parse(text: str) -> Message:
    """Parse a message; one that Ormah did not write has no trailers.

    Only the last paragraph can hold trailers. Other trailers in it (`Signed-off-by`, `cherry picked from`) are
    skipped.
    """
    lines = text.rstrip("\n").split("\n")
    start = _trailers_from(lines)
    trailers: dict[str, tuple[str, ...]] = {}
    for line in lines[start:]:
        key, _, value = line.partition(": ")
        if _KEY.fullmatch(key):
            trailers[key] = (*trailers.get(key, ()), value.strip())
    if not trailers:
        start = len(lines)
    return Message(lines[0] if lines else "", "\n".join(lines[1:start]).strip("\n"), trailers)


def _trailers_from(lines: Sequence[str]) -> int:
    """Return the index of the first trailer line, or the number of lines if there are no trailers."""
    start = max((at + 1 for at, line in enumerate(lines) if not line.strip()), default=0)
    return start if start > 1 and all(_TRAILER.match(line) for line in lines[start:]) else len(lines)


def is_structure(text: str) -> bool:
    """Whether a text is part of the fixed words in every op's trailers: its presence then does not mean that a
    memory is mentioned."""
    keys = "\n".join(
        ["Ormah-Op: ", "Ormah-Kind: ", "Ormah-Source: ", "Ormah-Run: ", "Ormah-Nodes: ", *Kind, "agent:", "job:"]
    )
    return text.strip() in keys


class Kept(StrEnum):
    """How much of a commit message stays when a memory is purged. Words that identify the memory are removed in any
    case."""

    ALL = "all"
    SUBJECT = "subject"
    """For an op about another memory, whose body mentions a link to the purged one."""
    NOTHING = "nothing"
    """For an op about the purged memory."""


def purged(text: str, forgotten: Forgotten, kept: Kept) -> str:
    """Return a message without the words of a purged memory.

    Git's line `This reverts commit …` stays. Where words are removed, only Ormah's trailers and `(cherry picked …)`
    stay.
    """
    lines = text.rstrip("\n").split("\n")
    start = _trailers_from(lines)
    whole = kept is not Kept.ALL
    words = lines[:start]
    if whole:
        words = [lines[0] if kept is Kept.SUBJECT else GONE]
        words += [f"\n{line}" for line in lines[1:start] if _REVERTS.match(line)]
    trailers = []
    for line in lines[start:]:
        if whole and not line.startswith((_PREFIX, "(")):
            continue
        if line.startswith("Ormah-Nodes: "):
            line = " ".join(word for word in line.split(" ") if word != forgotten.node_id)
            if line == "Ormah-Nodes:":
                continue
        elif line.startswith(_PREFIX) and forgotten.node_id and forgotten.mentions(line.encode("utf-8", "replace")):
            continue  # for example the trailer of a partial undo
        trailers.append(line)
    if words and words[-1] and trailers:
        words.append("")
    return forgotten.text("\n".join([*words, *trailers])) + "\n"
