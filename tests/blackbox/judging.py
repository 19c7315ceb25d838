"""What the tests of feedback share: a house, whispers, and judgements of them.

The embedder is the one that hashes words: a prompt asked again is the same prompt, and that is enough here.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

from ormahd.api import FeedbackResult, WhisperResult
from tests.blackbox import conftest
from tests.house import House

STAGING, FLY = "Staging is deployed by the pipeline on every push to main.", "Production is deployed with fly deploy after the smoke tests."  # fmt: skip
PROMPT = "how is staging deployed by the pipeline"
_SESSIONS = itertools.count()


house = conftest.daemon
"""A fresh one for each test of a file that says `house = judging.house`."""


def remember(house: House, content: str, **more: Any) -> str:
    node: str = house.call("agent.remember", content=content, space=None, **more).node_id
    return node


def whisper(
    house: House, prompt: str = PROMPT, *, session: str | None = None, space: str | None = None
) -> WhisperResult:
    session = session or f"session-{next(_SESSIONS)}"
    found: WhisperResult = house.call("agent.whisper", prompt=prompt, space=space, session_id=session, explain=True)
    return found


def score(house: House, node: str, prompt: str = PROMPT) -> float:
    """The relevance of a memory for a prompt, in a session that knows nothing."""
    trace = whisper(house, prompt).trace
    assert isinstance(trace, dict)
    found: float = next(one["relevance"] for one in trace["candidates"] if one["node_id"] == node)
    return found


def judge(house: House, node: str, signal: int = 1, **more: Any) -> FeedbackResult:
    found: FeedbackResult = house.call("agent.feedback", node_id=node, signal=signal, **more)
    return found


def lines(house: House) -> list[dict[str, Any]]:
    files = sorted((house.vault / ".ormah/feedback").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]
