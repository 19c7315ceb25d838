"""A rollout of Codex that grew is read from its last exchange on, with the same result as if it were read whole."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ormahd.ingest.bring_in import take
from ormahd.ingest.readers import codex
from ormahd.ingest.readers.turns import Reading
from ormahd.ormah import Ormah
from tests.contract.archiving import opened
from tests.examples import examples

NUMBERS = itertools.count(1)
STEPS = st.lists(
    st.sampled_from(["ask", "ask", "begin", "end", "abort", "back", "bare", "move", "read", "cut", "rewrite"]), max_size=16
)  # fmt: skip


@pytest.fixture(scope="module")
def ormah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ormah]:
    with pytest.MonkeyPatch.context() as patch, opened(tmp_path_factory.mktemp("codex")) as found:
        patch.setattr("ormahd.ingest.resuming.WORTH", 1)
        yield found


class Rollout:
    """A rollout that grows line by line."""

    def __init__(self, folder: Path) -> None:
        self.session = f"00000000-0000-4000-8000-{next(NUMBERS):012d}"
        self.file = folder / f"rollout-2026-11-02T09-00-00-{self.session}.jsonl"
        self.lines: list[bytes] = []
        self.turns = 0
        self.turn = ""
        self.add("session_meta", {"id": self.session, "cwd": "/home/ada/shop", "timestamp": "2026-11-02T09:00:00.000Z"})

    def add(self, kind: str, payload: dict[str, Any]) -> None:
        at = f"2026-11-02T{9 + len(self.lines) // 3600:02}:{len(self.lines) // 60 % 60:02}:{len(self.lines) % 60:02}.000Z"
        self.lines.append(json.dumps({"timestamp": at, "type": kind, "payload": payload}).encode() + b"\n")

    def say(self, **payload: Any) -> None:
        self.add("event_msg", payload)

    def do(self, step: str) -> None:
        if step in {"ask", "begin", "bare"}:
            self.turns += 1
            self.turn = f"{self.session[:-4]}{self.turns:04x}"
            if step != "bare":
                self.say(type="task_started", turn_id=self.turn)
            self.say(type="user_message", message=f"question {self.turns} of {self.session}")
        if step in {"ask", "end"}:
            self.say(type="agent_message", message=f"answer {self.turns} of {self.session}", phase="final_answer")
            self.say(type="task_complete", turn_id=self.turn)
        if step == "abort":
            self.say(type="turn_aborted", reason="interrupted")
        if step == "back":
            self.say(type="thread_rolled_back", num_turns=2)
        if step == "move":
            self.add("turn_context", {"cwd": f"/home/ada/other{self.turns}", "turn_id": self.turn})
        if step == "cut" and len(self.lines) > 4:
            del self.lines[-2:]
        if step == "rewrite":
            self.lines.insert(1, b'{"timestamp": "2026-11-02T09:00:00.000Z", "type": "world_state", "payload": {}}\n')

    def read(self, ormah: Ormah) -> int:
        """Archive what the file has, and return the number of its turns that were looked at."""
        self.file.write_bytes(b"".join(self.lines))
        return take(ormah, self.file).turns

    def whole(self) -> list[tuple[str, str, str | None]]:
        reading = Reading(name=self.file.stem, rested=False)
        found = codex.read(io.BytesIO(b"".join(self.lines)), reading)
        return [(one.key, one.text, one.cwd) for one in found if one.closed]


def archived(ormah: Ormah, rollout: Rollout) -> dict[str, str]:
    return {one.key: one.text for one in ormah.sessions.turns_of(f"codex/{rollout.session}.jsonl")}


@settings(max_examples=examples(60))
@given(steps=STEPS)
def test_any_order_of_events_gives_what_reading_all_gives(ormah: Ormah, steps: list[str]) -> None:
    rollout = Rollout(Path(ormah.vault.root).parent)
    cut = False
    for step in ("ask", "read", "ask", "read", *steps, "read"):
        cut |= step == "cut"
        if step == "read":
            rollout.read(ormah)
        rollout.do(step)
        found = archived(ormah, rollout)
        expected = {key: text for key, text, _ in rollout.whole()}
        if step == "read" and not cut:  # what was cut off stays archived
            assert found == expected
        elif step == "read":
            assert expected.items() <= found.items()
