"""`vault adopt` on a folder that was adopted already says what becomes of its notes, of later ones, and of their space."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.house import House, open_house, save, wait_until

NOTES = {
    "Woods/alder.md": "Alders stand by the brook.\n",
    "Woods/birch.md": "Birches stand on the heath.\n",
    "Woods/cedar.md": "---\nspace: abroad\n---\nCedars stand in the Lebanon.\n",
    "Woods/Deep/elm.md": "Elms stand in the valley.\n",
}


@pytest.fixture
def house() -> Iterator[House]:
    """A folder of notes that was adopted, with a space for all of it and another one for a folder in it."""
    with open_house() as found:
        for path, text in NOTES.items():
            (found.vault / path).parent.mkdir(parents=True, exist_ok=True)
            (found.vault / path).write_text(text)
        found.start()
        done = found.json("vault", "adopt", "--folder", "Woods", "--space", "trees", "--yes")
        assert done["spaces"] == [{"before": None, "after": "trees", "notes": 3}], "cedar.md names its space itself"
        yield found


def said(house: House, *words: str) -> list[str]:
    done = house.ctl("vault", "adopt", "--folder", "Woods", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def space(house: House, path: str) -> str | None:
    found = house.json("show", path)["space"]
    assert found is None or isinstance(found, str)
    return found


def test_index_leaves_memories_what_they_are_and_says_so(house: House) -> None:
    stay = "4 notes are memories already, and stay memories that Ormah looks after"
    assert said(house, "--index", "--dry-run") == [stay, "new notes in Woods/ would be only indexed from then on"]
    assert said(house, "--index") == [stay, "new notes in Woods/ are only indexed from now on"]
    birch, fir = house.vault / "Woods/birch.md", house.vault / "Woods/fir.md"
    fir.write_text("Firs stand on the mountain.\n")
    save(birch, birch.read_text() + "And in the moor.\n")
    wait_until(
        lambda: house.git("log", "-1", "--format=%s", "--", "Woods/birch.md").strip() == "Edit: birch",
        "the edit of a memory is committed as before",
    )
    wait_until(lambda: house.call("agent.recall", query="firs mountain").results, "the new note is found")
    house.json("jobs", "run", "index_updater")
    assert fir.read_text() == "Firs stand on the mountain.\n"
    assert said(house, "--index", "--dry-run")[:3] == [
        "1 note would be found, and nothing is written into:",
        "  Woods/fir.md",
        stay,
    ]


def test_another_space_is_named_with_the_one_before(house: House) -> None:
    house.json("vault", "adopt", "--folder", "Woods/Deep", "--space", "deep")
    change = {"before": "trees", "after": "wood", "notes": 2}
    assert house.json("vault", "adopt", "--folder", "Woods", "--space", "wood", "--dry-run")["spaces"] == [change]
    assert "the space of 2 notes would change from trees to wood" in said(house, "--space", "wood", "--dry-run")
    assert space(house, "Woods/alder.md") == "trees", "it was only asked"
    lines = said(house, "--space", "wood")
    assert "new notes in Woods/ are adopted from now on, in the space wood" in lines
    assert "the space of 2 notes changed from trees to wood" in lines
    assert [space(house, path) for path in NOTES] == ["wood", "wood", "abroad", "deep"]
    assert house.json("vault", "adopt", "--folder", "Woods", "--space", "wood")["spaces"] == []
    (house.vault / "Woods/Deep/gorse.md").write_text("Gorse stands at the edge.\n")
    done = house.json("vault", "adopt", "--folder", "Woods/Deep", "--space", "wood", "--index")
    assert {(one["before"], one["after"]) for one in done["spaces"]} == {("deep", "wood")}
    assert space(house, "Woods/Deep/elm.md") == "wood"
