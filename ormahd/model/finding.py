"""A finding: one thing that `doctor` names, with where it is and how it is mended. Pure."""

from __future__ import annotations

from typing import Any


def finding(path: str | None, level: str, what: str, mend: str, line: int | None = None) -> dict[str, Any]:
    """One thing for `doctor`, in the shape of its reply."""
    return {"level": level, "what": what, "path": path, "line": line, "mend": mend}
