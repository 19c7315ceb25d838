"""200 secrets of 25 kinds through every entrance leave no trace in vault, git, archive, index, state or logs."""

from __future__ import annotations

import json
import subprocess
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ormahd.text.secrets import redact
from tests.blackbox.test_sessions import stop_hook
from tests.house import House, open_house, wait_until
from tests.quality.planted import PlantedSecret, clean, planted


def transcript(file: Path, session: str, secrets: Sequence[PlantedSecret]) -> Path:
    """Write a transcript: each secret is told by the person or by the agent, and stands in what a tool printed."""
    rows: list[dict[str, Any]] = []
    for number, one in enumerate(secrets):
        about = {
            "sessionId": session,
            "cwd": "/home/ada/shop",
            "timestamp": f"2026-11-02T09:{number // 60:02d}:{number % 60:02d}.000Z",
        }
        asked, told = (
            (f"Remember that {one.text}", f"Noted {session}.")
            if number % 2
            else (f"What is it in {session}?", one.text)
        )
        rows.append({"type": "user", "uuid": f"u{number}", "parentUuid": f"a{number - 1}" if number else None,
                     "message": {"role": "user", "content": asked}, **about})  # fmt: skip
        rows.append({"type": "user", "uuid": f"t{number}", "parentUuid": f"u{number}", "toolUseResult": {"stdout": one.text},
                     "message": {"role": "user", "content": [{"type": "tool_result", "content": one.text}]}, **about})  # fmt: skip
        rows.append({"type": "assistant", "uuid": f"a{number}", "parentUuid": f"t{number}",
                     "message": {"id": f"m{number}", "role": "assistant", "content": [{"type": "text", "text": told}], "stop_reason": "end_turn"}, **about})  # fmt: skip
    rows.append({"type": "custom-title", "sessionId": session, "customTitle": secrets[0].text.splitlines()[0]})
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def kept(house: House) -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of everything that the house has kept: files, and the objects of git as they are without compression."""
    for folder in ("vault", "data_home", "cache_home", "state_home", "config_home"):
        for file in (house.home / folder).rglob("*"):
            if file.is_file() and "/models/" not in str(file):
                yield str(file.relative_to(house.home)), file.read_bytes()
    yield "stderr", (house.home / "stderr").read_bytes()
    objects = subprocess.run(
        ["git", "cat-file", "--batch", "--batch-all-objects"],
        cwd=house.vault,
        env=house.env,
        capture_output=True,
        check=True,
    )
    yield "git objects", objects.stdout


def traces(house: House, secrets: Sequence[PlantedSecret]) -> list[tuple[str, str]]:
    """Where a secret is still found: (its kind, where)."""
    parts = [(one.kind, part.lower().encode()) for one in secrets for part in one.parts]
    found = set()
    for name, data in kept(house):
        lowered = data.lower()
        found |= {(kind, name) for kind, part in parts if part in lowered}
    return sorted(found)  # with the place, because that tells the entrance


def test_no_entrance_lets_a_secret_through() -> None:
    seeds = iter(range(100))
    every: list[PlantedSecret] = []

    def some() -> list[PlantedSecret]:
        every.extend(made := planted(next(seeds)))
        return made

    with open_house(
        ORMAH_SESSIONS_WATCH="1", ORMAH_SESSIONS_QUIET_SECONDS="0.1", ORMAH_LOG_LEVEL="debug"
    ) as house:  # fmt: skip
        home = Path(house.env["HOME"])
        outside = home / "outside"
        (home / "notes").mkdir()
        outside.mkdir()
        house.settings["ORMAH_SESSIONS_FOLDERS"] = str(home / "watched")
        (home / "watched").mkdir()
        house.start()
        # transcripts: named, watched, past, told by a hook
        assert house.json("ingest", str(transcript(outside / "named.jsonl", "named", some())))["added"] == 400
        transcript(home / "watched" / "seen.jsonl", "seen", some())
        transcript(home / ".claude" / "projects" / "-src" / "past.jsonl", "past", some())
        assert house.json("ingest", "--backfill")["added"] == 400
        told = some()
        stop_hook(house, transcript(outside / "hook.jsonl", "hook", told[:-1]), "hook", told[-1].text)
        # texts: a conversation, documents, a source, an export, an import
        said = "".join(f"User: {one.text}\nAssistant: I see.\n" for one in some() if "\n" not in one.text)
        assert house.ctl("ingest", "-", input=said).returncode == 0
        (outside / "doc.md").write_text("".join(f"# Section {at}\n\n{one.text}\n\n" for at, one in enumerate(some())))
        assert house.json("ingest", str(outside / "doc.md"))["documents"]["added"] >= 190
        (home / "notes" / "a.md").write_text(
            "".join(f"# {one.text.splitlines()[0]}\n\nSee {one.text}\n\n" for one in some())
        )
        house.json("sources", "add", str(home / "notes"))
        remembered = {"conversations_memory": "\n\n".join(one.text.replace("\n\n", "\n") for one in some())}
        with zipfile.ZipFile(outside / "export.zip", "w") as box:
            box.writestr("memories.json", json.dumps([remembered]))
        assert house.json("ingest", str(outside / "export.zip"))["proposed"] >= 20
        lines = [
            json.dumps({"content": one.text, "title": one.text.splitlines()[0][:250], "tags": [one.kind]})
            for one in some()
        ]
        (outside / "import.jsonl").write_text("\n".join(lines))
        assert house.json("import", str(outside / "import.jsonl"))["added"] >= 20
        # what agents call, eight secrets of a kind at a time
        agent = some()
        with house.connect() as connection:
            for at in range(0, len(agent), 8):
                text = "\n\n".join(one.text for one in agent[at : at + 8])
                connection.call(
                    "agent.remember",
                    {"content": text, "title": agent[at].text.splitlines()[0][:200], "tags": [agent[at + 1].kind]},
                )
                connection.call("agent.whisper", {"prompt": text, "session_id": "s"})
                connection.call("agent.recall", {"query": agent[at + 2].text[:1000]})
        wait_until(lambda: house.json("show", "seen")["total_turns"] >= 5 * 400 - 100, "all transcripts")
        wait_until(lambda: house.json("sources")["sources"][0]["sections"] > 0, "the source")
        assert len(every) == 200 * 10
        assert traces(house, every) == []
        assert house.stop() == 0
        assert traces(house, every) == []


def test_no_name_lets_a_secret_through(house: House) -> None:
    """Spaces, agents, sources, sessions, runs and reasons: what is stored beside the texts."""
    keys = iter(
        [one for one in planted(200) + planted(201) + planted(202) if one.kind in {"github", "openai", "stripe"}]
    )
    every: list[PlantedSecret] = []

    def name() -> str:
        every.append(key := next(keys))
        return key.parts[0]

    house.start()
    (house.home / "work").mkdir()
    subprocess.run(["git", "init", "-q", "work"], cwd=house.home, env=house.env, check=True)
    one = house.call("agent.remember", content="One.", space=name(), source=name(), agent=name(), request_id=name())
    assert len(one.redacted) == 3
    two = house.call("agent.remember", content="Two.", agent=name()).node_id
    house.call("agent.update", node_id=two, space=name(), agent=name(),
               add_connections=[{"target": one.node_id, "reason": f"it needs {name()}"}])  # fmt: skip
    house.call("agent.connect", source_id=one.node_id, target_id=two, edge="supports", reason=f"see {name()}")
    house.call("agent.recall", query="one", space=name(), session_id=name(), agent=name())
    house.call("agent.whisper", prompt="What is one, and what is two?", space=name(), session_id=name(), agent=name())
    house.call("agent.assign_space", space=name(), cwd=str(house.home / "work"))
    (house.home / name()).mkdir()
    folders = [house.home / every[-1].parts[0], house.home / "clone"]
    for words in (
        ["init", "-q", "clone"],
        ["-C", "clone", "remote", "add", "origin", f"https://git.example.org/ada/{name()}.git"],
    ):
        subprocess.run(["git", *words], cwd=house.home, env=house.env, check=True)
    of_folders = [
        house.call("agent.remember", content=f"It is kept in {at}.", cwd=str(folder))
        for at, folder in enumerate(folders)
    ]
    spaces = {house.json("show", one.node_id)["space"] for one in of_folders}
    assert len(spaces) == 2, spaces
    assert all(one.startswith("hidden-") for one in spaces)
    line = {"content": "Three.", "space": name(), "source": name(), "valid_until": "2026-01-01", "outdated_reason": name(),
            "connections": [{"target": two, "reason": name()}]}  # fmt: skip
    assert house.call("admin.import", lines=[json.dumps(line)], run=name(), agent=name()).redacted == 1
    (house.home / "doc.md").write_text("# Ducks\n\nDucks swim on the pond.\n")
    house.call("ingest.file", path=str(house.home / "doc.md"), space=name(), run=name(), agent=name())
    stop_hook(house, house.home / "nowhere.jsonl", name(), "Ducks swim.")
    named = transcript(house.home / "named.jsonl", name(), planted(203)[:10])
    assert house.json("ingest", str(named))["added"] == 20
    assert house.json("recall", "--sessions")["total"] == 1
    assert house.json("show", two)["space"].startswith("[redacted: ")
    assert traces(house, every) == []
    assert house.stop() == 0
    assert traces(house, every) == []


def test_technical_sentences_stay_as_they_are() -> None:
    touched = [text for text in clean() if redact(text).found]
    assert len(list(clean())) == 1000
    assert len(touched) <= 10, touched
