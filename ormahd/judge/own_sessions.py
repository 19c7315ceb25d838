"""Recognises the judge's own sessions, so that nothing is ever learned from them.

A coding agent that runs as the judge may fire hooks and write transcripts like any other session. Each of its sessions has
three signs: a variable in its environment, the folder that it runs in, and the first line of its prompt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

VARIABLE: Final = "ORMAH_JUDGING"
"""Set to 1 in the environment of a command that runs as the judge. `ormahctl/shim/prompt.py` knows the name too."""
FOLDER: Final = "judge"
"""Name of the folder, in the state directory, that such a command runs in."""
MARK: Final = "<!-- ormah:judge -->"
"""The first line of every prompt to a judge."""

_BEFORE: Final = 1_000
"""Characters at the beginning of a prompt in which the mark is looked for: a prompt may have megabytes."""
_KEY = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-[0-9a-f]{8}"
_PLACE = re.compile(rf"/ormah/{_KEY}/{FOLDER}(?:/|$)")
_ENCODED = re.compile(rf"-ormah-{_KEY}-{FOLDER}(?:/|$)")
"""The folder as Claude Code writes it into the name of a folder of transcripts."""


def is_own_session(
    *, cwd: str | None = None, transcript: str | None = None, text: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> bool:  # fmt: skip
    """Return whether a session is one of the judge's own, by whatever is known of it.

    `cwd`: its working directory. `transcript`: the path of its transcript. `text`: its first prompt. `environ`: the environment
    of a process in it.
    """
    if environ is not None and environ.get(VARIABLE):
        return True
    if cwd is not None and _PLACE.search(cwd):
        return True
    if transcript is not None and (_PLACE.search(transcript) or _ENCODED.search(transcript)):
        return True
    return text is not None and text[:_BEFORE].lstrip().startswith(MARK)
