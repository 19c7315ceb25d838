"""Write and read commit messages: a sentence for people, followed by trailers for programs.

Text from outside cannot forge a trailer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from ormahd.errors import BadRequest
from ormahd.model.change import Kind
from ormahd.note.forgetting import PURGED, Forgotten
from ormahd.text.quoting import shortened

MAX_SUBJECT = 200
"""The largest number of characters of a subject. Git's tools show about 70; this only shortens very long ones."""
MAX_NODES = 1000
"""The largest number of note ids in a message. An op with more (an import) has the trailer `Ormah-Node-Count` instead;
the paths in its commit show which notes they are."""
NODES_A_LINE = 16

_PREFIX = "Ormah-"
_FORGED = re.compile(rf"^(?={_PREFIX}[A-Za-z-]*\s*:)", re.IGNORECASE | re.MULTILINE)
_BREAKS = re.compile(r"\r\n?|[\v\f\x1c-\x1e\x85\u2028\u2029]")
_KEY = re.compile(r"Ormah-[A-Z][A-Za-z-]*")
_TRAILER = re.compile(r"[A-Za-z][A-Za-z0-9-]*: |\(cherry picked from commit ")
_REVERTS_LINE = re.compile(r"This reverts commit [0-9a-f]{40,64}")


class Message(Struct, frozen=True):
    """A parsed commit message. `trailers`: {key of a trailer of Ormah's: all its values, in order}."""

    subject: str
    body: str
    trailers: Mapping[str, tuple[str, ...]]

    def trailer(self, key: str) -> str | None:
        """Return the last value of the trailer `key`; None if the message has no such trailer."""
        values = self.trailers.get(key)
        return values[-1] if values else None

    @property
    def nodes(self) -> tuple[str, ...]:
        """The ids of the notes that the message names."""
        return tuple(node for line in self.trailers.get("Ormah-Nodes", ()) for node in line.split())


def one_line(text: str) -> str:
    """Return a text from outside as one line: unprintable characters, line breaks and runs of spaces become a space."""
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
    """Return a text in which no line looks like a trailer of Ormah's: such lines are indented."""
    return _FORGED.sub("  ", text)


def parse(text: str) -> Message:
    """Parse a commit message. One that Ormah did not write gets no trailers.

    Only the last paragraph can hold trailers, and only those named `Ormah-…` are returned.
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
    """Whether `text` is a part of the fixed words of Ormah's trailers, such as `Ormah-Op` or the kinds of ops.

    A commit message that contains such a text is not necessarily about a memory.
    """
    keys = "\n".join(
        ["Ormah-Op: ", "Ormah-Kind: ", "Ormah-Source: ", "Ormah-Run: ", "Ormah-Nodes: ", *Kind, "agent:", "job:"]
    )
    return text.strip() in keys


def purged(text: str, forgotten: Forgotten, *, whole: bool = False) -> str:
    """Return the commit message `text` without what it says about the purged memory `forgotten`.

    If the subject is about the memory, or with `whole`, only trailers remain. If only the body quotes the memory, the
    subject remains too. In both cases the trailers of other programs are removed, except git's `(cherry picked …)` and
    `This reverts commit …`.
    """
    message = parse(text)
    lines = text.rstrip("\n").split("\n")
    start = _trailers_from(lines)

    # Subject and body.
    words = lines[:start]
    without_subject = whole or forgotten.node_id in message.nodes or forgotten.quoted(message.subject)
    if without_body := without_subject or forgotten.quoted(text):
        words = [PURGED if without_subject else lines[0]]
        words += [f"\n{line}" for line in lines[1:start] if _REVERTS_LINE.match(line)]

    # Trailers: the memory's id is removed from those that list notes.
    trailers = []
    for line in lines[start:]:
        if without_body and not line.startswith((_PREFIX, "(")):
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


REQUEST = "Ormah-Request"
"""The trailer with the digest of the `request_id` that an op was made for."""
UNDOES = "Ormah-Undoes"
"""The trailer of an undo; its values are the ops or commits that it takes back completely."""
