"""What the tests of history share: memories, and commits of a person's own, at a time of their choice."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ormahd import api
from tests.house import House


def remember(house: House, content: str, **more: Any) -> api.RememberResult:
    return house.call("agent.remember", content=content, space=None, **more)


def commit_by_hand(house: House, message: str, when: datetime | None = None) -> str:
    """What a person commits, with trailers and a date of their own where the test needs them."""
    house.git("add", "-A")
    date = [] if when is None else ["--date", when.isoformat()]
    env = {} if when is None else {"GIT_COMMITTER_DATE": when.isoformat()}
    before, house.settings = house.settings, house.settings | env
    try:
        house.git("commit", "-q", *date, "-m", message)
    finally:
        house.settings = before
    return house.git("rev-parse", "HEAD").strip()
