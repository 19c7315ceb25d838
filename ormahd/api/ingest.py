"""`ingest.*` and `agent.sessions`: transcripts and exports are read, and the archive of sessions is looked at."""

from __future__ import annotations

from typing import Final

from ormahd.api.base import Count, Params, Result


class IngestPathParams(Params):
    path: str
    """An absolute path: a transcript, an export, or a folder."""
    dry_run: bool = True
    """Read everything and say what would be archived; false: only list the files."""


class IngestFileParams(Params):
    path: str
    unnamed: bool = False
    """True if the file is a temporary one: nobody can find it there later."""


class IngestedFile(Result):
    """What came of a file, or would."""

    path: str
    status: str = "read"
    """`read`; `unchanged`: nothing new since it was read to its end; `unknown`: no format that is read; `failed`."""
    formats: list[str] = []
    error: str | None = None
    sessions: int = 0
    """With at least one turn that is added."""
    turns: int = 0
    """Turns in the file; the numbers up to `excluded` are parts of it."""
    added: int = 0
    known: int = 0
    open: int = 0
    """Answers that are still being written."""
    excluded: int = 0
    """In folders that `sessions.exclude` names."""
    withdrawn: int = 0
    """Archived turns that the person took back since: they leave the archive."""
    redacted: dict[str, int] = {}
    """Secrets that were taken out, by kind."""
    dropped: dict[str, int] = {}
    """Lines that are nothing of the conversation, by reason."""
    unknown: dict[str, int] = {}
    """Lines and parts of kinds that are not known, by kind."""
    damaged: int = 0
    too_long: int = 0


class IngestPathResult(Result):
    files: list[IngestedFile]


class SessionsParams(Params):
    session_id: str | None = None
    """A session, by its id or the beginning of it: all its turns. Absent: the newest sessions."""
    limit: Count = 20


class SessionInfo(Result):
    id: str
    harness: str
    cwd: str | None
    title: str | None
    first: str | None
    last: str | None
    turns: int
    source: str | None
    """The file that it came from."""
    open: str


class SessionLine(Result):
    turn: int
    role: str
    time: str | None
    text: str


class SessionsResult(Result):
    sessions: list[SessionInfo]
    total: int
    total_turns: int
    turns: list[SessionLine] = []
    """Of the one session that was asked for."""


INGEST: Final[dict[str, tuple[type[Params], type[Result]]]] = {
    "ingest.look": (IngestPathParams, IngestPathResult),
    "ingest.sessions": (IngestFileParams, IngestedFile),
    "agent.sessions": (SessionsParams, SessionsResult),
}
