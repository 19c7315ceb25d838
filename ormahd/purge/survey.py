"""Search a whole repository for a memory, or an exact text: which blobs and commit messages a purge has to change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from msgspec import Struct, field

from ormahd.errors import Conflict
from ormahd.git import oplog
from ormahd.git.history import Commit, Store
from ormahd.git.oplog import Kept
from ormahd.model.change import Kind
from ormahd.model.node import short_id
from ormahd.note.forgetting import Forgotten, link_targets
from ormahd.note.read import parse

_ABOUT_OTHERS = {Kind.REMEMBER, Kind.UPDATE, Kind.EDIT, Kind.IMPORT, Kind.INGEST}
"""Kinds of ops whose subject names the memory that they store, not the memories that it links to."""

Progress = Callable[[int, int, str], None]
"""Called with (done, total or 0 when unknown, stage)."""


class PurgeSurvey(Struct):
    """What a purge has to change in a repository."""

    forgotten: Forgotten
    """The memory with all names that it ever had."""
    drop: set[str] = field(default_factory=set)
    """Ids of the blobs that are versions of the memory's note. They are removed."""
    rewrite: set[str] = field(default_factory=set)
    """Ids of other blobs that mention the memory. They are rewritten."""
    messages: dict[str, Kept] = field(default_factory=dict)
    """`{id of a commit or tag: what remains of its message}` for those whose message or author must change."""
    names: set[str] = field(default_factory=set)
    """Paths with a secret in their name."""
    own_paths: set[str] = field(default_factory=set)
    """All paths that the note ever had."""
    paths: set[str] = field(default_factory=set)
    """All other paths whose file ever mentioned the memory."""
    commits: int = 0
    changed: int = 0
    """Number of commits that get another id: the rewritten ones and their descendants."""
    unreached: int = 0
    """Number of blobs that mention the memory and belong to no branch or tag, such as those of a reflog."""

    @property
    def in_history(self) -> bool:
        return bool(self.drop or self.rewrite or self.messages or self.names)

    @property
    def found(self) -> bool:
        return self.in_history or self.unreached > 0


def survey(store: Store, forgotten: Forgotten, taken: Callable[[str], bool], progress: Progress) -> PurgeSurvey:
    """Return what a purge has to change in the repository `store`. `taken`: tells whether a name (such as a title) now
    leads to another memory.

    Raises:
        Conflict: another memory has the same short id, so that links to the two could not be told apart.
    """
    # One pass over all objects. Blobs with wikilinks are kept, because they may refer to the memory by a title, and its
    # titles are known only once all versions of its note were read.
    history = list(store.commits())
    naming: dict[str, bytes] = {}
    linking: dict[str, tuple[str, ...]] = {}
    texts: dict[str, bytes] = {}
    for count, one in enumerate(store.objects()):
        if one.kind != "blob":
            texts[one.oid] = one.data
        elif forgotten.mentions(one.data):
            naming[one.oid] = one.data
        elif forgotten.node_id and b"[[" in one.data:
            linking[one.oid] = link_targets(one.data)
        if count % 1000 == 0:
            progress(count, 0, "reading the history")

    placed: dict[str, set[str]] = {}
    for commit in history:
        for path, _, new in commit.changes:
            if new in naming:
                placed.setdefault(new, set()).add(path)
    drop = {oid for oid, data in naming.items() for path in placed.get(oid, ()) if _is_note(forgotten, data, path)}
    own_paths = {path for oid in drop for path in placed[oid]}
    drop |= _without_id(store, history, own_paths, drop)
    if forgotten.node_id:
        _check_short(forgotten, naming, placed, drop)
        versions = [parse(naming[oid], min(placed[oid])) for oid in sorted(drop & naming.keys())]
        forgotten = forgotten.knowing(versions, taken)

    mentions = {oid: forgotten.mentions(data) for oid, data in naming.items()}
    if forgotten.names:
        mentions |= {oid: sum(map(forgotten.leads, targets)) for oid, targets in linking.items()}
    mentions = {oid: count for oid, count in mentions.items() if count}
    found = PurgeSurvey(
        forgotten,
        drop=drop,
        rewrite=mentions.keys() - drop,
        own_paths=own_paths,
        commits=len(history),
        unreached=len(naming.keys() - placed.keys()),
    )
    found.messages = _messages(found, texts, history, mentions | dict.fromkeys(drop - mentions.keys(), 1))

    # A commit gets another id if it changes itself or has such a parent; `history` has children before parents.
    touched = found.drop | found.rewrite
    renamed: set[str] = set()
    for commit in reversed(history):
        for path, *blobs in commit.changes:
            if forgotten.secrets and forgotten.mentions(path.encode("utf-8", "surrogateescape")):
                found.names.add(path)
            if touched.intersection(blobs) and path not in own_paths:
                found.paths.add(path)
        own = any(new in touched or path in found.names for path, _, new in commit.changes)
        if own or commit.oid in found.messages or renamed.intersection(commit.parents):
            renamed.add(commit.oid)
    found.changed = len(renamed)
    return found


def _is_note(forgotten: Forgotten, data: bytes, path: str) -> bool:
    return path[-3:].lower() == ".md" and forgotten.is_note(data, path)


def _without_id(store: Store, history: Iterable[Commit], paths: Collection[str], known: Collection[str]) -> set[str]:
    """Return the blob ids of versions of the note without an id, as a person may have committed them: all blobs without
    an id at the note's `paths`. `known`: ids of versions that were found already."""
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


def _messages(
    found: PurgeSurvey, texts: Mapping[str, bytes], history: Iterable[Commit], mentions: Mapping[str, int]
) -> dict[str, Kept]:
    """Return the commits and tags whose message must change, with what remains of it.

    That of a commit changes if it names the memory's id, changed its note or quotes it, or if the commit added or
    removed a reference to it in another note. `texts`: `{id: content}` of commits and tags. `mentions`: `{blob id:
    number of mentions of the memory}`.
    """
    forgotten = found.forgotten
    changed: dict[str, Kept] = {}
    commits = set()
    for commit in history:
        commits.add(commit.oid)
        data = texts[commit.oid]
        text = body_of(data)
        kept = _kept(found, commit, oplog.parse(text), text, mentions)
        if kept is not Kept.ALL or forgotten.mentions(data):
            changed[commit.oid] = kept
    for oid, data in texts.items():
        if oid not in commits and data.startswith(b"object "):
            quoted = forgotten.quoted(body_of(data))
            if quoted or forgotten.mentions(data):
                changed[oid] = Kept.NOTHING if quoted else Kept.ALL
    return changed


def _kept(found: PurgeSurvey, commit: Commit, message: oplog.Message, text: str, mentions: Mapping[str, int]) -> Kept:
    forgotten = found.forgotten
    if forgotten.node_id is None or message.trailer("Ormah-Kind") == Kind.PURGE:
        return Kept.ALL
    if forgotten.node_id in message.nodes or forgotten.quoted(message.subject):
        return Kept.NOTHING
    several = "Ormah-Node-Count" in message.trailers or len(commit.parents) > 1
    own = not several and any(found.drop.intersection(blobs) for _, *blobs in commit.changes)
    moved = not several and any(mentions.get(old, 0) != mentions.get(new, 0) for _, old, new in commit.changes)
    if own or (moved and message.trailer("Ormah-Kind") not in _ABOUT_OTHERS):
        return Kept.NOTHING
    return Kept.SUBJECT if moved or forgotten.quoted(text) else Kept.ALL


def body_of(data: bytes) -> str:
    """Return the message from the bytes of a commit or tag."""
    return data.partition(b"\n\n")[2].decode("utf-8", "surrogateescape")
