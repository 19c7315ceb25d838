"""Each way in says when something last came by it, and how much: a hook, the watcher, a file that a person named."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from ormahd.ingest.bring_in import ingest
from ormahd.ingest.capture import Capture
from ormahd.ingest.intake import Intake
from ormahd.ormah import Ormah
from tests.extraction_house import NOW, opened, transcript

AGAIN = "Remember that staging runs on port 8443."


def said(ormah: Ormah) -> dict[str, tuple[int, bool]]:
    return {one.source: (one.turns, one.last is not None) for one in Intake(ormah).health()}


def test_turns_are_counted_for_the_way_in(tmp_path: Path) -> None:
    with opened(tmp_path) as ormah:
        capture = Capture(ormah)
        for number, source in enumerate(("hook", "watcher", "ingest", "backfill")):
            facts = [f"Remember that the {source} gate listens on port {number}443."]
            facts += [AGAIN] if source in {"hook", "watcher"} else []
            file = transcript(
                tmp_path / "t" / f"{source}.jsonl", facts, session=source, at=NOW - timedelta(days=number + 1)
            )
            if source == "hook":
                capture.report(str(file), "")
            elif source == "watcher":
                capture.read(file)
            else:
                ingest(ormah, str(file), progress=lambda *_: None, source=source)
            capture.read_queued()
        assert said(ormah) == {"hook": (4, True), "watcher": (4, True), "ingest": (2, True), "backfill": (2, True)}
