"""Types of `ingest.*` and `agent.sessions`: archive transcripts and exports, and list the archived sessions."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, UnsetType

from ormahd.api.base import Count, Params, Result

WHY_OURS: Final = "its notes are memories already, and its archive has what was read from transcripts"
"""Why a folder of Ormah itself is not read."""


class IngestPathParams(Params):
    path: str
    """An absolute path: a transcript, an export, a document, or a folder."""
    kind: str = ""
    """`conversation` or `document`; empty: told by the endings of names, and the content of texts."""


class IngestFileParams(Params):
    path: str
    unnamed: bool = False
    """True if the file is temporary, so that its path is not recorded."""
    source: str = "ingest"
    """`ingest`, or `backfill`: under which source the file is counted."""


class IngestConversationParams(Params):
    """A conversation that a program has: text with `User:` and `Assistant:` at the start of lines, or a transcript or export."""

    content: str


class IngestedFile(Result):
    """The result for one file."""

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
    """Number of archived turns that the person has taken back since: they are kept, and not found by a search."""
    proposed: int = 0
    """Number of memories that another program kept of the person, and that wait as proposals (`agent.proposals`)."""
    redacted: dict[str, int] = {}
    """Number of redacted secrets, by kind."""
    damaged: int = 0
    """Number of lines that could not be read, or have more than 16 MB."""
    memories: int = 0
    """Number of memories that were made of these sessions."""
    unread: int = 0
    """Number of these sessions that the judge is yet to read, in the background."""
    learned: list[LearnedMemory] = []
    """These memories, at most 100."""
    refused: dict[str, int] = {}
    """Number of statements that became no memory, by reason: `known` already, repeated what was `whispered`, `forgotten` before,
    `unfit`."""


class IngestDocumentParams(Params):
    path: str
    """An absolute path: text in markdown, or a PDF."""
    unnamed: bool = False
    """True if the file is temporary, so that it is not named."""
    space: str | UnsetType | None = UNSET
    """The space of new memories; null: global. Absent: that of the project in which the file is."""
    run: str | None = None
    """The run of which this file is a part, so that several are undone together."""


class IngestedDocument(Result):
    """What became of a document. The numbers are of sections."""

    path: str
    status: str = "read"
    """`read` or `failed`."""
    error: str | None = None
    sections: int = 0
    added: int = 0
    """Sections that became a memory."""
    known: int = 0
    """Sections that say what another section or memory says."""
    redacted: dict[str, int] = {}
    run: str | None = None
    commit: str | None = None


class IngestPathResult(Result):
    files: list[str]
    """The files that hold, or may hold, conversations."""
    documents: list[str] = []
    """The files that are documents."""
    left_out: list[str] = []
    """Folders of Ormah itself below this path, which are not looked at."""


class PastParams(Params):
    folders: list[str] = []
    """Absolute paths. Empty: the folders in which the agents keep their transcripts."""


class PastFolder(Result):
    path: str
    files: int = 0
    bytes: int = 0
    fresh: int = 0
    """How many of the files have changed since they were read, or were never read."""
    trouble: str | None = None
    """Why the folder cannot be read; null also if it does not exist."""
    exists: bool = True


class PastResult(Result):
    """The past sessions of this machine that can be archived."""

    folders: list[PastFolder]
    files: list[str]
    """The files to read, newest first."""
    bytes: int


class BackfillParams(Params):
    action: str = "state"
    """`start`: archive past sessions in the background, also after a restart. `stop`: no further file. `state`."""
    folders: list[str] = []
    """As in `ingest.past`."""


class BackfillResult(Result):
    running: bool
    folders: list[str] = []
    done: int = 0
    """Number of files that were read since it started, or went on after a restart."""
    total: int = 0
    added: int = 0
    """Number of turns that were archived meanwhile."""
    failed: int = 0
    begun: str | None = None
    ended: str | None = None
    """When the last backfill was through; null if it was stopped, or there was none."""


class SourceTrouble(Result):
    path: str
    why: str
    since: str


class SourcesParams(Params):
    reload: bool = False
    """True: first take up the configuration file as it is now."""


class SourceListed(Result):
    """A folder of the person that is found in place."""

    name: str
    path: str
    space: str | None
    """Null: its notes are global."""
    files: int
    """Number of files in which something is found."""
    sections: int
    read: str | None
    """When it was last compared with the index; null: not yet, since the daemon started."""
    troubles: dict[str, str] = {}
    """Path -> why it cannot be read, or is left as it was."""


class SourcesResult(Result):
    sources: list[SourceListed]


class SourceHealth(Result):
    """The state of one source of memories."""

    source: str
    """`hook`, `watcher`, `backfill` or `ingest`."""
    on: bool
    state: str
    """What it does now, in words."""
    last: str | None = None
    turns: int = 0
    """Number of turns that came from it, on this machine."""
    waiting: int = 0
    """Number of files that wait to be read."""
    troubles: list[SourceTrouble] = []


class LearningHealth(Result):
    """Who reads sessions for memories, and what waits for it."""

    by: str
    """`rules`, `judge`, an agent, or `nobody`; for people."""
    why: str | None = None
    """Why no session is read."""
    waiting: int = 0
    """Number of sessions with turns that were not read for memories yet."""
    errors: list[str] = []
    """Why some of them wait. They are read again."""


class SessionsParams(Params):
    session_id: str | None = None
    """The id of a session, or a unique prefix, for all its turns. Absent: the newest sessions."""
    before: str | None = None
    """The id of the last session of a list, for the next page."""
    project: str | None = None
    """Only sessions in a folder of this name, or path."""
    harness: str | None = None
    limit: Count = 20


class SessionInfo(Result):
    id: str
    harness: str
    cwd: str | None
    title: str | None
    """Without one, the first line of its first prompt."""
    first: str | None
    last: str | None
    turns: int
    source: str | None
    """The file from which it was read."""
    open: str
    memories: int = 0
    """Number of memories that were made of it, and are there."""


class SessionLine(Result):
    turn: int
    role: str
    time: str | None
    text: str
    withdrawn: bool = False
    """Whether the person took the turn back: it is kept, and not found by a search."""


class SessionStep(Result):
    """What the agent did under a prompt: it ran `command`, or edited `files`."""

    turn: int
    """The turn of the prompt."""
    time: str | None
    command: str
    """Empty for an edit."""
    files: list[str]
    status: int
    """The exit status; -1 for a failure without one."""
    error: str
    """The first line of the error."""


class LearnedMemory(Result):
    """A memory that was made of a session. `turn`: where it was said; 0 if that turn is not archived any more."""

    node_id: str
    short_id: str
    type: str
    title: str | None
    turn: int


class SessionsResult(Result):
    sessions: list[SessionInfo]
    total: int
    total_turns: int
    turns: list[SessionLine] = []
    """The turns of the session that `session_id` names."""
    deeds: list[SessionStep] = []
    """What was done in it, in order."""
    memories: list[LearnedMemory] = []
    """The memories that were made of it."""
