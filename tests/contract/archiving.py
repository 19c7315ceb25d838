"""What the tests of archived sessions share: a vault in this process, transcripts, and what the archive holds of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from ormahd import paths
from ormahd.actions.sessions import recall_sessions, sessions
from ormahd.api import IngestedFile, SessionsParams, SessionsResult
from ormahd.config import load
from ormahd.ingest.bring_in import ingest
from ormahd.model.node import SearchQuery
from ormahd.ormah import Ormah
from tests import fresh_vault
from tests.surroundings import surroundings

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)


@contextmanager
def opened(
    home: Path, *, now: datetime = NOW, variables: Mapping[str, str] = MappingProxyType({}), **settings: str
) -> Iterator[Ormah]:
    """A vault in `home`. `settings`: of the group `sessions`; `variables`: for other groups."""
    environ = surroundings(home) | {"ORMAH_VAULT": str(home / "vault"), "ORMAH_EMBEDDING_MODEL": "hashing"}
    environ |= {f"ORMAH_SESSIONS_{name.upper()}": value for name, value in settings.items()} | variables
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environ.items():
            patch.setenv(name, value)
        fresh_vault.begin(home / "vault", now)
        found = Ormah.open(load(None, environ), clock=lambda: now)
        try:
            yield found
        finally:
            found.close()


def asked(number: int, text: str, **more: Any) -> dict[str, Any]:
    return _line("user", f"u{number}", f"a{number - 1}" if number else None, number * 2, content=text, **more)


def answered(number: int, text: str, **more: Any) -> dict[str, Any]:
    found = _line(
        "assistant", f"a{number}", f"u{number}", number * 2 + 1, content=[{"type": "text", "text": text}], **more
    )
    found["message"] |= {"id": f"m{number}", "stop_reason": "end_turn"}
    return found


def _line(
    kind: str, uuid: str, parent: str | None, second: int, *, content: Any, session: str = "s1", cwd: str = "/src/shop"
) -> dict[str, Any]:
    at = (
        (datetime(2026, 11, 2, 9, tzinfo=UTC) + timedelta(seconds=second))
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )
    return {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": session, "timestamp": at, "cwd": cwd,
            "message": {"role": kind, "content": content}}  # fmt: skip


def written(file: Path, *lines: dict[str, Any]) -> Path:
    file.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    return file


SHOP = [
    asked(0, "Use cents everywhere."),
    answered(0, "Cents it is."),
    asked(1, "Round half even."),
    answered(1, "Done."),
]


def bring(ormah: Ormah, path: Path) -> IngestedFile:
    return ingest(ormah, str(path), progress=lambda *_: None).out


def archived(ormah: Ormah, *, withdrawn: bool = False) -> list[tuple[str, str]]:
    """Every turn of the archive, as its files have it: (session, text). With `withdrawn`, only those that the person took
    back, else all others. A line that is being written does not count yet."""
    found: list[tuple[str, str]] = []
    for file in sorted(paths.sessions_dir(ormah.vault.id).rglob("*.jsonl")):
        rows = [json.loads(line) for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
        head = next((row for row in rows if "session" in row), {})
        turns: dict[str, dict[str, Any]] = {}
        for row in (row for row in rows if "key" in row):
            turns[row["key"]] = turns.get(row["key"], {}) | row
        found += [
            (head["session"], row["text"])
            for row in turns.values()
            if "text" in row and (row.get("gone") == "withdrawn") == withdrawn
        ]
    return found


def ran(number: int, command: str, *, error: str = "", **more: Any) -> list[dict[str, Any]]:
    """A command that an agent ran below the prompt `number`, and its result. `error`: what it printed if it failed."""
    call = _line("assistant", f"c{number}", f"u{number}", number * 2 + 1, content=[{"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": command}}], **more)  # fmt: skip
    printed = f"Exit code 1\nprinted\n{error}" if error else "printed"
    result = _line("user", f"r{number}", f"c{number}", number * 2 + 1, content=[{"type": "tool_result", "tool_use_id": f"t{number}", "content": printed, "is_error": bool(error)}], **more)  # fmt: skip
    return [call, result]


def done(ormah: Ormah) -> list[tuple[str, str, str]]:
    """Every deed of the archive, as its files have it: (session, text of the prompt, command or files)."""
    rows: list[tuple[str, str, str]] = []
    texts: dict[str, str] = {}
    files = [
        file.read_text().splitlines(keepends=True)
        for file in sorted(paths.sessions_dir(ormah.vault.id).rglob("*.jsonl"))
    ]
    lines = [[json.loads(row) for row in some if row.endswith("\n")] for some in files]
    for row in (row for some in lines for row in some if "key" in row):
        texts |= {row["key"]: row["text"]} if "text" in row else {}
    for some in lines:
        session = asked = ""
        for row in some:
            session = row.get("session", session)
            asked = row["key"] if row.get("role") == "user" else asked
            if "deed" in row and "gone" not in row:
                rows.append((session, texts.get(row.get("to", asked), ""), row.get("did") or " ".join(row["files"])))
    return rows


def show(ormah: Ormah, **asked: Any) -> SessionsResult:
    """What is shown of sessions, or of one."""
    return sessions(ormah.sessions, ormah.index, SessionsParams(**asked))


def found(ormah: Ormah, query: str, **more: Any) -> list[str]:
    """The texts of the exchanges that a search finds."""
    result = recall_sessions(ormah.sessions, ormah.index, SearchQuery(query=query, **more))
    assert isinstance(result.exchanges, list)
    return [" / ".join(said.text for said in one.said) for one in result.exchanges]
