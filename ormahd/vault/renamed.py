"""Records the moves of only-indexed notes: `.ormah/renamed.jsonl`, a line for each that left the path where it was
first found.

Such a note's id is derived from its first path, so that a note that stays needs no line, and machines agree on the id.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

RENAMED = ".ormah/renamed.jsonl"


def read(data: bytes | None) -> dict[str, str]:
    """Return `{path: id}` of the file's lines; unreadable lines are ignored."""
    found: dict[str, str] = {}
    for line in (data or b"").splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and isinstance(row.get("id"), str) and isinstance(row.get("path"), str):
            found.setdefault(row["path"], row["id"])
    return found


def write(renamed: Mapping[str, str]) -> bytes:
    """Return the content of the file for `{path: id}`, ordered by id."""
    rows = sorted((node_id, path) for path, node_id in renamed.items())
    return b"".join(
        json.dumps({"id": node_id, "path": path}, ensure_ascii=False).encode("utf-8", "surrogateescape") + b"\n"
        for node_id, path in rows
    )
