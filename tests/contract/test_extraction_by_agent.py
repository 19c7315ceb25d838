"""Memories of sessions by a coding agent, in two-phase maintenance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ormahd.actions.amend import Caller
from ormahd.api import ExtractionBatch, MaintenanceCounts, MaintenanceResult
from ormahd.ingest.bring_in import archive
from ormahd.ingest.by_agent import AgentReading
from ormahd.ingest.extraction import Extraction
from ormahd.jobs.maintenance.maintenance import Maintenance
from ormahd.ormah import Ormah
from tests.extraction_house import ID, SAID, contents, opened, transcript

AGENT = Caller(agent="agent:claude-code")


def maintenance(ormah: Ormah) -> Maintenance:
    return Maintenance(ormah, AgentReading(ormah, judge=False))


def handed(result: MaintenanceResult) -> list[ExtractionBatch]:
    assert isinstance(result.extraction_batches, list)
    return result.extraction_batches


def counts(result: MaintenanceResult) -> MaintenanceCounts:
    assert isinstance(result.summary, MaintenanceCounts)
    return result.summary


def unread(some: list[ExtractionBatch]) -> set[str]:
    return {one.text for batch in some for one in batch.turns if not one.read and one.who == "person"}


def item(batch: ExtractionBatch, words: str, **more: Any) -> dict[str, Any]:
    turns = [one.turn for one in batch.turns if words in one.text]
    content = f"The agent found out about {words.strip()} in the shop."
    return {"batch_id": batch.batch_id, "turns": turns, "title": words, "content": content, "type": "procedure", **more}


@pytest.mark.parametrize("by", ["agent", "auto"])
def test_handed_out_in_parts_and_stored_once(tmp_path: Path, by: str) -> None:
    said = [f"Step {number}: we turn the handle of pump {number} and note {'x' * 900}" for number in range(60)]
    with opened(tmp_path, environ={"ORMAH_EXTRACTION_BY": by}) as ormah:
        archive(ormah, transcript(tmp_path / "t" / f"{ID}.jsonl", said))
        assert Extraction(ormah).settle() == 0
        first = maintenance(ormah).hand_out()
        shown = handed(first)
        assert 0 < len(msgspec.json.encode(shown)) <= 24_000
        assert handed(maintenance(ormah).hand_out()) == shown, "the same, until results come"
        results = [
            item(shown[0], "pump 1 "),
            item(shown[0], "no such words"),
            {"batch_id": "s9", "turns": [1]},
            "nonsense",
        ]
        done = maintenance(ormah).settle(first.receipt, {"extractions": results}, AGENT)
        assert counts(done).extractions == 1
        assert isinstance(done.refused, list)
        assert [one.item for one in done.refused] == ["extractions[2]", "extractions[3]", "extractions[1]"]
        assert contents(ormah) == ["The agent found out about pump 1 in the shop."]
        (op,) = ormah.history.ops(kinds=["ingest"])
        assert (op.source, op.run) == ("agent:claude-code", done.run)
        second = maintenance(ormah).hand_out()
        assert not unread(handed(second)) & unread(shown), "read once"
        while handed(second):
            maintenance(ormah).settle(second.receipt, {"extractions": []}, AGENT)
            second = maintenance(ormah).hand_out()
        assert len(contents(ormah)) == 1


def test_results_without_the_list_leave_the_turns_unread(tmp_path: Path) -> None:
    with opened(tmp_path, environ={"ORMAH_EXTRACTION_BY": "agent"}) as ormah:
        archive(ormah, transcript(tmp_path / "t" / f"{ID}.jsonl", SAID))
        first = maintenance(ormah).hand_out()
        maintenance(ormah).settle(first.receipt, {"edges": []}, AGENT)
        assert handed(maintenance(ormah).hand_out()) == handed(first)


def test_what_rules_found_is_not_stored_again(tmp_path: Path) -> None:
    with opened(tmp_path) as ormah:
        archive(ormah, transcript(tmp_path / "t" / f"{ID}.jsonl", SAID[:1]))
        assert Extraction(ormah).settle() == 1
        first = maintenance(ormah).hand_out()
        (batch,) = handed(first)
        said = {"batch_id": batch.batch_id, "turns": [1], "title": "Staging database",
                "content": "In staging the database listens on port 5433."}  # fmt: skip
        done = maintenance(ormah).settle(first.receipt, {"extractions": [said]}, AGENT)
        assert counts(done).extractions == 0
        assert isinstance(done.refused, list)
        assert done.refused[0].why == "known already"


def test_with_a_judge_or_off_nothing_is_handed_out(tmp_path: Path) -> None:
    with opened(tmp_path, environ={"ORMAH_EXTRACTION_BY": "off"}) as ormah:
        archive(ormah, transcript(tmp_path / "t" / f"{ID}.jsonl", SAID))
        assert handed(maintenance(ormah).hand_out()) == []
        assert not AgentReading(ormah, judge=True).has_unread()
