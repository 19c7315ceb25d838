"""Names of files and folders: safe everywhere, readable, and saying what they should."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ormahd.model.node import NodeType
from ormahd.note.values import folder_says, path_for, slug, space_folder, stem_short_id
from tests.tables import rows

ID = "97acbe8e-6d0a-4c1e-9a55-0a52b0f4f9d1"
WHEN = datetime(2026, 11, 21, 20, tzinfo=UTC)


def path(title: str | None = None, content: str = "", space: str | None = None, created: datetime = WHEN) -> str:
    return path_for(id=ID, type=NodeType.FACT, space=space, title=title, content=content, created=created)


def test_paths() -> None:
    assert (
        path("Chose Vite: it's fast!", space="My Project")
        == "my-project/fact/2026-11/fact_chose-vite-its-fast_97acbe8e.md"
    )
    assert path(None, "\n# First line\nsecond") == "global/fact/2026-11/fact_first-line_97acbe8e.md"
    assert path("😀", "???") == "global/fact/2026-11/fact_note_97acbe8e.md"
    assert path("x", created=datetime(2026, 12, 1, 1, tzinfo=timezone(timedelta(hours=2)))).startswith(
        "global/fact/2026-11/"
    )
    assert path("x", created=datetime(7, 1, 1, tzinfo=UTC)).startswith("global/fact/0007-01/")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *rows(__file__, "slugs"),
        ("word " * 30, "word-word-word-word-word-word-word-word-word-word"),
        ("x" * 80, "x" * 50),
    ],
)
def test_slugs(text: str, expected: str) -> None:
    assert slug(text) == expected


@pytest.mark.parametrize(
    ("space", "folder"),
    [(None, "global"), ("Global!", "global-space"), ("CON", "con-space"), ("lpt1", "lpt1-space"), ("templates", "templates-space"), ("..", "space"), (".git", "git"),
     ("🚀", "space"), ("a/b", "a-b"), ("Ormah", "ormah")],
)  # fmt: skip
def test_space_folders(space: str | None, folder: str) -> None:
    assert space_folder(space) == folder


@given(st.none() | st.text(max_size=80), st.text(max_size=80), st.none() | st.text(min_size=1, max_size=80))
def test_every_name_is_safe(title: str | None, content: str, space: str | None) -> None:
    found = path(title, content, space)
    folder, kind, month, name = found.split("/")
    assert (kind, month) == ("fact", "2026-11")
    assert re.fullmatch(r"fact_.+_97acbe8e\.md", name)
    assert len(name.encode()) <= 255
    for part in (folder, name):
        assert part == unicodedata.normalize("NFC", part)
        assert part.strip(" .") == part
        assert not set(part) & set('<>:"/\\|?*#^[]%\0\n\r\t ')
        assert part.isprintable() or any(unicodedata.category(c)[0] == "M" for c in part)
    assert (folder == "global") == (space is None)
    assert folder.casefold() not in {"con", "nul", "aux", "prn", "..", "", "templates"}
    says = folder_says(found)
    assert says == (NodeType.FACT, None if space is None else folder)
    assert stem_short_id(name.removesuffix(".md")) == "97acbe8e"
    assert path(title, content, space) == found


@pytest.mark.parametrize(
    ("target", "expected"),
    [("fact_x_9f8e7d6c", "9f8e7d6c"), ("a/b/fact_x_9f8e7d6c.md", "9f8e7d6c"), ("9f8e7d6c", "9f8e7d6c"), (ID, "97acbe8e"), ("fact_x_9f8e7d6", None), ("x-9f8e7d6c", None),
     ("fact_x_9F8E7D6C", None), ("fact_9f8e7d6c_x", None), ("", None), ("dir_9f8e7d6c/x", None)],
)  # fmt: skip
def test_short_ids_in_targets(target: str, expected: str | None) -> None:
    assert stem_short_id(target) == expected
