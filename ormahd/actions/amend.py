"""Change existing notes on behalf of a caller: read the bytes on disk, decide, commit; retry once if the note changed.

Every action that edits a note uses `amending`: a decision is based on one version of the note, and is refused if that
version is gone (DESIGN section 5). Also holds `Caller`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from msgspec import Struct

from ormahd.actions.views import stem
from ormahd.api import WriteResult
from ormahd.errors import BadRequest, Conflict, InvalidNote, NotFound, NotReady, VaultBusy
from ormahd.git.commit_message import REQUEST
from ormahd.index.rows import SOURCE_PREFIX, Filter, NodeRow
from ormahd.model.change import Kind
from ormahd.model.node import ABOUT_SELF, CreateNodeRequest, EdgeType, NodeType, NoteGuard, NoteStanding, Tier, short_id
from ormahd.note.edit import edit
from ormahd.note.read import parse
from ormahd.note.values import Note, NoteKind, NoteLink, path_for
from ormahd.note.write import compose
from ormahd.ormah import Ormah
from ormahd.process import priority
from ormahd.text.bearing import bearing
from ormahd.text.secrets import redact, redact_name
from ormahd.vault.transaction import Transaction

PERSON = "person"
Progress = Callable[[int, int, str], None]
"""A function that reports progress to the caller: (done, total, stage)."""


def silent(done: int, total: int, stage: str) -> None:
    """Report no progress."""


FIRST_SCAN_S = 5.0
"""How long a change waits for the first scan after a start, in seconds."""


class Caller(Struct, frozen=True):
    """Who makes a request. `agent`: its name as sent; `cwd`: its working directory, an absolute path; `session`: the
    id of the agent's session; `request`: the digest of the request's id. None if not sent.

    `done`: the commits of the same request before the daemon was killed; only for a request that is repeated.
    """

    agent: str | None = None
    cwd: str | None = None
    session: str | None = None
    request: str | None = None
    done: tuple[str, ...] = ()

    @property
    def trailers(self) -> list[tuple[str, str]]:
        """The trailers of the request's commits, by which its answer is found again after a kill."""
        return [(REQUEST, self.request)] if self.request else []

    @property
    def source(self) -> str:
        """The source recorded in notes and commits: `person`, `agent:NAME` or `job:NAME`."""
        name = " ".join((self.agent or "unknown").split())[:100]
        if name == PERSON or name.startswith(("agent:", "job:", "system:")):
            return name
        return f"agent:{name}"


def check_acts(caller: Caller, kind: NodeType, *, rejected: str | None, guard: NoteGuard | None) -> None:
    """Raise BadRequest if a caller that is no person sets a guard, or if a memory of the type preference is marked as
    rejected."""
    if guard is not None and caller.source != PERSON:
        raise BadRequest(
            "a guard counts only as a person writes it, so an agent cannot set one",
            hint=f"leave it out, and let the person run: ormahctl update ID --guard {guard}",
        )
    if rejected is not None and kind is NodeType.PREFERENCE:
        hint = "give it another type: --type decision or observation"
        raise BadRequest("what was tried and rejected is no preference", hint=hint)


def check_guard(data: bytes, path: str) -> None:
    """Raise BadRequest if a note has a guard, but names no command or file to which it applies."""
    note = parse(data, path)
    if note.guard is not None and not (note.paths or note.commands):
        found = bearing(note.title, note.content, note.type, rejected=note.standing is not None)
        if not (found.files or found.commands):
            raise BadRequest(
                "its text names no command or file to guard",
                hint="add a line to the note, such as  commands: [make clean]  or  paths: [src/api/**]",
            )


def check_space(space: str | None) -> str | None:
    """Return a space's name with normalised whitespace; None if it is blank or `global`, for memories without a space."""
    name = " ".join((space or "").split())
    return None if name.casefold() in {"", "global"} else name


T = TypeVar("T")


class SeenNote(Struct, frozen=True):
    """A note as `see` read it from disk: what a change to it is computed from, and checked against."""

    id: str
    path: str
    data: bytes
    digest: str
    note: Note


class Outcome(Struct, frozen=True):
    """The result of a transaction. `op` and `commit` are None if nothing changed."""

    op: str | None
    commit: str | None


def refuse_source(*rows: NodeRow) -> None:
    """Raise InvalidNote if one of the memories is a section of a source, because Ormah never writes to sources."""
    for row in rows:
        if row.from_source:
            raise InvalidNote(
                f"{row.path} is a file of yours, of the source {row.source.removeprefix(SOURCE_PREFIX)!r}: Ormah finds it, "
                "and never writes it",
                hint=f"edit the file, or put a memory in front of it: ormahctl remember TEXT --replaces {row.short_id}",
                data={"path": row.path, "id": row.id},
            )


def see(ormah: Ormah, node_id: str) -> SeenNote:
    """Return the note of a node as it is on disk (`node_id`: full id), so that it can be changed.

    Raises:
        NotFound: the file is gone.
        Conflict: it holds another memory by now.
        InvalidNote: it is unreadable, or is not a note that Ormah may change.
        VaultBusy: the file is missing during a rebase or merge.
    """
    row = ormah.index.note(node_id)
    refuse_source(row)
    try:
        data = ormah.vault.read(row.path)
    except OSError as exc:
        raise InvalidNote(
            f"{row.path} cannot be read: {exc.strerror or exc}; nothing was changed",
            hint="make it, and the folders that it is in, readable for the user that runs the daemon, and repeat",
            data={"path": row.path, "id": node_id},
        ) from exc

    # There is no file
    if data is None:
        if why := ormah.vault.busy():
            raise VaultBusy(
                f"the note of {node_id[:8]} ({row.path}) is not there at the moment: {why}; nothing was changed",
                hint="finish or abort the other git operation, and repeat",
            )
        raise NotFound(f"the note of {node_id[:8]} ({row.path}) is not in the vault any more", data={"id": node_id})

    # The file must still be this note
    note = parse(data, row.path)
    if note.kind is not NoteKind.NOTE:
        first = note.problems[0] if note.problems else None
        place = f"line {first.line}: " if first and first.line else ""
        what = f"{place}{first.what}" if first else note.kind.value
        raise InvalidNote(
            f"{row.path} cannot be changed while it is not a readable note: {what}",
            hint=first.mend if first else "run: ormahctl doctor",
            data={"path": row.path, "id": node_id},
        )
    if note.id != node_id:
        raise Conflict(
            f"{row.path} holds another memory now ({(note.id or '?')[:8]})",
            hint="ask again in a few seconds; the edit is being read in",
        )
    return SeenNote(node_id, row.path, data, note.digest, note)


def amending(ormah: Ormah, attempt: Callable[[], T]) -> T:
    """Run `attempt` while no other edit runs, and return its result. `attempt` calls `see`, decides, and commits a
    `transaction`.

    If it raises Conflict, it is run once more. If it raises NotReady, because a note is not in the index yet, it is run
    once more after the first scan.
    """
    try:
        return _attempt_twice(ormah, attempt)
    except NotReady:
        end = time.monotonic() + FIRST_SCAN_S
        while ormah.lacking() and time.monotonic() < end:
            time.sleep(0.02)
        return _attempt_twice(ormah, attempt)


def _attempt_twice(ormah: Ormah, attempt: Callable[[], T]) -> T:
    """Call `attempt` while no other edit runs, and return its result. After a Conflict call it once more: a program may
    have changed the note on disk."""
    with ormah.writing:
        try:
            return attempt()
        except Conflict:
            return attempt()


def transaction(
    ormah: Ormah, subject: str, *, kind: Kind, caller: Caller, trailers: Iterable[tuple[str, str]] = (), **more: Any
) -> Transaction:
    """Return a transaction in the caller's name, for a `with` block that adds the changes to it.

    `trailers`: of its commit, besides the caller's. `more`: `body` and `run`, as `Vault.transaction` takes them.
    """
    fields: dict[str, Any] = {"source": caller.source, "person": caller.source == PERSON, **more}
    return ormah.vault.transaction(subject, kind=kind, trailers=[*trailers, *caller.trailers], **fields)


def outcome(tx: Transaction) -> Outcome:
    """Return what became of a transaction whose block has ended."""
    return Outcome(tx.op, tx.committed.commit) if tx.committed else Outcome(None, None)


def written(
    ormah: Ormah, text: str, note: SeenNote | NodeRow, tx: Transaction | None = None, **more: Any
) -> WriteResult:
    """Return the result of a request that changed `note` in the transaction `tx`, or that changed nothing (`tx` None).

    `more`: further fields of the result.
    """
    done = Outcome(None, None) if tx is None else outcome(tx)
    return WriteResult(
        text=text,
        node_id=note.id,
        short_id=short_id(note.id),
        path=note.path,
        commit=done.commit,
        op=done.op,
        changed=tx is not None,
        degraded=ormah.degraded(),
        **more,
    )


def clean(ormah: Ormah, text: str | None, found: list[str]) -> str | None:
    """Return `text` without secrets, and append the kind of each secret to `found`."""
    if text is None or not ormah.settings.secrets.redact:
        return text
    result = redact(text, pace=priority.giving)
    found.extend(finding.kind for finding in result.found)
    return result.text


def without_secrets(ormah: Ormah, request: CreateNodeRequest, found: list[str]) -> dict[str, Any]:
    """Return the fields of a new memory that hold text, without secrets: {name: value}. A memory about the user gets
    the tag `about_self`. Append the kind of each secret to `found`."""
    fields: dict[str, Any] = {
        name: clean(ormah, getattr(request, name), found) for name in ("content", "title", "rejected")
    }
    for name in ("paths", "commands", "evidence", "tags"):
        fields[name] = [clean(ormah, text, found) for text in getattr(request, name)]
    if request.about_self and ABOUT_SELF not in fields["tags"]:
        fields["tags"].insert(0, ABOUT_SELF)
    edges = [edge.model_copy(update={"reason": clean(ormah, edge.reason, found)}) for edge in request.connections]
    return fields | {"connections": edges}


def new_note(
    request: CreateNodeRequest, node_id: str, now: datetime, links: Sequence[NoteLink], **more: Any
) -> tuple[str, bytes]:
    """Return the path and the bytes of the note of a new memory. `now`: when it was made, if `request` does not say it.
    `more`: further fields, as `compose` takes them."""
    names = {name: getattr(request, name) for name in ("type", "space", "title", "content")}
    names |= {"id": node_id, "created": request.created or now}
    fields = {
        name: getattr(request, name)
        for name in ("tier", "tags", "confidence", "paths", "commands", "evidence", "everywhere")
    }
    fields |= {"because": request.rejected, "standing": NoteStanding.REJECTED if request.rejected else None, **more}
    return path_for(**names), compose(links=links, **names, **fields)


def clean_name(ormah: Ormah, name: str | None, found: list[str]) -> str | None:
    """Return a name, such as that of a space, without secrets, and append the kind of each secret to `found`. Results
    are cached, because the same few names come often."""
    if name is None or not ormah.settings.secrets.redact:
        return name
    result = redact_name(name)
    found.extend(finding.kind for finding in result.found)
    return result.text


def core_notes(ormah: Ormah) -> list[NodeRow]:
    """Return the core memories that are not outdated and that Ormah may write to."""
    chosen = Filter(tiers=(Tier.CORE,), writable=True, alive_at=ormah.moment())
    return list(ormah.index.notes(ormah.index.ids(chosen)).values())


def identities(ormah: Ormah) -> frozenset[str]:
    """Return the ids of the memories that describe the user: the targets of the self node's `defines` edges."""
    edges = ormah.index.edges(ormah.vault.self_id)[0]
    return frozenset(edge.target for edge in edges if edge.edge is EdgeType.DEFINES)


def make_room_in_core(ormah: Ormah, tx: Transaction, *, keep: set[str], leaving: Collection[str] = ()) -> list[NodeRow]:
    """Move the least important core memories to working, as part of the transaction `tx`, until core is within its cap.
    Return the moved ones.

    `keep`: ids of core memories that stay, also if `tx` is only about to add them. `leaving`: ids of core memories that
    `tx` marks as outdated, so that they do not count.
    """
    core = [row for row in core_notes(ormah) if row.id not in keep and row.id not in leaving]
    spare = len(core) + len(keep) - ormah.settings.tiers.core_cap
    demoted = []
    for row in leaving_core(ormah, core)[: max(0, spare)] if spare > 0 else []:
        seen = see(ormah, row.id)
        data = edit(seen.data, seen.path, set={"tier": Tier.WORKING, "updated": ormah.moment()})
        tx.put(seen.path, data, node_id=row.id, expect=seen.digest)
        demoted.append(row)
    return demoted


def leaving_core(
    ormah: Ormah, core: Iterable[NodeRow], *, scores: Mapping[str, float] | None = None, last: Collection[str] = ()
) -> list[NodeRow]:
    """Return core memories in the order in which they leave core: least important first, then least recently accessed.
    The self node is left out.

    `scores`: {id: importance}, in place of the stored one. `last`: ids of memories that come after the others. Memories
    about the user come last of all.
    """
    identity, known = identities(ormah), scores or {}
    return sorted(
        (row for row in core if row.id != ormah.vault.self_id),
        key=lambda row: (
            row.about_self or row.id in identity,
            row.id in last,
            known.get(row.id, row.strength.importance),
            row.last_accessed,
            row.id,
        ),
    )


def define(ormah: Ormah, tx: Transaction, paths: Collection[str], *, defined: bool = True) -> None:
    """Add or remove the `defines` edges from the self node to the notes at `paths`, in the same commit as their
    `about_self` tags."""
    if not paths:
        return
    me, now = see(ormah, ormah.vault.self_id), ormah.moment()
    if defined:
        links = [NoteLink(EdgeType.DEFINES, stem(path), 1.0, now) for path in paths]
        data = edit(me.data, me.path, link=links)
    else:
        data = edit(me.data, me.path, unlink=[(EdgeType.DEFINES, stem(path)) for path in paths])
    if data != me.data:
        data = edit(data, me.path, set={"updated": now})
        tx.put(me.path, data, node_id=me.id, expect=me.digest)
