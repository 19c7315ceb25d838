"""`POST /ingest/conversation` and `/ingest/file`: conversations are archived, sections of documents become memories.

The daemon ingests files only, because it reads some of them twice. So the text of a request is put into a temporary
file that only this user can read.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path, PurePath
from typing import Final

import msgspec
from msgspec import UNSET
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.responses import Response

from ormahctl.gateway.daemon import CallingAgent, DaemonLink
from ormahctl.gateway.exchange import WRONG_KIND, as_json, asker, body
from ormahd import api
from ormahd.rpc.wire import BadRequest, TooLarge

FILE_BYTES: Final = 10_000_000
"""Largest file that is accepted, in bytes."""
SUFFIX_CHARACTERS: Final = 12
NAME_CHARACTERS: Final = 100
KNOWN: Final = (
    "transcripts of Claude Code, Codex and Gemini CLI, exports of ChatGPT and Claude.ai, conversations with `User:` and `Assistant:` "
    "at the start of lines, and of documents markdown, plain text and PDF"
)
NO_TEXT: Final = frozenset({"it is no text", "it is no text in UTF-8"})
"""Errors of the daemon that mean: the format of the document is unknown."""


class Conversation(msgspec.Struct, forbid_unknown_fields=True):
    """A conversation as text: a line `User:` or `Assistant:` begins a turn; or a transcript in any known format."""

    content: str
    agent_id: str | None = None


class Ingested(msgspec.Struct):
    """What became of a conversation or a document."""

    extracted: int
    """Number of memories that were made of it."""
    memories: list[api.LearnedMemory]
    """These memories, at most 100."""
    file: api.IngestedFile | None = None
    """For a conversation: what was done with its turns."""
    document: api.IngestedDocument | None = None
    """For any other text: what was done with its sections, each of which is a memory."""
    status: str = "processed"


def routes(daemon: DaemonLink) -> dict[str, Callable[[Request], Awaitable[Response]]]:
    """Return {path: endpoint} of the HTTP routes that ingest a conversation or a file."""

    async def conversation(request: Request) -> Response:
        """Archive the conversation in the request's body."""
        given = await body(request, Conversation)
        with _temporary(given.content.encode(), ".txt") as path:
            who, space = asker(request, given.agent_id), _space(request)
            return await _ingest(
                daemon, who, api.IngestPathParams(path=str(path), kind="conversation"), space, "content"
            )

    async def file(request: Request) -> Response:
        """Ingest the file in the request's form."""
        if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
            raise BadRequest("a file is sent as multipart/form-data", data={"reason": WRONG_KIND})
        data, name = await _upload(request)
        with _temporary(data, PurePath(name).suffix[:SUFFIX_CHARACTERS] or ".txt") as path:
            return await _ingest(daemon, asker(request), api.IngestPathParams(path=str(path)), _space(request), name)

    return {"/ingest/conversation": conversation, "/ingest/file": file}


async def _upload(request: Request) -> tuple[bytes, str]:
    """Return the bytes and the name of the file in a form. Raises BadRequest, TooLarge."""
    announced = request.headers.get("content-length", "")
    if not announced.isdigit() or int(announced) > FILE_BYTES + 10_000:
        raise TooLarge(f"a file may have {FILE_BYTES:,} bytes, and its request has to tell its length")
    try:
        async with request.form(max_files=1, max_fields=4) as form:
            sent = form.get("file")
            if not isinstance(sent, UploadFile):
                raise BadRequest("file: is missing", hint="the form has the file in the field `file`")
            return await sent.read(), sent.filename or ""
    except MultiPartException as exc:
        raise BadRequest(f"the form cannot be read: {exc.message}") from exc


async def _ingest(
    daemon: DaemonLink, who: CallingAgent, given: api.IngestPathParams, space: str | None, name: str
) -> Response:
    """Have the daemon archive a conversation, or make memories of a document's sections, and return what it did.

    `name`: the text's name in errors. Raises BadRequest if the format is unknown or the text is damaged.
    """
    looked = await daemon.call("ingest.look", given, api.IngestPathResult, asker=who, timeout=None)
    if looked.documents:
        wished = api.IngestDocumentParams(path=given.path, unnamed=True, space=UNSET if space is None else space)
        document = await daemon.call("ingest.file", wished, api.IngestedDocument, asker=who, timeout=None)
        document.path = ""
        _raise_if_unread(name, document)
        return as_json(Ingested(document.added, [], document=document))
    archived = api.IngestFileParams(path=given.path, unnamed=True)
    file = await daemon.call("ingest.sessions", archived, api.IngestedFile, asker=who, timeout=None)
    file.path = ""
    _raise_if_unread(name, file)
    return as_json(Ingested(file.memories, file.learned, file))


def _raise_if_unread(name: str, found: api.IngestedFile | api.IngestedDocument) -> None:
    """Raise BadRequest if `found` says that the daemon could not read the text. `name`: the file's name, or
    `content` for a conversation in the request."""
    if found.status not in {"failed", "unknown"}:
        return
    unknown = found.status == "unknown" or found.error in NO_TEXT
    why = found.error or "its format is not known"
    data = {"field": "content" if name == "content" else "file"}
    if unknown and name != "content":
        data["reason"] = WRONG_KIND
    file_name = name[:NAME_CHARACTERS] or "the file"
    raise BadRequest(f"{file_name}: {why}; nothing was stored", hint=f"known are {KNOWN}", data=data)


def _space(request: Request) -> str | None:
    """Return the space for new memories (`default_space` in the URL's query); None if it is not given."""
    return request.query_params.get("default_space") or None


@contextlib.contextmanager
def _temporary(data: bytes, suffix: str) -> Iterator[Path]:
    """Context manager: yield the path of a temporary file with the content `data`, which only this user can read.
    `suffix`: the end of its name, by which the daemon knows PDFs."""
    with tempfile.NamedTemporaryFile(prefix="ormah-", suffix=suffix if suffix.isascii() else ".txt") as file:
        file.write(data)
        file.flush()
        yield Path(file.name)
