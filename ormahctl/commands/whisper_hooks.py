"""`ormahctl whisper inject` and `ormahctl whisper store`: the hooks by the names that the seeds give them."""

from __future__ import annotations

import click

from ormahctl.commands.hook import HookVerb, answer, deadline_option, harness_option
from ormahctl.session import Session, pass_session

_PROMPT = {"gemini": "BeforeAgent"}
"""What a prompt's event is called where it is not `UserPromptSubmit`."""


@click.command(
    cls=HookVerb,
    short_help="Answer an agent's prompt hook (JSON on stdin).",
    example='echo \'{"prompt": "which database did we choose?", "session_id": "s1"}\' | ormahctl whisper inject',
)
@harness_option
@deadline_option
@pass_session
def inject(session: Session, harness: str, deadline: int) -> None:
    """Answer a prompt's hook: `prompt`, `cwd` and `session_id` as JSON on stdin, `additionalContext` as JSON on stdout.

    Prints nothing where nothing matters, and on any trouble; the status is always 0.
    """
    answer(session, _PROMPT.get(harness, "UserPromptSubmit"), harness, deadline)


@click.command(
    cls=HookVerb,
    short_help="Hand a session's transcript over (hook's JSON on stdin).",
    example='echo \'{"session_id": "s1", "transcript_path": "/tmp/s1.jsonl"}\' | ormahctl whisper store',
)
@harness_option
@deadline_option
@pass_session
def store(session: Session, harness: str, deadline: int) -> None:
    """Hand the session that a hook tells of (`session_id`, `transcript_path`, `cwd` as JSON on stdin) to ingestion.

    Returns at once and prints nothing; the status is always 0.
    """
    answer(session, "SessionEnd", harness, deadline)


HOOKS = {"inject": inject, "store": store}
"""The words with which `ormahctl whisper` means a hook and not a prompt, when they stand first."""
