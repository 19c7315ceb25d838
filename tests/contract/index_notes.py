"""Notes for tests of the index: made with the real codec, as files of a vault."""

import hashlib
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ormahd.embedding.embedder import Hashing
from ormahd.index.index import Index
from ormahd.model.change import FileState
from ormahd.model.node import NodeType, Tier
from ormahd.note.values import NoteLink
from ormahd.note.write import compose
from ormahd.settings import VectorSettings

NOW = datetime(2026, 11, 21, 20, 0, tzinfo=UTC)

SAVED = 1_760_000_000
"""When each file was written last, in seconds."""


def node_id(number: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"index test {number}"))


def note(number: int | str, content: str = "", *, links: Sequence[NoteLink] = (), **fields: Any) -> bytes:
    made: dict[str, Any] = {
        "type": NodeType.FACT, "tier": Tier.WORKING, "space": None, "title": None, "tags": [], "source": "agent:test",
        "confidence": 1.0, "created": NOW, "updated": NOW,
    } | fields  # fmt: skip
    identity = number if isinstance(number, str) else node_id(number)
    return compose(id=identity, content=content, links=links, **made)


def state(path: str, data: bytes) -> FileState:
    return FileState(path, len(data), SAVED * 1_000_000_000, 7, hashlib.sha256(data).hexdigest())


def upserts(files: dict[str, bytes]) -> dict[str, tuple[bytes, FileState]]:
    return {path: (data, state(path, data)) for path, data in files.items()}


def apply(
    index: Index, files: dict[str, bytes] | None = None, removals: Sequence[str] = (), head: str = "head"
) -> None:
    index.apply(upserts(files or {}), removals, head=head)


def open_index(directory: Path, *, attach: bool = False, salt: str = "", exact_pieces: int = 0) -> Index:
    """An index that asks Chroma from the first vector on, unless `exact_pieces` says otherwise."""
    index = Index.open(directory, vectors=VectorSettings(exact_pieces=exact_pieces), clock=lambda: NOW)
    if attach:
        index.attach(Hashing(salt=salt))
    return index


def triples(files: dict[str, bytes]) -> list[tuple[str, bytes, FileState]]:
    """What `verify` and `rebuild` take."""
    return [(path, data, state(path, data)) for path, data in files.items()]
