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
    """A conflict whose versions are saved under `.ormah/conflicts` until a person has looked at them."""

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
    """Save `data`, a version of the file `path`, durably under `.ormah/conflicts`. Return the path of the saved file
    relative to the root."""
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
    """Save all versions of the conflicts of a sync's op under `.ormah/conflicts`, durably; called before the op is
    committed. `commits`: `{side: the commit that has its versions}`. `by`: the name of the machine that made the
    merge, if it was another one."""
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
    try:
        found = (root / CONFLICTS).iterdir()
        yield from sorted(one for one in found if one.is_dir() and not one.is_symlink() and one != root / DAMAGED)
    except FileNotFoundError:
        return


def _about(root: Path, op: str) -> list[SetAside]:
    """Return the conflicts listed in the op's `about.json`, without those whose saved versions a person has removed;
    [] when `about.json` cannot be read."""
    try:
        rows = json.loads((root / CONFLICTS / op / ABOUT).read_bytes())["conflicts"]
        asides = [SetAside(**{**row, "op": op, "fields": tuple(row["fields"])}) for row in rows]
    except (OSError, ValueError, TypeError, KeyError):
        return []  # `waiting` then lists its versions one by one
    return [one for one in asides if any((root / name).is_file() for name in one.files.values())]


def resolve(root: Path, name: str) -> list[SetAside]:
    """Remove set-aside conflicts that a person has settled, and return them. `name` is understood as by `find`, which
    also raises the errors."""
    found = find(root, name)
    settle(root, found)
    return found


def find(root: Path, name: str) -> list[SetAside]:
    """Return the set-aside conflicts that `name` means: those of an op or a memory (by a unique prefix of the id),
    of a path in the vault, or of one set-aside file.

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
    """Remove the set-aside files of these conflicts."""
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
    """After a crash, remove the set-aside conflicts of syncs that were not committed; the next sync finds the conflicts
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
    return name.encode("utf-8", "replace").decode()


def bring_in(worktree: Worktree, change: FileChange, late: bytes, op: str) -> str:
    """Merge a save of the moment in which `change` was written into the file, without a commit, so that the watcher
    finds it. Return a sentence on what was done.

    `late`: what a person saved over the version `change.base`: it is the file, or lies under the name of the staged
    file, where it stays until it is in the file, so that a crash does not lose it. `op`: the id of the change's op.
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
