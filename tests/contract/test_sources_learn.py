"""What is learned of a session is counted for the way in by which it came: a hook, the watcher, a file that a person named."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from ormahd.ingest.bring_in import ingest
from ormahd.ingest.capture import Capture
from ormahd.ingest.extraction import Extraction
from ormahd.ingest.intake import Intake
from ormahd.ormah import Ormah
from tests.extraction_house import NOW, opened, transcript

AGAIN = "Remember that staging runs on port 8443."


def said(ormah: Ormah) -> dict[str, tuple[int, int, dict[str, int]]]:
    return {one.source: (one.sessions, one.memories, one.refused) for one in Intake(ormah).health()}


def test_memories_are_counted_for_the_way_in(tmp_path: Path) -> None:
    with opened(tmp_path) as ormah:
        capture = Capture(ormah)
        for number, source in enumerate(("hook", "watcher", "ingest", "backfill")):
            facts = [f"Remember that the {source} gate listens on port {number}443."]
            facts += [AGAIN] if source in {"hook", "watcher"} else []
            file = transcript(
                tmp_path / "t" / f"{source}.jsonl", facts, session=source, at=NOW - timedelta(days=number + 1)
            )
            if source == "hook":
                capture.hear("claude-code", source, str(file), "")
            elif source == "watcher":
                capture.read(file)
            else:
                ingest(ormah, str(file), unnamed=False, progress=lambda *_: None, source=source)
            capture.settle()
            Extraction(ormah).settle()
        assert said(ormah) == {
            "hook": (1, 2, {}), "watcher": (1, 1, {"known already": 1}), "ingest": (1, 1, {}), "backfill": (1, 1, {}),
        }  # fmt: skip
        month = Intake(ormah).month()
        assert {source: numbers["memories"] for source, numbers in month.items()} == {
            "hook": 2, "watcher": 1, "ingest": 1, "backfill": 1,
        }  # fmt: skip
