"""Import and export memories as JSON lines: for backup, migration, or data of another program.

A line is a `CreateNodeRequest`. A line from an export also keeps its id, times and edges. An import makes one commit
for each batch and is one run. Known memories are skipped, so an interrupted import can simply be repeated.
"""

from __future__ import annotations

import json
from typing import Any, Final

from msgspec import Struct
from pydantic import Field

from ormahd.actions.amend import (
    PERSON,
    Caller,
    Progress,
    amending,
    clean,
    define,
    make_room_in_core,
    new_note,
    silent,
    transaction,
    without_secrets,
)
from ormahd.actions.outdated import link_to, restated
from ormahd.actions.views import CONNECTION, plain, stem
from ormahd.api import ExportParams, ExportResult, ImportFailure, ImportParams, ImportResult
from ormahd.errors import BadRequest, OrmahError, quote_value
from ormahd.index.index import Index
from ormahd.index.rows import MEMORIES
from ormahd.model.change import Kind
from ormahd.model.node import ABOUT_SELF, CreateNodeRequest, LinkRequest, NodeType, Text, Tier, Utc, is_node_id
from ormahd.note.read import parse
from ormahd.note.values import NoteLink, path_for
from ormahd.ormah import Ormah
from ormahd.process import priority
from ormahd.vault.vault import Vault


def export(index: Index, vault: Vault, params: ExportParams) -> ExportResult:
    """Return a page of memories in the order of their ids, beginning after the id `after`. `next` is the last id of the
    page, None on the last page."""
    ids = [one for one in sorted(index.ids(MEMORIES)) if params.after is None or one > params.after]
    page = ids[: params.limit]
    edges: dict[str, list[dict[str, Any]]] = {one: [] for one in page}
    leaving = index.edges_of(page)
    targets = index.filter_ids(list({edge.target for edge in leaving}), MEMORIES)
    for edge in leaving:
        if not edge.body and edge.target in targets and edge.source in edges:  # a wikilink is part of the body
            edges[edge.source].append({name: plain(getattr(edge, name)) for name in CONNECTION})
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
    *("created", "updated", "valid_until", "outdated_reason", "paths", "commands", "guard", "evidence", "path"),
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
    """A new memory: line `number` of the batch, and the note that it becomes. `links`: to memories that it replaces."""

    number: int
    line: ImportLine
    id: str
    path: str
    links: list[NoteLink]
    data: bytes = b""


def import_lines(ormah: Ormah, params: ImportParams, caller: Caller, progress: Progress = silent) -> ImportResult:
    """Store the memories of one batch in one commit.

    An invalid line is listed in `failed` with its number, and the others are stored. New memories are not linked to
    neighbours: the auto linker does that for the whole vault.
    """
    # Read the lines
    if len(params.lines) > MAX_BATCH:
        hint = f"send at most {MAX_BATCH} at a time"
        raise BadRequest(f"a batch of {len(params.lines)} lines is too large", hint=hint)
    run = params.run or ormah.new_run()
    failed: list[ImportFailure] = []
    wanted: list[tuple[int, ImportLine]] = []
    redacted = 0
    for number, text in priority.giving(enumerate(params.lines, params.first_line)):
        if not text.strip().lstrip("\ufeff"):
            continue
        try:
            found: list[str] = []
            line = read_line(text)
            fields = {name: clean(ormah, getattr(line, name), found) for name in ("space", "source", "outdated_reason")}
            wanted.append((number, line.model_copy(update=without_secrets(ormah, line, found) | fields)))
        except OrmahError as exc:
            failed.append(_failure(number, exc))
            continue
        redacted += bool(found)

    # Embed the texts. This is slow, so it is done without a lock, while the previous batch is being committed
    for at in priority.giving(range(0, len(wanted), STEP)):
        texts = [(line.title, line.content) for _, line in wanted[at : at + STEP]]
        ormah.index.embed_ahead(texts, urgent=False)
        progress(min(at + STEP, len(wanted)), len(wanted), "embedding")

    # Store them
    with ormah.writing:
        added, skipped, later = _store(ormah, wanted, caller, run)
    failed = sorted([*failed, *later], key=lambda failure: failure.line)
    return ImportResult(added=added, skipped=skipped, failed=failed, run=run, redacted=redacted)


def read_line(text: str) -> ImportLine:
    """Return a line of an import, parsed. Fields that only an export has are dropped.

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

    # Drop what an export adds, and fields that say nothing
    for derived in _DERIVED:
        value.pop(derived, None)
    if isinstance(value.get("connections"), list):
        edges = value["connections"]
        value["connections"] = [
            {key: edge[key] for key in edge if key != "created"} if isinstance(edge, dict) else edge for edge in edges
        ]
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
    """Return the error of one line of an import, with its line number."""
    return ImportFailure(line=number, error=f"{exc.message}; {exc.hint}" if exc.hint else exc.message)


_DERIVED = (
    *("short_id", "path", "digest", "importance", "access_count", "use_count", "last_accessed", "last_review"),
    "stability",
)
"""Fields of an export that are not stored in a note; the import ignores them."""


def _store(
    ormah: Ormah, wanted: list[tuple[int, ImportLine]], caller: Caller, run: str
) -> tuple[int, int, list[ImportFailure]]:
    """Store the memories of `wanted`, pairs of line number and line, in one commit as part of the run `run`. Return
    (number stored, number skipped, failures)."""
    # Choose the new memories: those that the vault and the lines before do not have
    now = ormah.moment()
    fresh: dict[tuple[str | None, NodeType, str | None, str], _New] = {}
    skipped, failed = 0, []
    ids: set[str] = set()
    for number, line in priority.giving(wanted):
        key = (line.space, line.type, line.title, line.content.strip())
        known = ormah.index.find_equal(line.space, line.type, line.title, line.content)
        again = [] if known is None else restated(ormah, ormah.index.note(known), line.created or now)
        if key in fresh or (known is not None and not again):
            skipped += 1
            continue
        try:
            node_id = _id_for(ormah, line, ids)
        except OrmahError as exc:
            failed.append(_failure(number, exc))
            continue
        if node_id is None:
            skipped += 1
            continue
        ids.add(node_id[:8])
        names = {name: getattr(line, name) for name in ("type", "space", "title", "content")}
        path = path_for(id=node_id, created=line.created or now, **names)
        fresh[key] = _New(number, line, node_id, path, [link_to(row, now, None) for row in again])

    # Make their notes. An edge to a memory that failed fails too, so repeat until no memory does
    new, lost = list(fresh.values()), set[str]()
    while True:
        wrong = []
        for item in priority.giving(new):
            try:
                edges = [_edge(ormah, new, lost, *connection) for connection in enumerate(item.line.connections)]
                line, links = item.line, [*item.links, *edges]
                fields: dict[str, Any] = {name: getattr(line, name) for name in ("valid_until", "outdated_reason")}
                fields["source"] = line.source or caller.source
                fields["guard"] = line.guard if caller.source == PERSON else None
                updated = line.updated or line.created or now
                _, item.data = new_note(line, item.id, now, links, updated=updated, **fields)
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
        """Commit the new notes, with the edges from the self node and the memories that must leave core."""
        subject = f"Import {len(new)} {'memory' if len(new) == 1 else 'memories'}"
        with transaction(ormah, subject, kind=Kind.IMPORT, caller=caller, run=run) as tx:
            for item in new:
                tx.put(item.path, item.data, node_id=item.id, expect=None)
            define(ormah, tx, [item.path for item in new if ABOUT_SELF in item.line.tags])
            if core := {item.id for item in new if item.line.tier is Tier.CORE}:
                make_room_in_core(ormah, tx, keep=core)

    amending(ormah, attempt)
    return len(new), skipped, failed


def _id_for(ormah: Ormah, line: ImportLine, taken: set[str]) -> str | None:
    """Return the id for the memory of `line`; None if the vault has that memory already. It is the line's own id, or a
    new one if the line has none or another memory has its short id. `taken`: short ids in use besides the vault's."""
    if line.id is None:
        return ormah.index.new_id(taken)
    if not is_node_id(line.id):
        raise BadRequest(f"id {line.id!r} is no id of ours", hint="leave it out")
    known = ormah.index.find_short(line.id[:8])
    if known == line.id:
        return None
    return ormah.index.new_id(taken) if known is not None or line.id[:8] in taken else line.id


def _edge(ormah: Ormah, new: list[_New], lost: set[str], number: int, asked: LinkRequest) -> NoteLink:
    """Return the link for `asked`, which is connection `number` (from 0) of a line.

    `new`: the memories of this import. `lost`: ids of those that failed.

    Raises:
        BadRequest: the target cannot be found, or is one of `lost`.
    """
    if asked.target in lost:
        raise BadRequest(f"connections[{number}].target: its own line failed")
    inside = next((item for item in new if item.line.id is not None and item.line.id == asked.target), None)
    if inside is not None:
        name = stem(inside.path)
    elif is_node_id(asked.target) and ormah.index.find_short(asked.target[:8]) is None:
        # the target comes in a later batch, and will be resolved by the short id in the link
        name = f"memory_{asked.target[:8]}"
    else:
        try:
            name = stem(ormah.index.note(ormah.index.resolve(asked.target)).path)
        except OrmahError as exc:
            raise BadRequest(f"connections[{number}].target: {exc.message}", hint=exc.hint) from exc
    return NoteLink(asked.edge, name, asked.weight, None, asked.reason)
