"""Evidence: the files of a project that a memory rests on, each with the content it had then; and what has changed since.

It is written as `path@blob`: the path from the project's folder, and git's id of the content. A memory whose files are
unchanged is not called fresh for that.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from ormahd.errors import BadRequest
from ormahd.index.rows import NodeRow
from ormahd.index.write import git_blob
from ormahd.model.node import EVIDENCE, MAX_EVIDENCE
from ormahd.ormah import Ormah
from ormahd.vault.spaces import project_folder, without_tilde

LARGEST: Final = 8_000_000
"""Largest size in bytes of a file that is read."""
ABROAD: Final = "evidence names files of the project in which you work"


def recorded(cwd: str | None, given: Sequence[str]) -> list[str]:
    """Return evidence as it is stored, `path@blob`. `given`: such entries, or paths (absolute, or relative to `cwd`),
    whose files are read now.

    Raises:
        BadRequest: a file does not exist, is outside of the project, or is too large.
    """
    folder, found = project_folder(cwd), []
    for one in given:
        if EVIDENCE.fullmatch(one):
            found.append(one)
            continue
        if folder is None or cwd is None:
            raise BadRequest(ABROAD, hint="name it as path@blob, with git's id of the content: git hash-object FILE")
        file = Path(os.path.normpath(Path(cwd) / one))
        blob = _blob_at(file)
        if not file.is_relative_to(folder):
            raise BadRequest(f"{ABROAD}, and {one[:200]} is not in {folder}")
        if blob is None:
            raise BadRequest(f"evidence names {one[:200]}, which is no file that can be read", hint="name it from here")
        found.append(f"{file.relative_to(folder)}@{blob}")
    if len(found) > MAX_EVIDENCE:
        raise BadRequest(f"evidence names {len(found)} files", hint=f"name the {MAX_EVIDENCE} that matter most")
    return list(dict.fromkeys(found))


def of_that_time(cwd: str, paths: Sequence[str], time: datetime) -> tuple[str, ...]:
    """Return as evidence those of `paths` (relative to `cwd`) that are files of the project and were not written after
    `time`. At most `MAX_EVIDENCE`.

    Other files are left out, because their content at that time is unknown.
    """
    folder, found = project_folder(cwd), []
    for file in (Path(os.path.normpath(Path(cwd) / path)) for path in dict.fromkeys(paths)):
        blob = _blob_at(file) if folder is not None and file.is_relative_to(folder) else None
        if folder is not None and blob is not None and os.stat(file).st_mtime <= time.timestamp() + 1:
            found.append(f"{file.relative_to(folder)}@{blob}")
    return tuple(found[:MAX_EVIDENCE])


def stale(folder: Path, evidence: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return (files with another content now, files that no longer exist) of a memory's evidence."""
    changed, missing = [], []
    for one in evidence:
        path, _, blob = one.rpartition("@")
        now = _blob_at(folder / path)
        if now is None:
            missing.append(path)
        elif now != blob:
            changed.append(path)
    return changed, missing


def mark_stale(row: NodeRow, cwd: str | None, space: str | None) -> NodeRow:
    """Return `row` with a sentence about its evidence (`stale`), if the memory is of `space` and its files have changed
    since. Return it unchanged otherwise.

    `cwd`: a folder in the project of `space`.
    """
    folder = project_folder(cwd) if row.evidence and row.space is not None and row.space == space else None
    if folder is None:
        return row
    changed, missing = stale(folder, row.evidence)
    parts = [f"{', '.join(changed)} changed since"] if changed else []
    parts += [f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} gone"] if missing else []
    return replace(row, stale="; ".join(parts) or None)


def folder_of(ormah: Ormah, space: str | None) -> Path | None:
    """Return the folder of the project that belongs to a space; None if none on this machine does."""
    folders = [without_tilde(line.folder) for line in ormah.spaces.lines()[0] if line.folder and line.space == space]
    return next((folder for folder in reversed(folders) if folder.is_dir()), None)


def without_files(ormah: Ormah) -> Iterator[tuple[NodeRow, list[str]]]:
    """Yield (memory, its files) for each memory whose evidence are files of a project on this machine that were all
    deleted."""
    rows = ormah.index.notes(ormah.index.ids_with_act("evidence")).values()
    folders = {space: folder_of(ormah, space) for space in {row.space for row in rows}}
    for row in rows:
        folder = folders[row.space]
        if folder is not None and not row.expired(ormah.clock()):
            _, missing = stale(folder, row.evidence)
            if len(missing) == len(row.evidence):
                yield row, missing


def _blob_at(file: Path) -> str | None:
    """Return the id of the git blob with a file's content; None if it is no regular file, too large, or unreadable."""
    try:
        seen = os.stat(file)
        if not stat.S_ISREG(seen.st_mode) or seen.st_size > LARGEST:
            return None
        return _blob(str(file), seen.st_mtime_ns, seen.st_size, seen.st_ino)
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=4_096)
def _blob(file: str, _mtime_ns: int, _size: int, _inode: int) -> str:
    """Return the id of the git blob with the content of `file`. The other arguments are part of the cache's key: they
    change when the file is written."""
    return git_blob(Path(file).read_bytes())
