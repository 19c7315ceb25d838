"""Search a whole repository for a memory, or an exact text: which blobs, paths and messages a purge has to change."""

from __future__ import annotations

import os
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from ormahd.git.history import Store
from ormahd.note.forgetting import Forgotten, link_targets
from ormahd.note.read import parse

Progress = Callable[[int, int, str], None]
"""Called with (done, total or 0 when unknown, stage)."""


class PurgeSurvey(Struct):
    """What a purge has to change in a repository."""

    forgotten: Forgotten
    """The memory with all names that it ever had."""
    drop: set[str]
    """Ids of the blobs that are versions of the memory's note. They are removed."""
    rewrite: set[str]
    """Ids of other blobs that mention the memory. They are rewritten."""
    names: dict[str, str]
    """`{path: new path}` of the files whose path mentions it."""
    own_paths: set[str]
    """All paths that the note ever had."""
    paths: set[str]
    """All other paths whose file ever mentioned the memory."""
    found: bool
    """Whether any object of the repository mentions it, reachable or not."""
    commits: int = 0
    changed: int = 0
    """Number of commits that get another id, of `commits`; set once the history is rewritten."""


def survey(store: Store, forgotten: Forgotten, taken: Callable[[str], bool], progress: Progress) -> PurgeSurvey:
    """Return what a purge has to change in the repository `store` so that it no longer has the memory `forgotten`.
    `taken`: tells whether a name (such as a title) now leads to another memory."""
    # One pass over all objects. The links of blobs are kept, because they may lead to the memory by a title, and its
    # titles are known only once all versions of its note were read.
    naming: dict[str, bytes] = {}
    linking: dict[str, tuple[str, ...]] = {}
    messages: list[bytes] = []
    for count, item in enumerate(store.objects()):
        if item.kind != "blob":
            messages.append(item.data)
        elif forgotten.mentions(item.data):
            naming[item.oid] = item.data
        elif forgotten.node_id and (b"[[" in item.data or b"](" in item.data):
            linking[item.oid] = link_targets(item.data)
        if count % 1000 == 0:
            progress(count, 0, "reading the history")
    placed: dict[str, set[str]] = {}
    for oid, path in store.blob_paths():
        placed.setdefault(oid, set()).add(path)

    # Versions of the note: those with its id, and those without any id at a path of the note, as a person may commit.
    notes = {
        (oid, path): parse(data, path)
        for oid, data in sorted(naming.items())
        for path in sorted(placed.get(oid, ()))
        if path[-3:].lower() == ".md" and forgotten.is_note(data, path)
    }
    drop, own_paths = {oid for oid, _ in notes}, {path for oid, _ in notes for path in placed[oid]}
    beside = {oid: path for oid, paths in placed.items() if oid not in drop for path in paths & own_paths}
    drop |= {item.oid for item in store.objects(beside) if parse(item.data, beside[item.oid]).id is None}
    if forgotten.node_id:
        forgotten = forgotten.knowing(notes.values())
        forgotten = replace(forgotten, names=tuple(name for name in forgotten.names if not taken(name)))

    # Other blobs: those that mention the memory, and those with a link that leads to it.
    led = {oid for oid, targets in linking.items() if any(map(forgotten.leads, targets))}
    rewrite = (naming.keys() | led) - drop

    # Paths that mention the memory get new names, which no other path has.
    paths = set().union(*placed.values())
    names: dict[str, str] = {}
    for path in sorted(paths):
        if forgotten.mentions(os.fsencode(path)):
            stem, dot, ending = forgotten.text(path).rpartition(".")
            new, number = f"{stem}{dot}{ending}", 1
            while new in paths:
                new, number = f"{stem}-{number}{dot}{ending}", number + 1
            names[path] = new
            paths.add(new)

    # A commit or tag: its headers, an empty line, its message.
    bodies = (data.partition(b"\n\n")[2].decode("utf-8", "replace") for data in messages)
    in_messages = any(map(forgotten.mentions, messages)) or any(map(forgotten.quoted, bodies))
    return PurgeSurvey(
        forgotten=forgotten,
        drop=drop,
        rewrite=rewrite,
        names=names,
        own_paths=own_paths,
        paths={path for oid in rewrite for path in placed.get(oid, ())} | names.keys() - own_paths,
        found=bool(drop or rewrite or names or in_messages),
    )
