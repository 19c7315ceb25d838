"""What of a history has to be written anew so that a memory was never in it.

Read from a repository before anything is changed: for the dry run from the vault's own, for the rewriting from the
fresh clone that it happens in, so that both see the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from msgspec import Struct, field

from ormahd.errors import Conflict
from ormahd.git import message
from ormahd.git.history_objects import OURS, Commit, Object, Store
from ormahd.git.message import Kept
from ormahd.model.change import Kind
from ormahd.model.node import short_id
from ormahd.note.forgetting import Forgotten, link_targets
from ormahd.note.note import parse

SHOWN = "\x1e"
"""What begins a line of progress on the rewriting child's stdout, among its guest's own lines."""

_ABOUT_OTHERS = {Kind.REMEMBER, Kind.UPDATE, Kind.ADOPT, Kind.EDIT, Kind.IMPORT, Kind.INGEST}
"""Kinds of ops whose subject names the memory that they store, not those that it has links to."""

Progress = Callable[[int, int, str], None]
"""(done, total or 0, stage)."""


class Survey(Struct):
    """What was found. Paths are relative to the top of the repository, which is the vault."""

    forgotten: Forgotten
    refs: dict[str, str]
    """Those that are rewritten."""
    drop: set[str] = field(default_factory=set)
    """Blobs that are versions of the note."""
    rewrite: set[str] = field(default_factory=set)
    """Other blobs that name it."""
    messages: dict[str, Kept] = field(default_factory=dict)
    """Commits and tags whose message, or author, has to change, and what stays of it."""
    names: set[str] = field(default_factory=set)
    """Paths that hold a secret in a name."""
    own_paths: set[str] = field(default_factory=set)
    """Every path that the note had."""
    paths: set[str] = field(default_factory=set)
    """Every path whose file named it at some time, the note's own left out."""
    commits: int = 0
    changed: int = 0
    """Commits that get another id: those that are rewritten, and all that come after them."""
    unreached: int = 0
    """Blobs that name it and that no branch or tag leads to: of reflogs, of a forced push."""
    foreign: list[tuple[str, str]] = field(default_factory=list)
    """Commits that we did not make: (id, subject), newest first."""

    @property
    def in_history(self) -> bool:
        return bool(self.drop or self.rewrite or self.messages or self.names)

    @property
    def found(self) -> bool:
        return self.in_history or self.unreached > 0


def survey(store: Store, forgotten: Forgotten, taken: Callable[[str], bool], progress: Progress) -> Survey:
    """Read everything that the repository's own refs reach. `taken`: whether a name leads to another memory of today.

    Raises Conflict when another memory has the same short id: by that they could not be told apart.
    """
    out = Survey(forgotten, {name: oid for name, oid in store.refs().items() if name.startswith(OURS)})
    history = list(store.commits())  # first: of what comes meanwhile there are objects too many, not too few
    reading = _Reading(forgotten)
    for count, one in enumerate(store.objects()):
        reading.take(one)
        if count % 1000 == 0:
            progress(count, 0, "reading the history")
    out.commits = len(history)
    placed = _places(history, reading.naming)
    out.drop = {
        oid for oid, data in reading.naming.items() for path in placed.get(oid, ()) if _is(forgotten, data, path)
    }
    out.own_paths = {path for oid in out.drop for path in placed[oid]}
    out.drop |= _without_id(store, history, out.own_paths, out.drop)
    if forgotten.node_id:
        _check_short(forgotten, reading.naming, placed, out.drop)
        versions = [parse(reading.naming[oid], min(placed[oid])) for oid in sorted(out.drop & reading.naming.keys())]
        out.forgotten = forgotten = forgotten.knowing(versions, taken)
    counts = reading.counts(forgotten)
    out.rewrite = counts.keys() - out.drop
    out.unreached = len(reading.naming.keys() - placed.keys())
    counts |= dict.fromkeys(out.drop - counts.keys(), 1)
    _messages(out, reading, history, counts)
    touched = out.drop | out.rewrite
    for commit in history:
        for path, *blobs in commit.changes:
            if forgotten.secrets and forgotten.mentions(path.encode("utf-8", "surrogateescape")):
                out.names.add(path)
            if touched.intersection(blobs) and path not in out.own_paths:
                out.paths.add(path)
    out.changed = _descendants(history, out, touched)
    return out


def _is(forgotten: Forgotten, data: bytes, path: str) -> bool:
    return path[-3:].lower() == ".md" and forgotten.is_note(data, path)


class _Reading:
    """One pass over all objects: what may be of interest is kept."""

    def __init__(self, forgotten: Forgotten) -> None:
        self.forgotten = forgotten
        self.naming: dict[str, bytes] = {}
        """Blobs that name it by id, or hold a secret."""
        self.linking: dict[str, tuple[str, ...]] = {}
        """Targets of the wikilinks in other blobs: they may name it by its title, which is not known yet."""
        self.texts: dict[str, bytes] = {}
        """Commits and tags, whole."""

    def take(self, one: Object) -> None:
        if one.kind != "blob":
            self.texts[one.oid] = one.data
        elif self.forgotten.mentions(one.data):
            self.naming[one.oid] = one.data
        elif self.forgotten.node_id and b"[[" in one.data:
            self.linking[one.oid] = link_targets(one.data)

    def counts(self, forgotten: Forgotten) -> dict[str, int]:
        """How often each blob names it, now that its names are known."""
        found = {oid: forgotten.mentions(data) for oid, data in self.naming.items()}
        if forgotten.names:
            found |= {oid: sum(map(forgotten.leads, targets)) for oid, targets in self.linking.items()}
        return {oid: count for oid, count in found.items() if count}


def _places(history: Iterable[Commit], blobs: Collection[str]) -> dict[str, set[str]]:
    """The paths that blobs had."""
    found: dict[str, set[str]] = {}
    for commit in history:
        for path, _, new in commit.changes:
            if new in blobs:
                found.setdefault(new, set()).add(path)
    return found


def _without_id(store: Store, history: Iterable[Commit], paths: Collection[str], known: Collection[str]) -> set[str]:
    """Versions of the note from before it got its id, or from a moment when somebody had cut it off: whatever stood at its
    paths without an id of its own."""
    there = {new: path for commit in history for path, _, new in commit.changes if path in paths and new not in known}
    named = {oid: path for oid, path in there.items() if oid.strip("0")}
    return {
        one.oid for one in store.objects(named) if one.kind == "blob" and parse(one.data, named[one.oid]).id is None
    }


def _check_short(
    forgotten: Forgotten, naming: Mapping[str, bytes], placed: Mapping[str, set[str]], drop: Collection[str]
) -> None:
    for oid, data in naming.items():
        for path in placed.get(oid, ()) if oid not in drop else ():
            other = parse(data, path).id if path[-3:].lower() == ".md" else None
            if other and other != forgotten.node_id and short_id(other) == forgotten.short:
                raise Conflict(
                    f"{path} is, or was, a memory with the same first 8 characters of its id ({other})",
                    hint="the two cannot be told apart in file names and links; change that one's id first",
                )


def _messages(out: Survey, reading: _Reading, history: Iterable[Commit], counts: Mapping[str, int]) -> None:
    """Which messages are about it: those that have its id among their nodes, that changed it, or that quote it; and
    which are about another memory that came to have a link to it, or lost one."""
    forgotten = out.forgotten
    for commit in history:
        data = reading.texts[commit.oid]
        said = message.parse(body_of(data))
        if said.trailer("Ormah-Op") is None:
            out.foreign.append((commit.oid, said.subject))
        kept = _kept(out, commit, said, body_of(data), counts)
        if kept is not Kept.ALL or forgotten.mentions(data):
            out.messages[commit.oid] = kept
    commits = {commit.oid for commit in history}
    for oid, data in reading.texts.items():
        if oid not in commits and data.startswith(b"object "):
            quoted = forgotten.quoted(body_of(data))
            if quoted or forgotten.mentions(data):
                out.messages[oid] = Kept.NOTHING if quoted else Kept.ALL


def _kept(out: Survey, commit: Commit, said: message.Message, text: str, counts: Mapping[str, int]) -> Kept:
    forgotten = out.forgotten
    if forgotten.node_id is None or said.trailer("Ormah-Kind") == Kind.PURGE:
        return Kept.ALL
    if forgotten.node_id in said.nodes or forgotten.quoted(said.subject):
        return Kept.NOTHING
    several = "Ormah-Node-Count" in said.trailers or len(commit.parents) > 1
    own = not several and any(out.drop.intersection(blobs) for _, *blobs in commit.changes)
    moved = not several and any(counts.get(old, 0) != counts.get(new, 0) for _, old, new in commit.changes)
    if own or (moved and said.trailer("Ormah-Kind") not in _ABOUT_OTHERS):
        return Kept.NOTHING
    return Kept.SUBJECT if moved or forgotten.quoted(text) else Kept.ALL


def body_of(data: bytes) -> str:
    """The message in the bytes of a commit or tag."""
    return data.partition(b"\n\n")[2].decode("utf-8", "surrogateescape")


def _descendants(history: Collection[Commit], out: Survey, touched: Collection[str]) -> int:
    """How many commits get another id."""
    changed: set[str] = set()
    for commit in reversed(list(history)):
        own = commit.oid in out.messages or any(new in touched or path in out.names for path, _, new in commit.changes)
        if own or changed.intersection(commit.parents):
            changed.add(commit.oid)
    return len(changed)


def leaks(store: Store, forgotten: Forgotten, progress: Progress) -> tuple[list[str], list[str]]:
    """What of it is left in any object, reachable or not: (objects that name it, blobs that hold one of its lines)."""
    naming: list[str] = []
    echoing: list[str] = []
    for count, one in enumerate(store.objects(trees=True)):
        if forgotten.mentions(one.data):
            naming.append(f"{one.kind} {one.oid}")
        elif one.kind == "blob" and forgotten.echoes(one.data):
            echoing.append(one.oid)
        if count % 2000 == 0:
            progress(count, 0, "checking every object")
    return naming, echoing
