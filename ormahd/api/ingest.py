"""Types of `ingest.*` and `agent.sessions`: archive transcripts and exports, and list the archived sessions."""

from __future__ import annotations

from typing import Final

from ormahd.api.base import Count, Params, Result


class IngestPathParams(Params):
    path: str
    """An absolute path: a transcript, an export, or a folder."""
    dry_run: bool = True
    """True: read all files, and return what would be archived. False: only list the files."""


class IngestFileParams(Params):
    path: str
    unnamed: bool = False
    """True if the file is temporary, so that its path is not recorded."""


class IngestedFile(Result):
    """The result for one file, or of a dry run."""

    path: str
    status: str = "read"
    """`read`; `unchanged`: nothing was added since it was last read to its end; `unknown`: its format is not supported;
    `failed`."""
    formats: list[str] = []
    error: str | None = None
    sessions: int = 0
    """Number of sessions with at least one added turn."""
    turns: int = 0
    """Number of turns in the file. The next four numbers say what became of them."""
    added: int = 0
    known: int = 0
    open: int = 0
    """Number of answers that are still being written."""
    excluded: int = 0
    """Number of turns in folders that `sessions.exclude` names."""
    withdrawn: int = 0
    """Number of archived turns that the person has taken back since, and that are deleted from the archive."""
    redacted: dict[str, int] = {}
    """Number of redacted secrets, by kind."""
    dropped: dict[str, int] = {}
    """Number of lines that are no part of the conversation, by reason."""
    unknown: dict[str, int] = {}
    """Number of lines and parts of unknown kinds, by kind."""
    damaged: int = 0
    too_long: int = 0


class IngestPathResult(Result):
    files: list[IngestedFile]


class SessionsParams(Params):
    session_id: str | None = None
    """The id of a session, or a unique prefix, for all its turns. Absent: the newest sessions."""
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
    """The file from which it was read."""
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
    """The turns of the session that `session_id` names."""


INGEST: Final[dict[str, tuple[type[Params], type[Result]]]] = {
    "ingest.look": (IngestPathParams, IngestPathResult),
    "ingest.sessions": (IngestFileParams, IngestedFile),
    "agent.sessions": (SessionsParams, SessionsResult),
}
