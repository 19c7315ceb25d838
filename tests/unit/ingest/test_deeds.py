"""Of tool calls the commands and the edited files are taken, and of failures the line that states the error."""

import io
import json
from pathlib import Path

import pytest

from ormahd.ingest.readers.deeds import DeedPlace, add_deed, call_of, status_of
from ormahd.ingest.readers.formats import READERS
from ormahd.ingest.readers.turns import Reading
from ormahd.sessions.failures import error_of
from tests.quality import work
from tests.tables import rows

TABLE = Path(__file__).with_suffix(".toml")


@pytest.mark.parametrize(("tool", "given", "command", "files"), rows(TABLE, "calls"))
def test_what_a_call_does(tool: str, given: str, command: str, files: list[str]) -> None:
    found = call_of(tool, json.loads(given, strict=False))
    assert (found.command if found else "", list(found.files) if found else []) == (command, files)


@pytest.mark.parametrize(("printed", "error"), rows(TABLE, "errors"))
def test_the_line_that_states_the_error(printed: str, error: str) -> None:
    assert error_of(printed) == error


@pytest.mark.parametrize(("printed", "status"), rows(TABLE, "statuses"))
def test_the_exit_status(printed: str, status: int) -> None:
    found = status_of(printed)
    assert (-999 if found is None else found) == status


@pytest.mark.parametrize("client", ["claude-code", "codex", "gemini"])
def test_a_transcript_gives_each_step_once(client: str) -> None:
    for one in (one for one in work.sessions() if one.client == client):
        reading = Reading(name="x", cwd=one.cwd)
        turns = {turn.key: turn.text for turn in READERS[client](io.BytesIO(work.transcript(one)), reading)}
        steps = [(asked.prompt, step) for asked in one.asked for step in asked.done]
        assert [(deed.command, deed.files, deed.status, turns[deed.to]) for deed in reading.deeds] == [
            (step.command, (step.file,) if step.file else (), step.status, prompt) for prompt, step in steps
        ]
        assert len({deed.key for deed in reading.deeds}) == len(steps)
        assert not any(word in str(reading.deeds) for word in (work.PRINTED, work.WRITTEN))


@pytest.mark.parametrize(("command", "printed", "error"), rows(TABLE, "hidden"))
def test_an_error_that_a_pipe_hides(command: str, printed: str, error: str) -> None:
    reading = Reading()
    call = call_of("Bash", {"command": command})
    assert call is not None
    add_deed(reading, call, "t1", DeedPlace("p1", "s", None, None), status=0, text=printed)
    assert [(one.status != 0, one.error) for one in reading.deeds] == [(bool(error), error)]
