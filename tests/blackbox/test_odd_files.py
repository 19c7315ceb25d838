"""Files that are no notes as we write them, in a vault of ours and in a folder of a person's: found, shown, named, left as they are."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.blackbox.conftest import House, open_house, wait_until

OTHER = "6d1f2c3b-0000-4000-8000-00000000abcd"
UNREADABLE: dict[str, tuple[bytes, str]] = {
    "Unclosed.md": (b"---\ntitle: Unclosed\ntags: [sea]\n\nThe quillback anchors at dusk.\n", "quillback"),
    "List.md": (b"---\ntags: [oops\n---\nA murrelet nests in old firs.\n", "murrelet"),
    "Colons.md": (b"---\ntitle: Plan: part two: the vole\n---\nThe vole tunnels under snow.\n", "vole"),
    "Tabs.md": (b"---\nkey:\n\t- tabbed\n---\nThe wryneck drums on alder.\n", "wryneck"),
    "No mapping.md": (b"---\n- one\n- two\n---\nThe zander hunts by night.\n", "zander"),
    "Braces.md": (b"---\n{a: b\n---\nThe ortolan sings in vineyards.\n", "ortolan"),
    "Latin.md": (b"caf\xe9: the pochard dives for weed.\n", "pochard"),
    "Nul.md": (b"The smew\0 winters on reservoirs.\n", "smew"),
    "Wide.md": ("The garganey arrives in March.\n".encode("utf-16"), "garganey"),
    "Kept id.md": (f"---\nid: {OTHER}\ntype: fact\ntitle: [Ruff\n---\nThe ruff dances on a lek.\n".encode(), "lek"),
    "Deep.md": (b"---\na: " + b"[" * 200 + b"\n---\nThe whimbrel whistles seven notes.\n", "whimbrel"),
    "Anchor.md": (b"---\na: *nowhere\n---\nThe dotterel trusts people.\n", "dotterel"),
}  # fmt: skip
"""Files that cannot be read as notes, each with a word of its text."""


@pytest.fixture(scope="module", params=["all", "index"])
def house(request: pytest.FixtureRequest) -> Iterator[House]:
    """A vault of ours, and a folder with notes of a person's that Ormah only finds."""
    with open_house() as found:
        if request.param == "index":
            found.vault.mkdir()
            (found.vault / "Mine.md").write_text("A note from before.\n")
        found.start()
        for path, (data, _) in UNREADABLE.items():
            (found.vault / path).write_bytes(data)
        wait_until(lambda: all(first(found, word) == path for path, (_, word) in UNREADABLE.items()), "all are found")
        yield found


def first(house: House, query: str) -> str | None:
    """The path of what recall finds first."""
    results = house.json("recall", query, "-n", "1")["results"]
    return str(results[0]["path"]) if results else None


def test_what_cannot_be_read_as_a_note_is_found_shown_and_named(house: House) -> None:
    named = {one["path"]: one for one in house.json("doctor", status=1)["findings"] if one["level"] == "error"}
    for path, (data, word) in UNREADABLE.items():
        hit = house.json("recall", word, "-n", "1")["results"][0]
        shown = house.json("show", hit["id"])
        assert (shown["path"], word in shown["content"]) == (path, True)
        assert house.json("show", path)["id"] == hit["id"]
        assert named[path]["mend"], path
        assert (house.vault / path).read_bytes() == data


def test_nothing_is_written_into_one(house: House) -> None:
    refused = house.ctl("update", "Unclosed.md", "--title", "x")
    assert (refused.returncode, "Unclosed.md cannot be changed while it is not a readable note" in refused.stderr) == (
        5,
        True,
    )
    assert "line 1" in refused.stderr
    assert (house.vault / "Unclosed.md").read_bytes() == UNREADABLE["Unclosed.md"][0]


def test_they_are_found_after_a_restart_and_without_the_index(house: House) -> None:
    before = {path: house.json("show", path)["id"] for path in UNREADABLE}
    house.restart()
    assert {path: first(house, word) for path, (_, word) in UNREADABLE.items()} == {path: path for path in UNREADABLE}
    house.stop()
    shutil.rmtree(house.index_dir)
    house.start()
    assert {path: first(house, word) for path, (_, word) in UNREADABLE.items()} == {path: path for path in UNREADABLE}
    assert {path: house.json("show", path)["id"] for path in UNREADABLE} == before
    assert house.json("verify")["ok"] is True


def test_a_mended_one_is_an_ordinary_note_and_a_deleted_one_is_gone(house: House) -> None:
    (house.vault / "List.md").write_bytes(b"---\ntags: [oops]\n---\nA murrelet nests in old firs.\n")
    (house.vault / "Tabs.md").unlink()
    wait_until(
        lambda: house.json("recall", "murrelet", "-n", "1")["results"][0]["tags"] == ["oops"], "the mended one is read"
    )
    wait_until(lambda: first(house, "wryneck") != "Tabs.md", "the deleted one is gone")
    assert "List.md" not in {
        one["path"] for one in house.json("doctor", status=1)["findings"] if one["level"] == "error"
    }
