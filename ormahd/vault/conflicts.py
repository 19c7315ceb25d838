"""Versions of a file that conflict: merge them into a later edit, or set them aside until a person has looked at them.

Versions are set aside under `.ormah/conflicts/<op>/`, which git and editors ignore. A sync conflict keeps all its
versions (`base`, `ours`, `theirs`) and describes them in `about.json`; any other file there is a version that could not
be merged with a later edit.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import asdict

from ormahd.api import ConflictItem
from ormahd.errors import Ambiguous, Conflict, NotFound
from ormahd.git.refs import find_commit
from ormahd.git.repository import Git
from ormahd.model.change import is_op, sha256
from ormahd.note.merge import merge_file
from ormahd.process.disk import FOLDER as DAMAGED
from ormahd.process.disk import sync_directory, write_durably
from ormahd.vault.op import FileChange
from ormahd.vault.worktree import Displaced, Worktree, Write

CONFLICTS = ".ormah/conflicts"
ABOUT = "about.json"
SIDES = ("base", "ours", "theirs")
MIN_PREFIX = 4


class SetAside(Struct, frozen=True):
    """A conflict whose versions are saved under `.ormah/conflicts` until a person has settled it."""

    op: str
    """The op in which the conflict arose; `unclaimed` when not known."""
    path: str
    """The file's path in the vault."""
    node: str | None = None
    fields: tuple[str, ...] = ()
    kept: str = ""
    """Which version the vault kept: `ours` or `theirs`; "" when a later edit was kept."""
    commits: Mapping[str, str | None] = field(default_factory=dict)
    """`{side: commit that has this version}`; None: no commit has one."""
    values: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    """`{field: {side: its value}}`, without the field `note`; None: the side has no value."""
    files: Mapping[str, str] = field(default_factory=dict)
    """`{side or "aside": the file that holds its version}`, relative to the vault's root. A missing side removed the
    file."""
    by: str = ""
    """The name of the machine that made the merge, when it was another machine."""


class ConflictVersions(Struct, frozen=True):
    """A conflict that is about to be set aside. `fields`: the names of the fields in conflict. `kept`: the side whose
    version the vault keeps. `base`, `ours`, `theirs`: the note's bytes on each side; None: that side has no such
    file."""

    path: str
    node: str | None
    fields: tuple[str, ...]
    kept: str
    base: bytes | None
    ours: bytes | None
    theirs: bytes | None
    values: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)


def save_aside(root: Path, op: str, path: str, data: bytes) -> str:
    """Save `data`, a version of the file `path`, durably under `.ormah/conflicts`. Return the path of the saved file,
    relative to `root`. A saved file with other content is kept, and the new one gets a number."""
    file = root / CONFLICTS / op / path
    file.parent.mkdir(parents=True, exist_ok=True)
    number = 1
    while file.exists() and file.read_bytes() != data:
        number += 1
        file = root / CONFLICTS / op / f"{path}.{number}"
    write_durably(file, data)
    sync_directory(root / CONFLICTS)
    return file.relative_to(root).as_posix()


def set_aside(
    root: Path, op: str, conflicts: Iterable[ConflictVersions], commits: Mapping[str, str | None], *, by: str = ""
) -> list[SetAside]:
    """Save all versions of the conflicts of a sync's op durably under `.ormah/conflicts`, and return the saved
    conflicts. Called before the op is committed. `commits`: `{side: the commit that has its versions}`. `by`: the name
    of the machine that made the merge, if it was another one."""
    asides = []
    for one in conflicts:
        versions = [(side, data) for side in SIDES if (data := getattr(one, side)) is not None]
        files = {side: save_aside(root, op, f"{side}/{one.path}", data) for side, data in versions}
        asides.append(
            SetAside(op, one.path, one.node, one.fields, one.kept, dict(commits), dict(one.values), files=files, by=by)
        )
    if asides:
        _write_about(root, op, asides)
    return asides


def _write_about(root: Path, op: str, asides: Iterable[SetAside]) -> None:
    """Write the op's `about.json`, which lists these conflicts."""
    rows = [asdict(one) for one in asides]
    text = json.dumps({"op": op, "conflicts": rows}, indent=2)  # in ASCII: a name need not be UTF-8
    write_durably(root / CONFLICTS / op / ABOUT, text.encode() + b"\n")


def waiting(root: Path) -> list[SetAside]:
    """Return every conflict that is set aside and not settled yet, oldest op first."""
    found: list[SetAside] = []
    for folder in _folders(root):
        known = _about(root, folder.name)
        found += known
        listed = {name for one in known for name in one.files.values()} | {f"{CONFLICTS}/{folder.name}/{ABOUT}"}
        for file in sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()):
            name = file.relative_to(root).as_posix()
            if name not in listed and not file.name.endswith(".part"):
                path = file.relative_to(folder).as_posix()
                found.append(SetAside(folder.name, path, files={"aside": name}))
    return found


def _folders(root: Path) -> Iterator[Path]:
    """Yield the folders under `.ormah/conflicts` that hold set-aside versions, one for each op, oldest op first."""
    try:
        found = (root / CONFLICTS).iterdir()
        yield from sorted(one for one in found if one.is_dir() and not one.is_symlink() and one != root / DAMAGED)
    except FileNotFoundError:
        return


def _about(root: Path, op: str) -> list[SetAside]:
    """Return the conflicts listed in the op's `about.json`, without those whose saved versions a person has removed.
    Return [] when `about.json` cannot be read; `waiting` then lists the saved versions one by one."""
    try:
        rows = json.loads((root / CONFLICTS / op / ABOUT).read_bytes())["conflicts"]
        asides = [SetAside(**{**row, "op": op, "fields": tuple(row["fields"])}) for row in rows]
    except (OSError, ValueError, TypeError, KeyError):
        return []  # `waiting` then lists its versions one by one
    return [one for one in asides if any((root / name).is_file() for name in one.files.values())]


def resolve(root: Path, name: str) -> list[SetAside]:
    """Remove the set-aside conflicts that `name` names, because a person has settled them, and return them. See `find`
    for `name` and the errors."""
    found = find(root, name)
    settle(root, found)
    return found


def find(root: Path, name: str) -> list[SetAside]:
    """Return the set-aside conflicts that `name` names. It may be the id of an op or a memory, or a unique prefix of
    it; a path in the vault; or the path of a set-aside file.

    Raises NotFound, Ambiguous.
    """
    wanted = name.strip().removeprefix("./")
    everything = waiting(root)
    found = [one for one in everything if wanted in {one.op, one.path, *one.files.values()}]
    if not found and len(wanted) >= MIN_PREFIX:
        ops = {one.op for one in everything if one.op.startswith(wanted)}
        nodes = {one.node for one in everything if one.node is not None and one.node.startswith(wanted)}
        if len(ops) + len(nodes) > 1:
            ids = sorted(ops | nodes)
            raise Ambiguous(f"'{wanted}' names several conflicts", hint="give more of it", data={"ids": ids})
        found = [one for one in everything if one.op in ops or one.node in nodes]
    if not found:
        raise NotFound(f"nothing that is set aside is called '{wanted}'", hint="`ormahctl review` lists it")
    return found


def settle(root: Path, found: Iterable[SetAside]) -> None:
    """Remove the set-aside files of these conflicts, and their entries in `about.json`."""
    found = list(found)
    for one in found:
        for file in one.files.values():
            (root / file).unlink(missing_ok=True)
    for op in {one.op for one in found}:
        remaining = _about(root, op)
        if remaining:
            _write_about(root, op, remaining)
        else:
            (root / CONFLICTS / op / ABOUT).unlink(missing_ok=True)
        for place, _, _ in os.walk(root / CONFLICTS / op, topdown=False):
            if not os.listdir(place):
                os.rmdir(place)


def drop(root: Path, op: str) -> None:
    """Remove the versions that an op set aside, because the op was not committed."""
    shutil.rmtree(root / CONFLICTS / op, ignore_errors=True)


def drop_unfinished(root: Path, git: Git) -> None:
    """Remove the set-aside conflicts of syncs that a crash ended before their commit; the next sync finds the conflicts
    again."""
    for folder in _folders(root):
        if is_op(folder.name) and (folder / ABOUT).exists() and find_commit(git, folder.name) is None:
            drop(root, folder.name)


def describe(one: SetAside) -> str:
    """Return a sentence that describes the conflict, for lists and logs."""
    if not one.kept:
        return "a version that could not be merged with a later edit was set aside"
    other = "theirs" if one.kept == "ours" else "ours"
    if other not in one.files:
        where = "on the other side" if other == "theirs" else "here"
        return f"changed on one side and removed {where}; the changed one was kept"
    what = ", ".join(one.fields) or "text"
    if one.kept == "theirs":
        machine = f"that of {one.by}" if one.by else "the other machine's"
        return (
            f"{what}: changed on both sides, each in its own way; {machine} was kept, and this machine's was replaced"
        )
    return f"{what}: changed on both sides, each in its own way; this machine's was kept"


def item(one: SetAside) -> ConflictItem:
    """Return a conflict in the form of the API. Bytes of file names that are not UTF-8 are replaced."""
    files = {side: _text(file) for side, file in one.files.items()}
    values = asdict(one) | {"path": _text(one.path), "fields": list(one.fields), "files": files}
    return ConflictItem(**values, what=describe(one))


def _text(name: str) -> str:
    """Return a file name with each byte that is not UTF-8 replaced."""
    return name.encode("utf-8", "replace").decode()


def merge_late_save(worktree: Worktree, change: FileChange, late: bytes, op: str) -> str:
    """Merge into a file what a person saved while `change` was written, without a commit, so that the watcher finds it.
    Return a sentence on what was done. If it cannot be merged, it is set aside.

    `late`: the bytes that a person saved over the version `change.base`. They are in the file, or in the staged file,
    which is removed only at the end, so that a crash loses nothing. `op`: the id of the change's op.
    """
    found = worktree.read(change.path)
    merged = None if change.data is None else merge_file(change.base, late, change.data, change.path).data
    write = Write(change.path, None if found is None else sha256(found), late if merged is None else merged, late=True)
    sentence = f"{change.path} was saved while op {op} was written; the save was brought into the file"
    try:
        if found not in (change.data, late, write.data):
            raise Displaced(change.path, found)
        if found != write.data:
            worktree.replace(write)
    except Conflict:
        worktree.drop(write)
        where = save_aside(worktree.root, op, change.path, late)
        sentence = f"{change.path} was saved twice while op {op} was written; the earlier save waits in {where}"
    worktree.drop(Write(change.path, None, None))
    return sentence
