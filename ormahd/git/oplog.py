"""Write and read commit messages, and hold the list of all ops in HEAD's history in memory.

A message is a sentence for people, followed by trailers for programs. Text from outside cannot forge a trailer. The
list holds ids and names of each op, and no text: about 0.5 kB. The whole log is read once, and later only new commits
(`git log OLD...HEAD`). If the history was rewritten, the whole log is read again.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct

from ormahd.errors import BadRequest
from ormahd.git.process import GitFailed
from ormahd.git.repository import Git
from ormahd.model.change import Kind
from ormahd.note.forgetting import GONE, Forgotten
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
        values = self.trailers.get(key)
        return values[-1] if values else None

    @property
    def nodes(self) -> tuple[str, ...]:
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
    """Whether `text` occurs in the fixed words of Ormah's trailers, such as `Ormah-Op` or the kinds of ops.

    A commit message that contains such a text is not necessarily about a memory.
    """
    keys = "\n".join(
        ["Ormah-Op: ", "Ormah-Kind: ", "Ormah-Source: ", "Ormah-Run: ", "Ormah-Nodes: ", *Kind, "agent:", "job:"]
    )
    return text.strip() in keys


def purged(text: str, forgotten: Forgotten, *, whole: bool = False) -> str:
    """Return a commit message without what it says about the purged memory `forgotten`.

    Nothing but trailers stays of a message whose subject is about the memory, or with `whole`; the subject stays if only
    the body quotes it. Of the trailers of other programs only git's `(cherry picked …)` and `This reverts commit …` stay
    then.
    """
    message = parse(text)
    lines = text.rstrip("\n").split("\n")
    start = _trailers_from(lines)
    words = lines[:start]
    nothing = whole or forgotten.node_id in message.nodes or forgotten.quoted(message.subject)
    if whole := nothing or forgotten.quoted(text):
        words = [GONE if nothing else lines[0]]
        words += [f"\n{line}" for line in lines[1:start] if _REVERTS_LINE.match(line)]
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


REQUEST = "Ormah-Request"
"""The trailer with the digest of the `request_id` that an op was made for."""
UNDOES = "Ormah-Undoes"
"""The trailer of an undo; its values are the ops or commits that it takes back completely."""
UNTOLD = frozenset({Kind.UNDO, Kind.SYNC, Kind.STRENGTH, Kind.FEEDBACK, Kind.PURGE, Kind.SPACE})
"""Kinds of ops that do not create the memories that they name."""

_FORMAT = "--format=%m%x1f%H%x1f%P%x1f%ct%x1f%B"
_REVERTS = re.compile(r"This reverts commit ([0-9a-f]{40,64})")


class LogEntry(NamedTuple):
    """One commit that changed the vault.

    For a commit made by hand `op`, `kind` and `run` are None, and `source` is "person". `time`: seconds since 1970.
    `undoes`: the ops and commits that it takes back.
    """

    commit: str
    op: str | None
    time: int
    kind: str | None
    source: str
    run: str | None
    nodes: tuple[str, ...]
    undoes: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.op or self.commit


class LogView(Struct, frozen=True, dict=True):
    """The commits that changed the vault, as of the commit `head`, and which of them are undone. `entries`: newest
    first; a commit always comes before its ancestors."""

    head: str | None
    entries: Sequence[LogEntry]
    taken_back: Mapping[str, str]
    """{op or commit that is undone: the commit that undid it last}."""

    @functools.cached_property
    def came_by(self) -> Mapping[str, str | None]:
        """Return `{node id: kind of the op that created the memory}`; the kind is None for a commit made by hand."""
        found: dict[str, str | None] = {}
        for entry in reversed(self.entries):
            if entry.kind not in UNTOLD:
                for node in entry.nodes:
                    found.setdefault(node, entry.kind)
        return found

    @functools.cached_property
    def filed(self) -> dict[str, frozenset[str]]:
        """Return {folder: the commits that changed a file in it}, of the folders that were asked for so far."""
        return {}

    def undone_by(self, entry: LogEntry) -> str | None:
        by = self.taken_back.get(entry.op) if entry.op else None
        return by or self.taken_back.get(entry.commit)


class OpLog:
    """Reads the commits of a repository, and keeps them in RAM.

    Thread-safe: each caller gets a `LogView` that does not change.
    """

    def __init__(self, git: Git) -> None:
        self._git = git
        self._lock = threading.Lock()
        self._view = LogView(None, (), {})

    def view(self) -> LogView:
        """Return the history as of the current HEAD."""
        head = self._git.head()
        view = self._view
        if view.head == head:
            return view
        with self._lock:
            head = self._git.head()
            if self._view.head != head:
                self._view = _resolved(head, self._entries(self._view, head))
            return self._view

    def until(self, time: datetime) -> LogView:
        """Return the history without the ops after `time`; what only those undid counts as not undone."""
        view = self.view()
        return _resolved(view.head, [one for one in view.entries if one.time <= time.timestamp()])

    def recent(self, count: int) -> LogView:
        """Return the whole history if it was read already; else only its newest entries, at most `count`."""
        if self._view.head is not None:
            return self.view()
        head = self._git.head()
        return _resolved(head, [] if head is None else [entry for _, entry in self._read(head, f"-{count}")])

    def _entries(self, old: LogView, head: str | None) -> Sequence[LogEntry]:
        if head is None:
            return ()
        if old.head is not None:
            grown = self._grown(old, head)
            if grown is not None:
                return grown
        return [entry for _, entry in self._read(head, "--date-order")]

    def _grown(self, old: LogView, head: str) -> Sequence[LogEntry] | None:
        """Return the entries of `old` and the newer ones up to `head`; None if the history of `head` lacks any of the
        old entries."""
        fresh: list[LogEntry] = []
        merged = False
        try:
            for mark, entry in self._read(f"{old.head}...{head}", "--date-order"):
                if mark.startswith("<"):
                    return None
                merged = merged or mark.endswith("+")
                fresh.append(entry)
        except GitFailed:  # the old head is not in the repository any more
            return None
        found = [*fresh, *old.entries]
        if not merged:
            return found
        by_commit = {entry.commit: entry for entry in found}  # branches were merged: take git's order
        order = self._git.run("rev-list", "--date-order", head).decode().split()
        return [by_commit[commit] for commit in order if commit in by_commit]

    def _read(self, revision: str, *options: str) -> Iterator[tuple[str, LogEntry]]:
        """Yield (mark, entry) of each commit that `git log` prints for `revision`.

        The mark is git's `%m` (`<`: only in the left side of `A...B`; else `>`), with a `+` for a merge.
        """
        for record in self._git.log(_FORMAT, *options, revision):
            mark, commit, parents, seconds, text = os.fsdecode(record).lstrip("\n").split("\x1f", 4)
            yield mark + ("+" if " " in parents else ""), _entry(commit, int(seconds), text)


def _entry(commit: str, seconds: int, text: str) -> LogEntry:
    said = parse(text)
    undoes = [aim for line in said.trailers.get(UNDOES, ()) for aim in re.split(r"[,\s]+", line) if aim]
    return LogEntry(
        commit, said.trailer("Ormah-Op"), seconds, _interned(said.trailer("Ormah-Kind")),
        sys.intern(said.trailer("Ormah-Source") or "person"), _interned(said.trailer("Ormah-Run")),
        tuple(map(sys.intern, said.nodes)), (*undoes, *_REVERTS.findall(text)),
    )  # fmt: skip


def _interned(text: str | None) -> str | None:
    return None if text is None else sys.intern(text)


def _resolved(head: str | None, entries: Sequence[LogEntry]) -> LogView:
    """Return the `LogView` at `head` of the entries (newest first), including which of them are undone.

    If several ops undo the same op or commit, the latest counts, unless it was itself undone.
    """
    latest: dict[str, tuple[str, bool]] = {}
    for entry in entries:
        standing = not any(name in latest and latest[name][1] for name in (entry.op, entry.commit) if name)
        for aim in entry.undoes:
            latest.setdefault(aim, (entry.commit, standing))
    return LogView(head, entries, {aim: by for aim, (by, standing) in latest.items() if standing})
