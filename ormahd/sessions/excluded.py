"""Decides whether a session's folder is one of those of which nothing is kept."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable
from pathlib import Path

from ormahd import paths


def is_excluded(folder: str, patterns: Iterable[str]) -> bool:
    """Return whether `folder` is, or lies in, a folder that a pattern of `sessions.exclude` names. Symbolic links are followed."""
    folders = {folder, os.path.realpath(folder)}
    return any(
        fnmatch.fnmatchcase(one, pattern) or fnmatch.fnmatchcase(one, f"{pattern}/*")
        for given in (str(paths.expand(Path(named))) for named in patterns)
        for pattern in {given.rstrip("/"), os.path.realpath(given)}
        for one in folders
    )
