"""Plan a purge, and rewrite the history by the plan in a child process.

The plan lists the blobs and messages to change. It is made by reading a repository: the vault's own for a dry run, and
the fresh clone for the rewriting, so that both use the same rules.

`python -m ormahd.purge.plan PLAN`, run in the fresh clone, rewrites the history by the plan and decides nothing.
git-filter-repo keeps state in its module, uses the current directory and exits on errors, so it cannot run in the
daemon.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import git_filter_repo as fr
from msgspec import Struct, field

from ormahd.errors import Conflict
from ormahd.git import oplog
from ormahd.git.history import OURS, Commit, Object, Store
from ormahd.git.oplog import Kept
from ormahd.model.change import Kind
from ormahd.model.node import short_id
from ormahd.note.forgetting import GONE, Forgotten, link_targets
from ormahd.note.read import parse

SHOWN = "\x1e"
"""Prefix of progress lines on the child's stdout, which distinguishes them from git-filter-repo's own output."""

_ABOUT_OTHERS = {Kind.REMEMBER, Kind.UPDATE, Kind.ADOPT, Kind.EDIT, Kind.IMPORT, Kind.INGEST}
"""Kinds of ops whose subject names the memory that they store, not the memories that it links to."""

Progress = Callable[[int, int, str], None]
"""Called with (done, total or 0 when unknown, stage)."""


class PurgeSurvey(Struct):
    """What a search of the whole repository for a memory found, and so what a purge must change. Paths are relative
    to the top of the repository, which is also the vault's folder."""

    forgotten: Forgotten
    refs: dict[str, str]
    """`{ref: object id}` of the refs that are rewritten."""
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
    """Number of blobs that mention the memory and belong to no branch or tag. They come from reflogs or a forced
    push, for example."""
    foreign: list[tuple[str, str]] = field(default_factory=list)
    """Commits that Ormah did not make: (id, subject), newest first."""

    @property
    def in_history(self) -> bool:
        return bool(self.drop or self.rewrite or self.messages or self.names)

    @property
    def found(self) -> bool:
        return self.in_history or self.unreached > 0


def survey(store: Store, forgotten: Forgotten, taken: Callable[[str], bool], progress: Progress) -> PurgeSurvey:
    """Search the whole repository for a memory. `taken`: tells whether a name (such as a title) now leads to another
    memory.

    Raises Conflict when another memory has the same short id, because the two could not be told apart.
    """
    out = PurgeSurvey(forgotten, {name: oid for name, oid in store.refs().items() if name.startswith(OURS)})
    history = list(store.commits())  # commits are listed first: objects added meanwhile do no harm
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
    """Receives each object of the repository once (`take`), and keeps the content of those that may mention the
    memory."""

    def __init__(self, forgotten: Forgotten) -> None:
        self.forgotten = forgotten
        self.naming: dict[str, bytes] = {}
        """`{blob id: content}` of blobs that contain the memory's id, or a secret."""
        self.linking: dict[str, tuple[str, ...]] = {}
        """`{blob id: wikilink targets}` of other blobs that contain wikilinks. They may refer to the memory by a
        title, and its titles are only known once all versions of its note were read."""
        self.texts: dict[str, bytes] = {}
        """`{id: content}` of commits and tags."""

    def take(self, one: Object) -> None:
        if one.kind != "blob":
            self.texts[one.oid] = one.data
        elif self.forgotten.mentions(one.data):
            self.naming[one.oid] = one.data
        elif self.forgotten.node_id and b"[[" in one.data:
            self.linking[one.oid] = link_targets(one.data)

    def counts(self, forgotten: Forgotten) -> dict[str, int]:
        """Return `{blob id: number of mentions of the memory}` for blobs with at least one. `forgotten`: the memory
        with all names that it had, which are known only after all objects were read."""
        found = {oid: forgotten.mentions(data) for oid, data in self.naming.items()}
        if forgotten.names:
            found |= {oid: sum(map(forgotten.leads, targets)) for oid, targets in self.linking.items()}
        return {oid: count for oid, count in found.items() if count}


def _places(history: Iterable[Commit], blobs: Collection[str]) -> dict[str, set[str]]:
    """Return `{blob id: paths at which the blob was}` for these `blobs`."""
    found: dict[str, set[str]] = {}
    for commit in history:
        for path, _, new in commit.changes:
            if new in blobs:
                found.setdefault(new, set()).add(path)
    return found


def _without_id(store: Store, history: Iterable[Commit], paths: Collection[str], known: Collection[str]) -> set[str]:
    """Return the blob ids of versions of the note that have no id: from before its adoption, or from when a person
    had removed the id. These are all blobs without an id at the note's `paths`. `known`: ids of versions that were
    found already."""
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


def _messages(out: PurgeSurvey, reading: _Reading, history: Iterable[Commit], counts: Mapping[str, int]) -> None:
    """Record in `out` the commits and tags whose message must change, and the commits that Ormah did not make.

    The message changes of commits that name the memory's id, changed its note or quote it; and of commits on another
    memory that added or removed a reference to this one. `counts`: `{blob id: number of mentions of the memory}`.
    """
    forgotten = out.forgotten
    for commit in history:
        data = reading.texts[commit.oid]
        said = oplog.parse(body_of(data))
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


def _kept(out: PurgeSurvey, commit: Commit, said: oplog.Message, text: str, counts: Mapping[str, int]) -> Kept:
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
    """Return the message from the bytes of a commit or tag."""
    return data.partition(b"\n\n")[2].decode("utf-8", "surrogateescape")


def _descendants(history: Collection[Commit], out: PurgeSurvey, touched: Collection[str]) -> int:
    """Return the number of commits that get another id: those that are rewritten, and all their descendants.
    `touched`: ids of the blobs that are removed or rewritten."""
    changed: set[str] = set()
    for commit in reversed(list(history)):
        own = commit.oid in out.messages or any(new in touched or path in out.names for path, _, new in commit.changes)
        if own or changed.intersection(commit.parents):
            changed.add(commit.oid)
    return len(changed)


def leaks(store: Store, forgotten: Forgotten, progress: Progress) -> tuple[list[str], list[str]]:
    """Search all objects, reachable or not, for remains of the memory. Return (names of objects that mention it, ids
    of blobs that contain one of its lines)."""
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


_COMMIT_ID = re.compile(rb"(?<![0-9a-z])([0-9a-f]{40}(?:[0-9a-f]{24})?)(?![0-9a-z])")
"""Matches whole commit ids only. git-filter-repo's own pattern would take eight hex digits of a node id for an
abbreviated commit id."""
EVERY = 200
"""Number of commits between two lines of progress."""


class Rewriter:
    """Changes each file, commit and tag as one plan says. git-filter-repo calls its methods."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        self.forgotten = Forgotten.of(plan["forgotten"])
        self.drop = _ids(plan["drop"])
        self.rewrite = _ids(plan["rewrite"])
        self.messages = {oid.encode(): oplog.Kept(kept) for oid, kept in plan["messages"].items()}
        self.names = {name.encode("utf-8", "surrogateescape") for name in plan["names"]}
        self.done: dict[tuple[bytes, bytes], Any] = {}
        self.count = 0

    def file(self, name: bytes, mode: bytes, blob: bytes, value: Any) -> tuple[bytes, bytes | None, Any]:
        """Return (name, mode, blob) for one file of one commit: unchanged, rewritten, or removed (mode None).
        `value`: the object by which git-filter-repo lets the blob be read and a new one be stored."""
        if blob in self.drop:
            return name, None, blob
        path = name.decode("utf-8", "surrogateescape")
        if blob in self.rewrite:
            kind = path.rpartition("/")[2].rpartition(".")[2], path.startswith(".ormah/")
            key = blob, repr(kind).encode()
            if key not in self.done:
                data = value.get_contents_by_identifier(blob)
                self.done[key] = value.insert_file_with_contents(self.forgotten.without(path, data))
            blob = self.done[key]
        return self._named(name), mode, blob

    def _named(self, name: bytes) -> bytes:
        """Return a file's path with every secret in it replaced. A hash of the old path makes the new one different
        from all others."""
        if name not in self.names:
            return name
        left = self.forgotten.text(name.decode("utf-8", "surrogateescape"))
        return left.replace(GONE, f"purged-{sha256(name).hexdigest()[:8]}").encode("utf-8", "surrogateescape")

    def commit(self, commit: Any, metadata: Mapping[str, Any]) -> None:
        if commit.original_id in self.messages:
            commit.message = self._message(commit.message, commit.original_id)
            for part in ("author_name", "author_email", "committer_name", "committer_email"):
                setattr(commit, part, self._plain(getattr(commit, part)))
        for change in commit.file_changes:
            if change.type == b"D":  # git-filter-repo calls `file` only for files that exist
                change.filename = self._named(change.filename)
        renamed: Callable[[re.Match[bytes]], bytes] = metadata["commit_rename_func"]
        commit.message = _COMMIT_ID.sub(renamed, commit.message)
        self.count += 1
        if self.count % EVERY == 0:
            self.show()

    def show(self) -> None:
        """Print how many commits were rewritten so far; the parent process reads it from stdout."""
        sys.stdout.write(f"{SHOWN}{self.count}\n")
        sys.stdout.flush()

    def tag(self, tag: Any, _metadata: Mapping[str, Any]) -> None:
        if tag.original_id in self.messages:
            tag.message = self._message(tag.message, tag.original_id)

    def _message(self, data: bytes, oid: bytes) -> bytes:
        text = data.decode("utf-8", "surrogateescape")
        new = oplog.purged(text, self.forgotten, self.messages[oid])
        return new.encode("utf-8", "surrogateescape")

    def _plain(self, data: bytes) -> bytes:
        return self.forgotten.text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _ids(names: list[str]) -> set[bytes]:
    return {name.encode() for name in names}


def main(plan_file: str) -> None:
    """Rewrite the bare repository in the current directory by the plan in `plan_file` (JSON). On errors
    git-filter-repo raises SystemExit with a message."""
    rewriter = Rewriter(json.loads(Path(plan_file).read_text("utf-8")))
    options = fr.FilteringOptions.default_options()
    options.force = True  # skip its check for a fresh clone, which expects a remote `origin`
    options.quiet = True
    options.repack = False
    options.replace_refs = "delete-no-add"
    options.prune_empty = "never"  # an op's commit that became empty still records its time and source
    options.prune_degenerate = "never"
    options.preserve_commit_hashes = True  # see _COMMIT_ID
    options.preserve_commit_encoding = True
    fr.RepoFilter(
        options, file_info_callback=rewriter.file, commit_callback=rewriter.commit, tag_callback=rewriter.tag
    ).run()
    rewriter.show()


if __name__ == "__main__":
    main(sys.argv[1])
