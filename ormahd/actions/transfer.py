"""Import and export memories as JSON lines: for backup, migration, or data of another program.

A line is a `CreateNodeRequest`. A line from an export also keeps its id, times and edges. An import makes one commit
for each batch and is one run. Known memories are skipped, so an interrupted import can simply be repeated.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Struct, field
from pydantic import Field

from ormahd.actions.amend import (
    PERSON,
    Caller,
    Progress,
    amending,
    clean,
    define,
    make_room_in_core,
    silent,
    transaction,
)
from ormahd.actions.outdated import link_to, restated
from ormahd.actions.views import plain, stem
from ormahd.api import ExportParams, ExportResult, ImportFailure, ImportParams, ImportResult
from ormahd.errors import BadRequest, OrmahError, quote_value
from ormahd.index.index import Index
from ormahd.index.rows import MEMORIES
from ormahd.model.change import Kind
from ormahd.model.node import (
    ABOUT_SELF,
    CreateNodeRequest,
    LinkRequest,
    NodeType,
    NoteStanding,
    Text,
    Tier,
    Utc,
    is_node_id,
)
from ormahd.note.read import parse
from ormahd.note.values import NoteLink, path_for
from ormahd.note.write import compose
from ormahd.ormah import Ormah
from ormahd.process import priority
from ormahd.vault.vault import Vault


def export(index: Index, vault: Vault, params: ExportParams) -> ExportResult:
    """Return a page of memories in the order of their ids, after the id `after`. `next` is None on the last page."""
    ids = [one for one in sorted(index.ids(MEMORIES)) if params.after is None or one > params.after]
    page = ids[: params.limit]
    edges: dict[str, list[dict[str, Any]]] = {one: [] for one in page}
    leaving = index.edges_of(page)
    targets = index.keep(list({edge.target for edge in leaving}), MEMORIES)
    for edge in leaving:
        if not edge.body and edge.target in targets and edge.source in edges:  # a wikilink is part of the body
            made = {name: plain(getattr(edge, name)) for name in ("target", "edge", "weight", "created", "reason")}
            edges[edge.source].append(made)
    items = []
    for node_id, row in index.notes(page).items():
        item = {name: plain(getattr(row, name)) for name in EXPORTED} | {"connections": edges[node_id]}
        item["rejected"] = row.acts.because or ("the reason was not noted" if row.rejected else None)
        # The index lacks whether the note says explicitly that the memory is global, so the file is read
        data = vault.read(row.path) if row.space is None else None
        if data is not None and b"global:" in data and parse(data, row.path).everywhere:
            item["global"] = True
        items.append(item)
    return ExportResult(items=items, next=page[-1] if len(ids) > params.limit else None)


EXPORTED = (
    *("id", "short_id", "type", "tier", "space", "title", "content", "tags", "source", "confidence"),
    *("created", "updated", "valid_until", "outdated_reason", "paths", "commands", "guard", "path"),
)
"""Fields of a memory in an export, besides its connections."""
MAX_BATCH = 5_000
"""Maximum number of lines in a batch; bounds the size of a commit and the time the lock is held."""


STEP = 128
"""Number of texts embedded between two progress reports."""


class ImportLine(CreateNodeRequest):
    """One line of an import: a create request, with the additional fields of an export."""

    id: str | None = None
    updated: Utc | None = None
    valid_until: Utc | None = None
    outdated_reason: Text | None = None
    source: str = Field(default="", max_length=200)


class _New(Struct):
    number: int
    line: ImportLine
    id: str
    path: str
    content: str
    title: str | None
    tags: list[str]
    links: list[NoteLink] = field(default_factory=list)
    data: bytes = b""


def import_lines(ormah: Ormah, params: ImportParams, caller: Caller, progress: Progress = silent) -> ImportResult:
    """Store the memories of one batch in one commit.

    An invalid line is listed in `failed` with its number, and the others are stored. New memories are not linked to
    neighbours: the auto linker does that for the whole vault.
    """
    if len(params.lines) > MAX_BATCH:
        raise BadRequest(
            f"a batch of {len(params.lines)} lines is too large", hint=f"send at most {MAX_BATCH} at a time"
        )
    run = params.run or ormah.new_run()
    failed: list[ImportFailure] = []
    wanted: list[tuple[int, ImportLine, str, str | None, list[str]]] = []
    redacted = 0
    for number, text in priority.giving(enumerate(params.lines, params.first_line)):
        if not text.strip().lstrip("\ufeff"):
            continue
        try:
            found: list[str] = []
            line = _without_secrets(ormah, read_line(text), found)
            content = clean(ormah, line.content, found) or ""
            title = clean(ormah, line.title, found)
            tags = [clean(ormah, tag, found) or "" for tag in line.tags]
        except OrmahError as exc:
            failed.append(_failure(number, exc))
            continue
        redacted += bool(found)
        if line.about_self and ABOUT_SELF not in tags:
            tags.insert(0, ABOUT_SELF)
        wanted.append((number, line, content, title, tags))
    # the slow part: outside every lock, while the previous batch is being committed
    for at in priority.giving(range(0, len(wanted), STEP)):
        texts = [(title, content) for _, _, content, title, _ in wanted[at : at + STEP]]
        ormah.index.embed_ahead(texts, urgent=False)
        progress(min(at + STEP, len(wanted)), len(wanted), "embedding")
    with ormah.writing:
        added, skipped, later = _store(ormah, wanted, caller, run)
    failed = sorted([*failed, *later], key=lambda failure: failure.line)
    return ImportResult(added=added, skipped=skipped, failed=failed, run=run, redacted=redacted)


def read_line(text: str) -> ImportLine:
    """Parse a line of an import.

    Raises:
        BadRequest: the line is invalid; the message says why.
    """
    try:
        value = json.loads(text.lstrip("\ufeff"))
    except json.JSONDecodeError as exc:
        raise BadRequest(f"not valid JSON: {exc.msg}, at character {exc.pos + 1}") from None
    except (ValueError, RecursionError) as exc:
        raise BadRequest(f"not valid JSON: {exc}") from None
    if not isinstance(value, dict):
        raise BadRequest(f'a line must be a JSON object, such as {{"content": "…"}}; this one is {quote_value(value)}')
    for derived in _DERIVED:
        value.pop(derived, None)
    if isinstance(value.get("connections"), list):
        value["connections"] = [_plain_edge(edge) for edge in value["connections"]]
    if value.get("source") is None:
        value.pop("source", None)
    try:
        return ImportLine.of(value)
    except BadRequest as exc:
        if str(exc.data["field"]).startswith("connections"):
            exc.hint = exc.hint or _CONNECTION
        raise


_CONNECTION: Final = (
    'a connection is written {"target": "1a2b3c4d", "edge": "supports"}, with the id of the other memory'
)


def _failure(number: int, exc: OrmahError) -> ImportFailure:
    return ImportFailure(line=number, error=f"{exc.message}; {exc.hint}" if exc.hint else exc.message)


def _without_secrets(ormah: Ormah, line: ImportLine, found: list[str]) -> ImportLine:
    """Return `line` with every secret in its space, source and reasons redacted; append the kinds found to `found`. The
    caller does the same for title, content and tags."""
    names = {
        name: clean(ormah, getattr(line, name), found) for name in ("space", "source", "outdated_reason", "rejected")
    }
    lists = {name: [clean(ormah, one, found) for one in getattr(line, name)] for name in ("paths", "commands")}
    edges = [one.model_copy(update={"reason": clean(ormah, one.reason, found)}) for one in line.connections]
    return line.model_copy(update={**names, **lists, "connections": edges})


_DERIVED = (
    "short_id",
    "path",
    "digest",
    "importance",
    "access_count",
    "use_count",
    "last_accessed",
    "last_review",
    "stability",
)
"""Fields of an export that are not stored in a note; the import ignores them."""


def _plain_edge(edge: Any) -> Any:
    return {key: value for key, value in edge.items() if key != "created"} if isinstance(edge, dict) else edge


def _store(
    ormah: Ormah, wanted: list[tuple[int, ImportLine, str, str | None, list[str]]], caller: Caller, run: str
) -> tuple[int, int, list[ImportFailure]]:
    now = ormah.moment()
    fresh: dict[tuple[str | None, NodeType, str | None, str], _New] = {}
    skipped, failed = 0, []
    ids: set[str] = set()
    for number, line, content, title, tags in priority.giving(wanted):
        key = (line.space, line.type, title, content.strip())
        known = ormah.index.equal(line.space, line.type, title, content)
        again = [] if known is None else restated(ormah, ormah.index.note(known), line.created or now)
        if key in fresh or (known is not None and not again):
            skipped += 1
            continue
        try:
            node_id = _id(ormah, line, ids)
        except OrmahError as exc:
            failed.append(_failure(number, exc))
            continue
        if node_id is None:
            skipped += 1
            continue
        ids.add(node_id[:8])
        path = path_for(
            id=node_id, type=line.type, space=line.space, title=title, content=content, created=line.created or now
        )
        fresh[key] = _New(number, line, node_id, path, content, title, tags, [link_to(row, now, None) for row in again])
    new, lost = list(fresh.values()), set[str]()
    while True:  # until no memory of the batch failed: others may have edges to one that did
        wrong = []
        for item in priority.giving(new):
            try:
                edges = [_edge(ormah, new, lost, *one) for one in enumerate(item.line.connections)]
                item.data = _compose(item, [*item.links, *edges], now, caller)
            except OrmahError as exc:
                failed.append(_failure(item.number, exc))
                wrong.append(item)
        new = [item for item in new if item not in wrong]
        lost |= {item.line.id for item in wrong if item.line.id}
        if not wrong:
            break
    if not new:
        return 0, skipped, failed

    def attempt() -> None:
        subject = f"Import {len(new)} {'memory' if len(new) == 1 else 'memories'}"
        with transaction(ormah, subject, kind=Kind.IMPORT, caller=caller, run=run) as tx:
            for item in new:
                tx.put(item.path, item.data, node_id=item.id, expect=None)
            define(ormah, tx, [item.path for item in new if ABOUT_SELF in item.tags])
            if core := {item.id for item in new if item.line.tier is Tier.CORE}:
                make_room_in_core(ormah, tx, keep=core)

    amending(ormah, attempt)
    return len(new), skipped, failed


def _id(ormah: Ormah, line: ImportLine, taken: set[str]) -> str | None:
    """Return the id for the memory of `line`: the line's own, or a new one if it has none or its short id is in use.
    None if the vault has that memory already. `taken`: short ids in use besides the vault's."""
    if line.id is None:
        return ormah.index.new_id(taken)
    if not is_node_id(line.id):
        raise BadRequest(f"id {line.id!r} is no id of ours", hint="leave it out")
    known = ormah.index.has_short(line.id[:8])
    if known == line.id:
        return None
    return ormah.index.new_id(taken) if known is not None or line.id[:8] in taken else line.id


def _edge(ormah: Ormah, new: list[_New], lost: set[str], number: int, asked: LinkRequest) -> NoteLink:
    """Return the edge for `asked`, connection `number` of a line, from 0. Raises BadRequest if its target cannot be found, or is
    one of the memories that failed (`lost`)."""
    if asked.target in lost:
        raise BadRequest(f"connections[{number}].target: its own line failed")
    inside = next((item for item in new if item.line.id is not None and item.line.id == asked.target), None)
    if inside is not None:
        name = stem(inside.path)
    elif is_node_id(asked.target) and ormah.index.has_short(asked.target[:8]) is None:
        # the target comes in a later batch, and will be resolved by the short id in the link
        name = f"memory_{asked.target[:8]}"
    else:
        try:
            name = stem(ormah.index.note(ormah.index.resolve(asked.target)).path)
        except OrmahError as exc:
            raise BadRequest(f"connections[{number}].target: {exc.message}", hint=exc.hint) from exc
    return NoteLink(asked.edge, name, asked.weight, None, asked.reason)


def _compose(item: _New, links: Sequence[NoteLink], now: datetime, caller: Caller) -> bytes:
    line = item.line
    return compose(
        id=item.id,
        type=line.type,
        tier=line.tier,
        space=line.space,
        title=item.title,
        tags=item.tags,
        source=line.source or caller.source,
        confidence=line.confidence,
        created=line.created or now,
        updated=line.updated or line.created or now,
        content=item.content,
        links=links,
        valid_until=line.valid_until,
        outdated_reason=line.outdated_reason,
        standing=NoteStanding.REJECTED if line.rejected else None,
        because=line.rejected,
        paths=line.paths,
        commands=line.commands,
        guard=line.guard if caller.source == PERSON else None,
        everywhere=line.everywhere,
    )
