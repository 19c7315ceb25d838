"""Tells an agent whose command failed what fixed the same error before: from the archive, or from a memory that names it."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from ormahd.actions.work import fix, fix_as_text, when
from ormahd.index.rows import GLOBAL, Filter, NodeRow
from ormahd.ingest.readers.deeds import only_reads, status_of
from ormahd.ormah import Ormah
from ormahd.process.own_files import open_regular
from ormahd.sessions.failures import error_of, terms_of
from ormahd.text.harness import alone
from ormahd.text.quoting import one_line
from ormahd.whisper.render import notice
from ormahd.whisper.types import Display, context_key

SURE: Final = 0.7
"""How similar two errors must be for an agent to be told, who did not ask."""
TAIL: Final = 400_000
"""Number of bytes at the end of a transcript in which the exit status of a call is looked for."""
ERROR: Final = 120
"""Number of characters of an error that are quoted."""
FIX: Final = 400
MEMORY: Final = 300
POOL: Final = 20
"""Maximum number of memories that are looked through for an error."""
_QUOTED: Final = re.compile(r"`([^`\n]{8,200})`|\"([^\"\n]{8,200})\"|“([^”\n]{8,200})”")


def printed(fields: Mapping[str, Any]) -> str:
    """Return what a failed command printed; "" if it did not fail, or the tool was no command. `fields`: what a harness
    sent after a tool.

    Claude Code sends `error`. Gemini CLI has the exit status in its answer, Codex only in the transcript.
    """
    tool, response = fields.get("tool_input"), fields.get("tool_response")
    command = tool.get("command") if isinstance(tool, dict) else None
    if not isinstance(command, str) or only_reads(command) or fields.get("is_interrupt") is True:
        return ""
    if isinstance(fields.get("error"), str):  # Claude Code
        return str(fields["error"])
    if isinstance(response, dict):  # Gemini CLI, which ends the text with the exit status
        text = response.get("llmContent")
        return text if isinstance(text, str) and status_of(text[-300:]) else ""

    # Codex
    failed = isinstance(response, str) and _status(fields.get("transcript_path"), fields.get("tool_use_id"))
    return str(response) if failed else ""


def _status(transcript: Any, call: Any) -> int:
    """Return the exit status of a call from the end of Codex's transcript; 0 if it has none. `call`: the id of the
    call."""
    if not isinstance(transcript, str) or not isinstance(call, str):
        return 0
    try:
        with open_regular(Path(transcript)) as opened:
            opened.seek(max(0, os.fstat(opened.fileno()).st_size - TAIL))
            lines = opened.read(TAIL).splitlines()
    except OSError:
        return 0
    named = f'"{call}"'.encode("utf-8", "replace")
    statuses = [
        found[1] for line in reversed(lines) if named in line and (found := re.search(rb'"exit_code":\s*(-?\d+)', line))
    ]
    return int(statuses[0]) if statuses else 0


def known_fix(
    ormah: Ormah, output: str, *, space: str | None, session: str | None, known: Collection[str]
) -> tuple[str, dict[str, Display]]:
    """Return (text for the agent about what fixed this error before, what the text shows). ("", {}) if nothing is
    known.

    `known`: keys of what the agent's session has been shown already.
    """
    error = error_of(output)
    if len(terms_of(error)) < 2:
        return "", {}
    if fixes := fix(ormah, error, space, 1, least=SURE, but=session):
        earlier = fixes[0]
        mark = f"fix {earlier.session} {earlier.turn}"
        if not earlier.worked or mark in known:
            return "", {}
        day, how = when(earlier.time, ormah.clock()), one_line(fix_as_text(earlier), FIX)
        text = f"this failed before on {day} ({one_line(earlier.error, ERROR)}). {how}."
        return alone(notice(text)), {mark: "title"}
    row = _memory(ormah, error, output, space)
    if row is None or context_key(row) in known:
        return "", {}
    text = f"a memory names this error (id: {row.short_id}): {one_line(f'{row.title or str()} {row.content}', MEMORY)}"
    return alone(notice(text)), {context_key(row): "full" if len(row.content) <= MEMORY else "title"}


def _memory(ormah: Ormah, error: str, output: str, space: str | None) -> NodeRow | None:
    """Return a memory of the project, or a global one, that contains the whole error or quotes words that were printed.
    None if there is none."""
    chosen = Filter(spaces=(GLOBAL, *([space] if space else [])), alive_at=ormah.ranking_clock())
    ids = [node_id for node_id, _ in ormah.index.search_text(list(terms_of(error)), POOL, chosen)]
    rows = ormah.index.notes(ids)
    folded, printed_words = _folded(error), _folded(output)
    for row in (rows[node_id] for node_id in ids if node_id in rows):
        quotes = [_folded(next(filter(None, found.groups()))) for found in _QUOTED.finditer(row.content)]
        if folded in _folded(row.content) or any(" " in quote and quote in printed_words for quote in quotes):
            return row
    return None


def _folded(text: str) -> str:
    """Return the text in lower case with single spaces."""
    return " ".join(text.casefold().split())
