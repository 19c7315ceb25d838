"""Of what is said in a folder of `sessions.exclude` nothing is stored: no prompt, answer or title, in whatever file of Ormah."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from ormahd.actions.amend import Caller
from ormahd.actions.feedback import feedback
from ormahd.actions.lookup import whispered
from ormahd.actions.projects import is_unkept
from ormahd.actions.remember import store_memory
from ormahd.api import FeedbackParams, WhispersParams
from ormahd.errors import NotFound
from ormahd.ingest import bring_in
from ormahd.ingest.by_agent import AgentReading
from ormahd.ingest.extraction import Extraction
from ormahd.model.node import CreateNodeRequest, NodeType
from ormahd.ormah import Ormah
from ormahd.rpc.hooks import Hooks
from ormahd.state import whispers
from ormahd.whisper.pipeline import Whisper
from tests.contract import archiving
from tests.extraction_house import transcript

CODE_NAME = "ostrichfeather"
PROMPT = f"when does the ferry to the island leave, for the {CODE_NAME} plan?"


def opened(home: Path, exclude: str = "") -> AbstractContextManager[Ormah]:
    variables = {"ORMAH_WHISPER_NUDGE_INTERVAL": "0", "ORMAH_SESSIONS_EXCLUDE": exclude}
    return archiving.opened(home, variables={name: value for name, value in variables.items() if value})


def hooked(hooks: Hooks, event: str, cwd: str, **said: Any) -> str:
    given = json.dumps({"session_id": "s", "cwd": cwd, **said}).encode()
    return hooks.answer(b"\0".join((b"claude-code", event.encode(), cwd.encode(), b"", given))).decode()


def holding(home: Path, word: str = CODE_NAME) -> list[str]:
    return [str(file) for file in home.rglob("*") if file.is_file() and word.encode() in file.read_bytes()]


def test_a_prompt_of_an_excluded_folder_is_answered_and_not_stored(tmp_path: Path) -> None:
    secret, other = f"{tmp_path}/secret", f"{tmp_path}/other"
    with opened(tmp_path, exclude=secret) as ormah:
        ormah.warm()
        person = Caller("person", None)
        stored = store_memory(
            ormah,
            CreateNodeRequest(content="The ferry to the island leaves at noon.", type=NodeType.FACT, source="person"),
            person,
        )
        hooks = Hooks(Whisper(ormah))
        assert "ferry" in hooked(hooks, "UserPromptSubmit", f"{secret}/deep", prompt=PROMPT), (
            "it is whispered all the same"
        )
        hooked(hooks, "UserPromptSubmit", other, prompt=f"{PROMPT} and back?")  # it began in the excluded folder
        asked = Caller("agent:codex", secret)
        assert is_unkept(ormah, asked, None)
        assert is_unkept(ormah, Caller("agent:codex", other), "s"), "by the session that a program names"
        assert not is_unkept(ormah, Caller("agent:codex", other), "t")
        with pytest.raises(NotFound):
            feedback(ormah, FeedbackParams(node_id=stored.node_id, signal=1), person)
        log = whispered(ormah, WhispersParams(limit=9)).whispers
        assert [(one.prompt, one.silence) for one in log][-1] == ("", None), "it is counted"
        assert len(log) == 2
        hooked(hooks, "UserPromptSubmit", other, prompt="what of the kiwifruit?", session_id="t")
        hooked(hooks, "UserPromptSubmit", secret, prompt=f"what of the {CODE_NAME} there?", session_id="t")
    assert holding(tmp_path) == []
    assert holding(tmp_path, "kiwifruit"), "the search of this test finds what is stored"


def test_what_was_stored_before_a_folder_was_excluded_is_deleted(tmp_path: Path) -> None:
    secret = f"{tmp_path}/secret"
    with opened(tmp_path) as ormah:
        ormah.warm()
        hooks = Hooks(Whisper(ormah))
        hooked(hooks, "UserPromptSubmit", secret, prompt=PROMPT)
        hooked(hooks, "UserPromptSubmit", f"{tmp_path}/other", prompt="what of the kiwifruit?", session_id="t")
        assert holding(tmp_path)
        assert whispers.delete_excluded(ormah.state, [secret]) == 2
        assert whispers.delete_excluded(ormah.state, [secret]) == 0
        assert whispers.figures(ormah.state).prompts == 2
    assert holding(tmp_path) == []
    assert holding(tmp_path, "kiwifruit")


def test_what_was_archived_before_is_not_read_for_memories(tmp_path: Path) -> None:
    file = transcript(tmp_path / "t" / "s1.jsonl", ["Remember that the gate is blue."], cwd=f"{tmp_path}/secret")
    with opened(tmp_path) as ormah:
        assert bring_in.archive(ormah, file).out.added == 2
    with opened(tmp_path, exclude=f"{tmp_path}/secret") as ormah:
        extraction = Extraction(ormah)
        assert extraction.waiting() == []
        assert extraction.settle() == 0
        assert not AgentReading(ormah, judge=False).has_unread()
    with opened(tmp_path) as ormah:
        assert AgentReading(ormah, judge=False).has_unread()
        assert Extraction(ormah).settle() == 1, "the setting was taken back"


@pytest.mark.parametrize("batch", [1, 500])
def test_a_title_does_not_tell_what_was_said_in_an_excluded_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(bring_in, "BATCH", batch)

    def written(session: str, last: str) -> Path:
        said = ["Use cents everywhere.", "Cents it is.", f"The {CODE_NAME} is here.", "Yes."]
        lines: list[dict[str, Any]] = []
        for number, text in enumerate(said):
            kind = "assistant" if number % 2 else "user"
            content = [{"type": "text", "text": text}]
            message = {"role": kind, "content": content, "id": f"m{number}", "stop_reason": "end_turn"}
            line = {"type": kind, "uuid": f"{session}-{number}", "sessionId": session, "message": message,
                    "parentUuid": f"{session}-{number - 1}" if number else None, "cwd": last if number > 1 else "/src/shop",
                    "timestamp": f"2026-11-02T09:00:{number:02}.000Z"}  # fmt: skip
            lines.append(line)
        lines.append({"type": "custom-title", "customTitle": f"Plans of {CODE_NAME}", "sessionId": session})
        file = tmp_path / f"{session}.jsonl"
        file.write_text("".join(json.dumps(one) + "\n" for one in lines))
        return file

    with opened(tmp_path, exclude=f"{tmp_path}/secret") as ormah:
        for file in (written("s1", f"{tmp_path}/secret"), written("s2", "/src/shop")):
            bring_in.ingest(ormah, str(file), progress=lambda *_: None)
        titles = {one.id: one.title for one in ormah.sessions.newest(9)}
        assert titles == {"s1": None, "s2": f"Plans of {CODE_NAME}"}
