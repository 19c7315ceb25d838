"""The words of memories, remembered by what the memories say."""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec.structs import replace

from ormahd.index.rows import NodeRow
from ormahd.model.node import NodeType, Tier
from ormahd.text.words import stems, words
from ormahd.whisper.gather import stems_of_notes

ID = "00000001-0000-4000-8000-000000000000"
NOW = datetime(2026, 11, 21, 20, tzinfo=UTC)


def made(number: int, content: str) -> NodeRow:
    return NodeRow(
        ID, NodeType.FACT, Tier.WORKING, None, "A title", content, (), (), "person", 1.0, NOW, NOW, None, None, "fact.md",
        f"digest {number}",
    )  # fmt: skip


def test_they_are_those_of_title_and_content_and_change_with_them() -> None:
    rows = [made(1, "Boats were painted."), made(2, ""), made(3, "東京タワー and c++")]
    found = stems_of_notes(rows)
    assert found == stems_of_notes(rows)
    assert found == {one.digest: stems(words(f"{one.title or ''} {one.content}")) for one in rows}
    assert "boat" in found["digest 1"]
    assert "kettl" in stems_of_notes([replace(rows[0], digest="digest 1b", content="kettles")])["digest 1b"]
    assert stems_of_notes([]) == {}
    assert stems_of_notes([rows[0], rows[0]]) == {"digest 1": found["digest 1"]}
