"""What is purged is in no file of Ormah's folders, wherever it was, also where the history has none of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest

from tests.blackbox.purging import WORDS, holding, sound, told
from tests.contract.archiving import answered, asked, written
from tests.house import House, save, wait_until, write_notes


def remembered(house: House, word: str) -> None:
    house.call("agent.remember", content=f"The cellar opens with {word}.", title=f"Where {word} is", tags=[word],
               space=f"shed {word}", request_id=f"r-{word}")  # fmt: skip


def linked(house: House, word: str) -> None:
    going = house.json("remember", "Titled.", "--title", f"Ask {word} first")["id"]
    house.json("remember", "It leads there.", "--link", f"supports:{going}")


def long_title(house: House, word: str) -> None:
    """The file's name has only the beginning of the text, because names are cut."""
    house.json("remember", "Long.", "--title", f"{'x' * 30} {word}")


def forgotten(house: House, word: str) -> None:
    house.json("forget", house.json("remember", f"It was {word}.", "--title", f"Once {word}")["id"])


def by_hand(house: House, word: str) -> None:
    save(house.vault / f"on {word}.md", f"# On {word}\n\nsee [[on {word}]]\n")
    wait_until(lambda: word in house.git("log", "-1", "--name-only", "--format="), "it is committed")


def prompted(house: House, word: str) -> None:
    house.json("whisper", f"Is {word} the word of the cellar?", "--session", f"s-{word}")


def said(house: House, word: str) -> None:
    title = {"type": "custom-title", "customTitle": f"About {word}", "sessionId": "s1"}
    file = written(house.home / "s.jsonl", asked(0, f"Is it {word}?"), answered(0, f"It is {word}."), title)
    os.utime(file, (1_700_000_000, 1_700_000_000))
    house.json("ingest", str(file))
    file.unlink()


def logged(house: House, word: str) -> None:
    with (house.state / "ormahd.log").open("a") as file:
        file.write(f"“Update: {word}” waits\nan innocent line\n")


def set_aside(house: House, word: str) -> None:
    file = house.vault / ".ormah/conflicts/01hk0000000000000000000000/ours" / f"fact_{word.lower()}_1a2b3c4d.md"
    file.parent.mkdir(parents=True)
    file.write_text(f"It waits with {word}.\n")


WAYS = (remembered, linked, long_title, forgotten, by_hand, prompted, said, logged, set_aside)
"""How a text gets into Ormah's folders. The history has none of it after the last four."""


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_text_is_nowhere(shared: House, way: Callable[[House, str], None]) -> None:
    word = f"Sesam-{way.__name__.replace('_', '-')}-Oeffne"
    way(shared, word)
    assert holding(shared, word)
    shared.json("forget", "--purge", "--text", word, "--dry-run")
    assert holding(shared, word)
    done = shared.json("forget", "--purge", "--text", word, "--yes")
    assert holding(shared, word, word[:16]) == []
    assert done["left"] == []
    assert shared.ctl("forget", "--purge", "--text", word, "--yes").returncode == 3, "nothing is there to be purged"
    shared.git("fsck", "--full", "--strict")
    assert shared.ctl("verify").returncode == 0


def test_renamed_files_are_the_same_memories(daemon: House) -> None:
    going = daemon.json("remember", "Titled.", "--title", "Ask Sesam-Oeffne first", "--space", "Sesam-Oeffne")["id"]
    other = daemon.json("remember", "It leads there.", "--link", f"supports:{going}")["id"]
    save(daemon.vault / "Sesam-Oeffne.md", "by hand\n")
    save(daemon.vault / "mine.md", "see [[Sesam-Oeffne]]\n")
    wait_until(
        lambda: daemon.git("status", "--porcelain") == "" and (daemon.vault / "mine.md").read_text()[0] == "-",
        "committed",
    )
    before = daemon.json("show", going)
    done = daemon.json("forget", "--purge", "--text", "Sesam-Oeffne", "--yes")
    after = daemon.json("show", going)
    assert after["path"] == before["path"].replace("sesam-oeffne", "purged")
    assert (after["title"], after["space"], after["content"]) == ("Ask (purged) first", "(purged)", "Titled.")
    assert [edge["id"] for edge in daemon.json("show", other)["connections"]["out"]] == [going]
    assert (daemon.vault / "mine.md").read_text().endswith("see [[(purged)]]\n")
    assert (daemon.vault / "(purged).md").exists()
    assert daemon.json("history", going)[-1]["kind"] == "remember"
    assert [op["op"] for op in daemon.json("history", "--limit", "1")] == [done["op"]]
    sound(daemon)


@pytest.mark.parametrize("daemon", [{"ORMAH_VECTORS_EXACT_PIECES": "0"}], indirect=True)
def test_a_memory_is_nowhere(daemon: House) -> None:
    """With versions that were set aside, the log, and files of Chroma."""
    going, staying = told(daemon)
    wait_until(lambda: any("chroma" in one for one in holding(daemon, going)), "Chroma has it")
    note = daemon.vault / daemon.json("show", going)["path"]
    other = daemon.vault / daemon.json("show", staying)["path"]
    folder = daemon.vault / ".ormah"
    mine = other.read_bytes() + b"\nA version that waits.\n"
    aside = {
        folder / "conflicts/01hk0000000000000000000000/ours/x.md": note.read_bytes(),
        folder / f"conflicts/01hk0000000000000000000000/fact_x_{going[:8]}.md": b"cut",
        folder / "conflicts/01hk0000000000000000000000/y.md": mine,
    }
    for file, data in aside.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    log = daemon.state / "ormahd.log"
    with log.open("a") as lines:
        lines.write(f"kept fact_harbour-master_{going[:8]}.md as it is\nan innocent line\n")
    before = log.stat().st_ino
    daemon.json("forget", "--purge", going, "--yes")
    assert [file.name for file in aside if file.exists()] == ["y.md"]
    left = (folder / "conflicts/01hk0000000000000000000000/y.md").read_bytes()
    assert left.endswith(b"A version that waits.\n")
    assert holding(daemon, *WORDS, going, going[:8]) == []
    assert (log.stat().st_ino, log.read_text().count("an innocent line")) == (before, 1)
    wait_until(lambda: "admin.purge" in log.read_text().splitlines()[-1], "the answered purge is in the log")


def test_a_forgotten_memory_takes_its_turn_along(daemon: House) -> None:
    """The turn says it in other words, and the memory was forgotten before."""
    file = written(daemon.home / "s.jsonl", asked(0, "My cellar has a zebrafish."), answered(0, "Noted."))
    os.utime(file, (1_700_000_000, 1_700_000_000))
    daemon.json("ingest", str(file))
    [archived] = (daemon.home / "data_home/ormah/sessions").rglob("*.jsonl")
    [key] = [
        row["key"] for row in map(json.loads, archived.read_text().splitlines()) if "zebrafish" in row.get("text", "")
    ]
    save(
        daemon.vault / "n.md",
        f"---\nid: 7c1d9f00-0000-4000-8000-000000000001\nfrom: s1#{key}\n---\nA fish lives below.\n",
    )
    wait_until(lambda: daemon.ctl("show", "7c1d9f00").returncode == 0, "it is indexed")
    daemon.json("forget", "7c1d9f00")
    assert daemon.json("forget", "--purge", "7c1d9f00-0000-4000-8000-000000000001", "--yes")["kept"]["sessions"] == 1
    assert holding(daemon, "zebrafish", "A fish lives below") == []
    assert "Noted." in archived.read_text()
    os.utime(file, (1_700_000_100, 1_700_000_100))
    daemon.json("ingest", str(file))
    assert holding(daemon, "zebrafish") == []


def test_what_is_left_is_told(daemon: House) -> None:
    """Files that are not Ormah's to change: of a source, and those that git ignores."""
    (daemon.home / "Notes").mkdir()
    (daemon.home / "Notes/Door.md").write_text("It opens with Sesam-Oeffne.\n")
    daemon.json("sources", "add", str(daemon.home / "Notes"), "--space", "home")
    wait_until(lambda: daemon.json("sources")["sources"][0]["read"], "it is read")
    write_notes(daemon.vault, {".git/info/exclude": "/drafts/\n", "drafts/x.md": "Sesam-Oeffne\n"})
    logged(daemon, "Sesam-Oeffne")
    for more in (["--dry-run"], ["--yes"]):
        left = daemon.json("forget", "--purge", "--text", "Sesam-Oeffne", *more)["left"]
        assert [one["path"] for one in left] == [f"{daemon.home}/Notes/Door.md:1", "drafts/x.md"]
    assert daemon.json("recall", "what opens it")["results"][0]["content"] == "It opens with Sesam-Oeffne."


def test_undo_of_what_named_it(daemon: House) -> None:
    going, staying = told(daemon)
    ops = {op["kind"]: op["op"] for op in daemon.json("history") if going in op["nodes"] or op["kind"] == "link"}
    done = daemon.json("forget", "--purge", going, "--yes")
    for op in ops.values():
        tried = daemon.ctl("undo", op)
        assert tried.returncode in {0, 3, 4}, tried.stderr
        assert "Traceback" not in tried.stderr
    assert daemon.ctl("undo", done["op"]).returncode == 4
    assert holding(daemon, *WORDS, going) == []
    assert daemon.json("show", staying)["title"] == "Ships"
    daemon.git("fsck", "--full")
    verified = daemon.ctl("verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr
