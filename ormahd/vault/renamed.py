"""Where notes that are only indexed have gone: `.ormah/renamed.jsonl`, a line for each that is no longer where it was first met.

Such a note's id is made of its path, so that it needs no line while it stays, and two machines agree without asking each other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

RENAMED = ".ormah/renamed.jsonl"


def read(data: bytes | None) -> dict[str, str]:
    """{path: id} of a file's lines; a line that says something else means nothing."""
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
    """The file for {path: id}, ordered by id."""
    rows = sorted((node_id, path) for path, node_id in renamed.items())
    return b"".join(
        json.dumps({"id": node_id, "path": path}, ensure_ascii=False).encode("utf-8", "surrogateescape") + b"\n"
        for node_id, path in rows
    )
