"""Recognises the judge's own sessions, so that no memory is ever made from them.

A coding agent that runs as the judge may call hooks and write transcripts as in any other session. Its sessions are
recognised by a variable in the environment, by the folder in which it runs, and by the first line of the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

VARIABLE: Final = "ORMAH_JUDGING"
"""The variable that is 1 in the environment of a command that runs as the judge. `ormahctl/shim/prompt.py` has a copy
of this name."""
FOLDER: Final = "judge"
"""Name of the folder in the state directory in which such a command runs."""
MARK: Final = "<!-- ormah:judge -->"
"""The first line of every prompt to a judge."""

_BEFORE: Final = 1_000
"""Number of characters at the beginning of a prompt in which the mark is looked for, as a prompt may have megabytes."""
_KEY = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-[0-9a-f]{8}"
_PLACE = re.compile(rf"/ormah/{_KEY}/{FOLDER}(?:/|$)")
_ENCODED = re.compile(rf"-ormah-{_KEY}-{FOLDER}(?:/|$)")
"""Matches the folder of such a command in the form in which Claude Code names its folders of transcripts."""


def is_own_session(
    *,
    cwd: str | None = None,
    transcript: str | None = None,
    text: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> bool:
    """Return whether a session is one of the judge's own. Each argument may show this; the caller passes those that it
    knows.

    `cwd`: the session's working directory. `transcript`: the path of its transcript. `text`: its first prompt.
    `environ`: the environment of a process that runs in the session.
    """
    if environ is not None and environ.get(VARIABLE):
        return True
    if cwd is not None and _PLACE.search(cwd):
        return True
    if transcript is not None and (_PLACE.search(transcript) or _ENCODED.search(transcript)):
        return True
    return text is not None and text[:_BEFORE].lstrip().startswith(MARK)
