"""Sessions from which memories are to be made, and an `Ormah` that makes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ormahd.config import load
from ormahd.ormah import Ormah
from tests import fresh_vault
from tests.surroundings import surroundings

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
ID = "6f1d2c3b-aaaa-4bbb-8ccc-0123456789ab"
SAID = (
    "Remember that the staging database listens on port 5433.",
    "We decided to write commit messages in the imperative mood.",
    "We decided to use Vite instead of Webpack for the shop.",
    "My name is Ada Lovelace.",
)
"""What a person says in a session and is to be remembered."""


@contextmanager
def opened(home: Path, *, now: datetime = NOW, environ: dict[str, str] | None = None) -> Iterator[Ormah]:
    """Yield an open `Ormah` that is ready, with the hashing embedder."""
    home.mkdir(parents=True, exist_ok=True)
    variables = (
        surroundings(home) | {"ORMAH_VAULT": str(home / "vault"), "ORMAH_EMBEDDING_MODEL": "hashing"} | (environ or {})
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        fresh_vault.begin(home / "vault", now)
        found = Ormah.open(load(None, variables), clock=lambda: now)
        try:
            found.warm()
            yield found
        finally:
            found.close()


def exchange(number: int, question: str, answer: str = "All right.", *, session: str = ID, cwd: str = "/home/ada/shop",
             at: datetime = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)) -> list[dict[str, Any]]:  # fmt: skip
    """Return the two lines of an exchange in a transcript of Claude Code."""
    time = at + timedelta(minutes=number)
    about = {"sessionId": session, "cwd": cwd}
    asked = {"type": "user", "uuid": f"{session}-u{number}", "parentUuid": f"{session}-a{number - 1}" if number else None,
             "timestamp": f"{time:%Y-%m-%dT%H:%M:%S}.000Z", "message": {"role": "user", "content": question}, **about}  # fmt: skip
    said = {"type": "assistant", "uuid": f"{session}-a{number}", "parentUuid": f"{session}-u{number}",
            "timestamp": f"{time:%Y-%m-%dT%H:%M:%S}.500Z", **about,
            "message": {"id": f"{session}-m{number}", "role": "assistant", "stop_reason": "end_turn", "content": [{"type": "text", "text": answer}]}}  # fmt: skip
    return [asked, said]


def transcript(file: Path, said: Sequence[str], *, answers: Sequence[str] = (), **about: Any) -> Path:
    """Write a transcript of Claude Code in which a person says these things, and the agent answers."""
    told = answers or ["All right."] * len(said)
    rows = [row for number, pair in enumerate(zip(said, told, strict=True)) for row in exchange(number, *pair, **about)]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return file


def contents(ormah: Ormah) -> list[str]:
    """Return the texts of all extracted memories, sorted."""
    return sorted(row.content for row in ormah.index.notes(list(ormah.index.extracted_from())).values())
