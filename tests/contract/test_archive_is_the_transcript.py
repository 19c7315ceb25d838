"""The archive equals the transcript turn by turn, of every format, in whatever portions it is read; nothing is lost by a guess."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ormahd import paths
from ormahd.api import SessionLine
from ormahd.ingest.readers import lines
from ormahd.ormah import Ormah
from tests.contract.archiving import bring, opened, show
from tests.contract.transcripts import STEPS, Expected, export, made

COUNT = 10
SAMPLES = Path(__file__).parents[3] / "shared" / "agents" / "samples"
"""Transcripts that the agents wrote."""


@pytest.fixture(scope="module")
def ormah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ormah]:
    with opened(tmp_path_factory.mktemp("house")) as found:
        yield found


def kept(ormah: Ormah, file: Path, versions: Sequence[bytes], session: str) -> Expected:
    """What an empty archive has of a session after the versions of its file were read one after the other."""
    ormah.sessions.close()
    shutil.rmtree(paths.sessions_dir(ormah.vault.id), ignore_errors=True)
    for one in ormah.index.directory.glob("sessions.sqlite3*"):
        one.unlink()
    for number, data in enumerate(versions):
        file.write_bytes(data)
        seconds = 4_000_000_000 + number if number + 1 < len(versions) else 1_000_000_000  # at last nobody writes to it
        os.utime(file, (seconds, seconds))
        assert bring(ormah, file).status != "failed"
    found = [(one.role, one.text, one.withdrawn) for one in show(ormah, session_id=session).turns]
    row, turns = ormah.sessions.session(session)
    ormah.sessions.close()
    for one in ormah.index.directory.glob("sessions.sqlite3*"):
        one.unlink()
    again = [(one.role, one.text, bool(one.withdrawn)) for one in ormah.sessions.session(session)[1]]
    assert again == found, "the index is made anew of the files"
    assert row.turns == sum(not one.withdrawn for one in turns)
    return found


def sessions_of(ormah: Ormah, session: str) -> Sequence[SessionLine]:
    found = [one for one in ormah.sessions.newest(99) if one.id == session]
    return show(ormah, session_id=session).turns if found else []


def portions(data: bytes, count: int) -> list[bytes]:
    return [data[: len(data) * at // count] for at in range(1, count + 1)]


@pytest.mark.parametrize("seed", range(COUNT))
@pytest.mark.parametrize("name", STEPS)
def test_in_any_portions(ormah: Ormah, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, seed: int) -> None:
    monkeypatch.setattr(lines, "LONGEST", 200_000)
    monkeypatch.setattr(lines, "CHUNK", 50_000)
    talk = made(name, seed)
    data = b"".join(talk.lines)
    for count in (1, 2, 10, 100):
        assert kept(ormah, tmp_path / "t.jsonl", portions(data, count), talk.session) == talk.turns, (
            f"in {count} portions"
        )


@pytest.mark.parametrize("name", ["chatgpt", "claude-ai"])
def test_an_export_that_grows(ormah: Ormah, tmp_path: Path, name: str) -> None:
    versions, turns = export(name, 20)
    assert (
        kept(ormah, tmp_path / "e.json", versions, name)
        == kept(ormah, tmp_path / "w.json", versions[-1:], name)
        == turns
    )


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the samples are not here")
@pytest.mark.parametrize("file", sorted(SAMPLES.glob("*.jsonl")), ids=lambda file: file.stem)
def test_what_the_agents_wrote(ormah: Ormah, tmp_path: Path, file: Path) -> None:
    data = file.read_bytes()
    head = json.loads(data[: data.index(b"\n")])
    session = head.get("sessionId") or head.get("payload", {}).get("id")
    if "subagent" in file.stem and "codex" in file.stem:
        return
    whole = kept(ormah, tmp_path / "t.jsonl", [data], session)
    assert [role for role, _, _ in whole].count("user") * 2 >= len(whole)
    assert not any(back for _, _, back in whole)
    assert not [text for _, text, _ in whole if "SUMMARY" in text or "Scripted summary" in text or text == "Noted."]
    for count in (2, 10, 100):
        assert kept(ormah, tmp_path / "t.jsonl", portions(data, count), session) == whole


def test_a_turn_of_two_sessions_is_withdrawn_in_neither(ormah: Ormah, tmp_path: Path) -> None:
    """The fork is read first and goes back in what both have: its session keeps that, marked, until the other one shows it."""
    whole = made("claude", 1).play(["ask", "ask"])
    fork = made("claude", 1).play(["ask", "ask"])
    fork.lines = [line.replace(b'"sessionId": "claude-1"', b'"sessionId": "fork"') for line in fork.lines]
    fork.session = "fork"
    fork.do_rewind()
    kept(ormah, tmp_path / "fork.jsonl", [b"".join(fork.lines)], "fork")
    (tmp_path / "first.jsonl").write_bytes(b"".join(whole.lines))
    for name in ("first.jsonl", "fork.jsonl", "first.jsonl"):
        os.utime(tmp_path / name)
        bring(ormah, tmp_path / name)
        texts = {one.text: one.withdrawn for path in ("fork", "claude-1") for one in sessions_of(ormah, path)}
        live = {text for _, text, back in whole.turns if not back}
        assert not [text for text in live if texts[text]]
    assert not any(back and text in live for _, text, back in whole.turns)
