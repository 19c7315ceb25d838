"""What was asked and answered, and what was looked at: so that no job asks or searches the same thing twice.

Kept by the texts that a question was about (sha256 of title and content), so that a changed memory is a new question and
a moved one is not. A disposable memory: losing it costs questions, never a note.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ormahd.process import sql
from ormahd.state.state import State

CONFLICT = "conflict"
"""The question whether two memories cannot both hold, as a judge or an agent answered it."""


def text_key(title: str | None, content: str) -> str:
    """The key of a memory's text, hex."""
    return hashlib.sha256(f"{title or ''}\x00{content}".encode("utf-8", "surrogatepass")).hexdigest()


class Verdicts:
    """Of one vault. `question` is what was asked: "duplicate", "link", "conflict", "consolidate"."""

    def __init__(self, state: State) -> None:
        self._state = state

    def known(self, question: str, texts: Sequence[str]) -> dict[str, Any] | None:
        """The verdict on these texts (keys, in any order), or None where nobody was asked."""
        with self._state.transaction() as db:
            row = db.execute(
                "SELECT verdict FROM verdict WHERE question = ? AND texts = ?", (question, _key(texts))
            ).fetchone()
        return None if row is None else dict(json.loads(row[0]))

    def remember(self, question: str, texts: Sequence[str], verdict: Mapping[str, Any]) -> None:
        with self._state.transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO verdict (question, texts, verdict, time) VALUES (?, ?, ?, ?)",
                (question, _key(texts), json.dumps(verdict), self._state.clock().isoformat()),
            )

    def forget(self, question: str, texts: Sequence[str]) -> None:
        """Ask again: what the verdict led to was taken back, or could not be done."""
        with self._state.transaction() as db:
            db.execute("DELETE FROM verdict WHERE question = ? AND texts = ?", (question, _key(texts)))

    def unseen(self, job: str, texts: Mapping[str, str]) -> list[str]:
        """Those of the nodes (id to text key) whose text the job has not looked at yet, in their order."""
        seen: dict[str, str] = {}
        ids = list(texts)
        with self._state.transaction() as db:
            for some in sql.chunks(ids):
                rest = f"FROM looked WHERE job = ? AND node_id IN ({sql.marks(some)})"
                seen |= {row[0]: row[1] for row in sql.table(db, ("node_id", "text"), rest, (job, *some))}
        return [node_id for node_id in ids if seen.get(node_id) != texts[node_id]]

    def seen(self, job: str, texts: Iterable[tuple[str, str]]) -> None:
        """The job has looked for partners of these nodes (id, text key): all that came of it is committed or remembered."""
        with self._state.transaction() as db:
            rows = [(job, node_id, text) for node_id, text in texts]
            sql.put(db, "INSERT OR REPLACE INTO looked (job, node_id, text)", rows)


def _key(texts: Sequence[str]) -> str:
    return " ".join(sorted(texts))
