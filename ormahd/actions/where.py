"""Where a project's last session stopped: what was asked last, what was edited, the error that stood, the open question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from ormahd import api
from ormahd.actions.amend import Caller
from ormahd.actions.projects import place_of
from ormahd.actions.work import same_kind
from ormahd.ormah import Ormah
from ormahd.sessions.archive import ArchivedDeed
from ormahd.text.harness import without_wrapping
from ormahd.text.quoting import one_line
from ormahd.vault.spaces import project_folder, read_branch

CHARACTERS: Final = 600
"""Largest number of characters of the lines for an agent."""
QUOTED, ERROR, FILES = 160, 120, 5
"""Maximum number of characters of a request or question, and of a command or error; maximum number of files."""
NEWEST: Final = 20
"""Number of sessions among which the last one with a request is looked for."""
WORDS: Final = 4
"""Minimum number of words of a request: a shorter prompt ("yes, go on") says nothing of the work."""
SHORTEST: Final = 8
"""Minimum number of characters of a question."""
_END: Final = re.compile(r"[.!?\n]")


def where(ormah: Ormah, caller: Caller) -> api.WhereResult:
    """Return where work stopped in the last session of the caller's project: its last requests and commands. Empty if
    there was none."""
    return last_work(ormah, place_of(ormah, caller), but=caller.session)


def last_work(ormah: Ormah, cwd: str | None, *, but: str | None = None, of: str | None = None) -> api.WhereResult:
    """Return where work stopped in the last session of the project around `cwd`. Empty if there was none.

    `but`: the id of a session to ignore. `of`: the id of the only session to use.
    """
    folder = project_folder(cwd)
    if folder is None:
        return api.WhereResult()
    for row in ormah.sessions.newest(NEWEST, project=str(folder)):
        turns = ormah.sessions.turns_of(row.path) if row.id != but and of in (None, row.id) else []
        prompts = [archived.text for archived in turns if archived.role == "user"]
        asked = [text for text in prompts if len(text.split()) >= WORDS]

        # A session without a real request was only a short exchange
        if not asked:
            continue
        deeds = ormah.sessions.deeds_of(row.number)
        edited = [path for deed in reversed(deeds) if not deed.command for path in deed.files.splitlines()]
        failed = _unresolved_failure(deeds)

        # The question with which the last answer ends, without its markup
        answer = turns[-1].text if turns[-1].role == "assistant" else ""
        end = answer[-2 * QUOTED :].rstrip(' \n*_`"”)')
        last = _END.split(end[:-1])[-1].strip(' *_`"“(')
        return api.WhereResult(
            session=row.id,
            harness=row.harness,
            time=row.last,
            request=one_line(without_wrapping(asked[-1]), QUOTED),
            files=list(dict.fromkeys(edited))[:FILES],
            command=None if failed is None else one_line(failed.command, ERROR),
            error=None if failed is None else one_line(failed.error, ERROR),
            question=one_line(f"{last}?", QUOTED) if end.endswith("?") and len(last) >= SHORTEST else None,
            branch=read_branch(folder),
        )
    return api.WhereResult()


def as_lines(found: api.WhereResult) -> list[str]:
    """Return `found` as lines for an agent, in at most `CHARACTERS`; empty if there was no session."""
    if found.request is None:
        return []
    day = "" if found.time is None else f"{datetime.fromisoformat(found.time).astimezone():%Y-%m-%d}, "
    lines = [f"the last session in this project ({day}{found.harness}) was asked: “{found.request}”"]
    lines += [f"it edited {', '.join(found.files)}"] if found.files else []
    lines += [f"a failure stood at its end: {found.command}: {found.error}"] if found.error else []
    lines += [f"it ended with the question: “{found.question}”"] if found.question else []
    lines += [f"the branch is {found.branch} now"] if found.branch else []
    room, fitting = CHARACTERS, []
    for line in lines:
        room -= len(line) + len("\nOrmah: ")
        if room >= 0:
            fitting.append(line)
    return fitting


def _unresolved_failure(deeds: Sequence[ArchivedDeed]) -> ArchivedDeed | None:
    """Return the last command that failed and did not work later in the session; None if there is none."""
    worked: list[str] = []
    for deed in reversed(deeds):
        if deed.command and not deed.status:
            worked.append(deed.command)
        elif deed.command and deed.error and not any(same_kind(deed.command, one) for one in worked):
            return deed
    return None
