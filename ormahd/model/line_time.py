"""Times as lines of `.ormah/` hold them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def read_time(value: Any) -> datetime | None:
    """An ISO time with a zone, in UTC; None for anything else."""
    if not isinstance(value, str):
        return None
    try:
        date = datetime.fromisoformat(value)
        return date.astimezone(UTC) if date.tzinfo else None
    except (ValueError, OverflowError):
        return None


def write_time(date: datetime, timespec: str) -> str:
    """In UTC, to the second or finer (`timespec` as `isoformat` has it), with a Z."""
    return date.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")
