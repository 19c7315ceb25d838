"""Decides whether a session ran in a folder that `sessions.exclude` names. Nothing of such sessions is stored."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable
from pathlib import Path

from ormahd import paths


def is_excluded(folder: str, patterns: Iterable[str]) -> bool:
    """Return whether one of `patterns` (those of `sessions.exclude`) matches `folder` or a folder above it. Symbolic
    links are followed."""
    folders = {folder, os.path.realpath(folder)}
    return any(
        fnmatch.fnmatchcase(one, pattern) or fnmatch.fnmatchcase(one, f"{pattern}/*")
        for given in (str(paths.expand(Path(named))) for named in patterns)
        for pattern in {given.rstrip("/"), os.path.realpath(given)}
        for one in folders
    )
