"""The ops of HEAD's history, held in memory: what is asked of all of them is answered without asking git again.

An entry holds ids and names, no text: 20,000 ops take about 10 MB and are read in half a second, once. Later only what
is new since is read (`git log OLD...HEAD`); a history that was rewritten is read anew.
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
from msgspec.structs import replace

from ormahd.git import message
from ormahd.git.process import GitFailed
from ormahd.git.repository import Git
from ormahd.model.change import Kind

UNDOES = "Ormah-Undoes"
"""The trailer that names what an op takes back whole: ops or commits."""
UNDOES_PART = "Ormah-Undoes-Part"
"""The trailer of an op that takes back a part of another: op, node id and, for one edge alone, its key."""

UNTOLD = frozenset({Kind.UNDO, Kind.SYNC, Kind.STRENGTH, Kind.FEEDBACK, Kind.PURGE, Kind.RELEASE, Kind.SPACE})
"""Kinds of ops that name memories which were there before, or came from elsewhere."""

_FORMAT = "--format=%m%x1f%H%x1f%P%x1f%ct%x1f%B"
_REVERTS = re.compile(r"This reverts commit ([0-9a-f]{40,64})")


class Part(NamedTuple):
    """What a partial undo takes back: of `op` the change to one note, or to one of its edges (`supports:1a2b3c4d`)."""

    op: str
    node_id: str
    edge: str | None = None


class Entry(NamedTuple):
    """One commit that touched the vault. `op`, `kind` and `run` are None for a commit made by hand, whose source is
    "person". `time`: seconds since 1970. `undoes`: ops and commits."""

    commit: str
    op: str | None
    time: int
    kind: str | None
    source: str
    run: str | None
    nodes: tuple[str, ...]
    undoes: tuple[str, ...]
    parts: tuple[Part, ...]
    first: bool = False
    """Whether this is the commit that goes before the op's own: it has the files as the person had them."""
    files: str | None = None
    """What the op did to files of the person: took them in again, or left them (`message.FILES`)."""
    follows: str | None = None
    """The commit made by hand that the op completes (`message.FOLLOWS`)."""

    @property
    def name(self) -> str:
        return self.op or self.commit


class View(Struct, frozen=True, dict=True):
    """The history as it was at `head`. `entries`: newest first, an op always before those it builds on."""

    head: str | None
    entries: Sequence[Entry]
    taken_back: Mapping[str, str]
    """Op or commit -> the op or commit that took it back and was not itself taken back."""
    parts: Mapping[Part, str]
    """The same for parts."""
    firsts: Mapping[str, str]
    """Commits that go before an op's own, and are no entries -> the op."""

    @functools.cached_property
    def came_by(self) -> Mapping[str, str | None]:
        """By which kind of op each memory came that an op names (None: by a commit made by hand)."""
        found: dict[str, str | None] = {}
        for entry in reversed(self.entries):
            if entry.kind not in UNTOLD:
                for node in entry.nodes:
                    found.setdefault(node, entry.kind)
        return found

    def undone_by(self, entry: Entry) -> str | None:
        by = self.taken_back.get(entry.op) if entry.op else None
        return by or self.taken_back.get(entry.commit)


class OpLog:
    """The history of one repository, as far as it touches the folder `prefix` ("" or a path with a slash at its end).
    Safe for many threads: each gets a `View` that does not change."""

    def __init__(self, git: Git, prefix: str) -> None:
        self._git = git
        self._below = ["--full-history", "--", prefix.rstrip("/")] if prefix else []
        self._lock = threading.Lock()
        self._view = View(None, (), {}, {}, {})

    def view(self) -> View:
        """The history at today's HEAD."""
        head = self._git.head()
        view = self._view
        if view.head == head:
            return view
        with self._lock:
            head = self._git.head()
            if self._view.head != head:
                self._view = _resolved(head, self._entries(self._view, head), self._view.firsts)
            return self._view

    def until(self, time: datetime) -> View:
        """The history without what came after `time`: what was taken back later stands in it."""
        view = self.view()
        return _resolved(view.head, [one for one in view.entries if one.time <= time.timestamp()], view.firsts)

    def recent(self, count: int) -> View:
        """The history, or only its newest `count` entries as long as nobody has asked for more since the start."""
        if self._view.head is not None:
            return self.view()
        head = self._git.head()
        # Twice as many are read: of those that go before others none is in the view.
        read = [] if head is None else [entry for _, entry in self._read(head, f"-{2 * count}")]
        view = _resolved(head, read, {})
        return replace(view, entries=view.entries[:count])

    def _entries(self, old: View, head: str | None) -> Sequence[Entry]:
        if head is None:
            return ()
        if old.head is not None:
            grown = self._grown(old, head)
            if grown is not None:
                return grown
        return [entry for _, entry in self._read(head, "--date-order")]

    def _grown(self, old: View, head: str) -> Sequence[Entry] | None:
        """The old entries and the new ones; None when some of the old ones are not part of the history any more."""
        fresh: list[Entry] = []
        merged = False
        try:
            for mark, entry in self._read(f"{old.head}...{head}", "--date-order"):
                if mark.startswith("<"):
                    return None
                merged = merged or mark.endswith("+")
                fresh.append(entry)
        except GitFailed:  # the old head is gone from the repository
            return None
        found = [*fresh, *old.entries]
        if not merged:
            return found
        by_commit = {entry.commit: entry for entry in found}  # two lines of history: git says how they go together
        order = self._git.run("rev-list", "--date-order", head, *self._below).decode().split()
        return [by_commit[commit] for commit in order if commit in by_commit]

    def _read(self, revision: str, *options: str) -> Iterator[tuple[str, Entry]]:
        """(`<` or `>`, with a `+` for a merge; entry)."""
        for record in self._git.log(_FORMAT, *options, revision, *self._below):
            mark, commit, parents, seconds, text = os.fsdecode(record).lstrip("\n").split("\x1f", 4)
            yield mark + ("+" if " " in parents else ""), _entry(commit, int(seconds), text)


def _entry(commit: str, seconds: int, text: str) -> Entry:
    said = message.parse(text)
    undoes = [aim for line in said.trailers.get(UNDOES, ()) for aim in re.split(r"[,\s]+", line) if aim]
    parts = [Part(*words) for line in said.trailers.get(UNDOES_PART, ()) if 2 <= len(words := line.split()) <= 3]
    return Entry(
        commit, said.trailer("Ormah-Op"), seconds, _interned(said.trailer("Ormah-Kind")),
        sys.intern(said.trailer("Ormah-Source") or "person"), _interned(said.trailer("Ormah-Run")),
        tuple(map(sys.intern, said.nodes)), (*undoes, *_REVERTS.findall(text)), tuple(parts),
        message.FIRST[1] in said.trailers.get(message.FIRST[0], ()), _interned(said.trailer(message.FILES)),
        said.trailer(message.FOLLOWS),
    )  # fmt: skip


def _interned(text: str | None) -> str | None:
    return None if text is None else sys.intern(text)


def _resolved(head: str | None, found: Sequence[Entry], firsts: Mapping[str, str]) -> View:
    """What is undone: of several undos of one thing the latest counts, and only while it is not undone itself. Undos come
    after what they undo, so that on the way back they are met first."""
    latest: dict[str | Part, tuple[str, bool]] = {}
    entries = [entry for entry in found if not entry.first]
    firsts = {**firsts, **{entry.commit: entry.op for entry in found if entry.first and entry.op}}

    def undone(entry: Entry) -> bool:
        return any(name in latest and latest[name][1] for name in (entry.op, entry.commit) if name)

    for entry in entries:
        if entry.undoes or entry.parts:
            aims: Iterable[str | Part] = (*entry.undoes, *entry.parts)
            standing = not undone(entry)
            for aim in aims:
                latest.setdefault(aim, (entry.name, standing))
    whole = {aim: by for aim, (by, standing) in latest.items() if standing and isinstance(aim, str)}
    parts = {aim: by for aim, (by, standing) in latest.items() if standing and isinstance(aim, Part)}
    return View(head, entries, whole, parts, firsts)
