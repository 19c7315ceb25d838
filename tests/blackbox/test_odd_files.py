"""Files that are no notes as we write them, in the vault: found, shown, named, left as they are."""

from __future__ import annotations

import base64
import os
import random
import shutil
import textwrap
from collections.abc import Iterator

import pytest

from tests.blackbox.conftest import House, open_house, wait_until
from tests.house import save
from tests.tables import rows

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


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as found:
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


IMAGE = base64.b64encode(random.Random(4).randbytes(300_000)).decode()
KILN = "The kiln at Ostrava fires celadon at 1260 degrees, and the glaze is mixed with ash of rice straw."
MIXED = {
    "front.md": f"![shot](data:image/png;base64,{IMAGE})\n\n{KILN}\n",
    "behind.md": "The mill at Plzen grinds spelt on two stones, and the flour is sifted by hand.\n\n" + "\n".join(textwrap.wrap(IMAGE, 76)),
    "code.md": "The loom at Zlin weaves damask with 2400 hooks.\n\n" + "function a(b){return b.c(d)?e[f]:g(h,!0)}" * 8_000,
    "log.md": "\n".join(f"2026-11-27T10:00:00.{at:06d}Z INFO w{at} done" for at in range(8_000)) + "\n\nThe forge at Brno tempers chisels in whale oil.\n",
}  # fmt: skip
"""Notes of some 400 kB that are nearly all no language, each with something to say."""
ASKED = dict(rows(__file__, "asked"))


def test_prose_in_a_note_of_data_is_found_and_whispered_and_the_data_is_not(house: House) -> None:
    for path, text in MIXED.items():
        save(house.vault / path, text)
    for path, question in ASKED.items():
        wait_until(lambda: first(house, question) == path, f"{path} is found")  # noqa: B023
        hit = house.json("recall", question, "-n", "1", "--full")["results"][0]
        assert len(hit["excerpt"]) < 200
        assert hit["content"].strip() == MIXED[path].strip()
        wait_until(lambda: path[:-3] in house.ctl("whisper", question).stdout, f"{path} is whispered")  # noqa: B023
        for said in (house.ctl("whisper", question).stdout, house.ctl("recall", question, "-n", "1").stdout):
            assert hit["excerpt"].split()[-5] in said
            assert max(map(len, said.split())) < 160, said


def test_memories_that_say_the_same_have_one_place_in_an_answer(house: House) -> None:
    told = ["The quay crane is serviced on Thursdays.", "the quay crane is serviced on Thursdays", "Quay crane is serviced on Thursdays.",
            "**The quay crane** is serviced on Thursdays!"]  # fmt: skip
    ids = [house.json("remember", text, "--global")["id"] for text in told]
    other = house.json("remember", "The quay crane is serviced on Fridays in July.", "--global")["id"]
    found = house.json("recall", "when is the quay crane serviced")["results"]
    groups = [{hit["id"], *hit["also"]} for hit in found]
    assert {other} in groups
    assert set(ids) in groups
    assert "and 3 that say the same" in house.ctl("recall", "when is the quay crane serviced").stdout
    said = house.ctl("whisper", "when is the quay crane serviced?").stdout
    assert said.count("on Thursdays") <= 2, "one headline, one quote"
    assert "· and 3 that say the same" in said


NOT_UTF8 = (
    b"na\xffme.md", b"\xed\xa0\x80.md", b"sub\xfe/in.md", b"\xff\xfe\xfd.txt", b"\xe9t\xe9.pdf", b"caf\xe9/inner/deep.md", b"\xf0\x9f.markdown",
    b"\xc3(.jsonl", b"a\x80.json", b"\xfe/s.jsonl",
)  # fmt: skip


def test_a_name_that_is_not_utf8_keeps_nothing_else_from_being_read(house: House) -> None:
    house.start()
    folder, sessions = os.fsencode(house.home / "docs"), os.fsencode(house.home / ".claude/projects")
    for name in (*NOT_UTF8, b"good.md"):
        os.makedirs(os.path.dirname(folder + b"/" + name), exist_ok=True)
        with open(folder + b"/" + name, "w") as file:
            file.write(f"# Crane\n\nThe quay crane is oiled at {len(name)}.\n")
    for name in (*NOT_UTF8[-3:], b"good.jsonl"):
        os.makedirs(os.path.dirname(sessions + b"/-src/" + name), exist_ok=True)
        with open(sessions + b"/-src/" + name, "w") as file:
            file.write("User: hello\nAssistant: hello\n")
    done = house.ctl("ingest", os.fsdecode(folder))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("was left out: its name is not UTF-8") == len(NOT_UTF8)
    house.json("sources", "add", os.fsdecode(folder))
    wait_until(lambda: house.json("sources")["sources"][0]["sections"] == 1, "the other file of the source")
    assert [*house.json("sources")["sources"][0]["troubles"].values()] == ["its name is not UTF-8: rename it"] * 7
    assert house.json("doctor", status=1)["findings"]
    assert house.json("ingest", "--backfill", "--dry-run")["files"] == [os.fsdecode(sessions + b"/-src/good.jsonl")]
