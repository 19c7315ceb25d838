"""Add or remove one edge between two memories, in the note of its source."""

from __future__ import annotations

from ormahd.actions.amend import Caller, amending, clean, commit, refuse_source, see
from ormahd.actions.views import headline, stem
from ormahd.api import WriteResult
from ormahd.errors import BadRequest, NotFound
from ormahd.model.change import Kind
from ormahd.model.node import EdgeType, short_id
from ormahd.note.edit import edit
from ormahd.note.values import NoteLink
from ormahd.ormah import Ormah


def connect(
    ormah: Ormah,
    source_id: str,
    target_id: str,
    caller: Caller,
    *,
    edge: EdgeType,
    weight: float,
    reason: str | None,
    remove: bool,
) -> WriteResult:
    """Add the edge, or change its weight and reason; with `remove` delete it. If `reason` is None, the edge keeps
    its reason; an empty `reason` removes it.

    Raises:
        NotFound: an id; with `remove`, the edge is not in the frontmatter (links in the text are the person's own).
        Ambiguous, BadRequest: an id; both ends are the same.
    """
    source_id, target_id = ormah.index.resolve(source_id), ormah.index.resolve(target_id)
    if source_id == target_id:
        raise BadRequest("a memory cannot be connected to itself", hint="name two different ids")
    found: list[str] = []
    reason = clean(ormah, reason, found)

    def attempt() -> WriteResult:
        seen = see(ormah, source_id)
        target = ormah.index.note(target_id)
        refuse_source(target)
        now = ormah.moment()
        ends = f"{headline(seen.note.title, seen.note.content, 40)} {edge} {headline(target.title, target.content, 40)}"
        if remove:
            edited = edit(seen.data, seen.path, unlink=[(edge, stem(target.path))])
            if edited == seen.data:
                raise NotFound(
                    f"there is no such edge in {seen.path}: {ends}", hint="see: ormahctl show " + short_id(source_id)
                )
        else:
            known = next(
                (link for link in seen.note.links if link.edge is edge and not link.body
                 and ormah.index.resolve_link(link.target) == target_id), None
            )  # fmt: skip
            why = known.reason if known is not None and reason is None else reason or None
            same = known is not None and known.weight == weight and known.reason == why
            link = NoteLink(
                edge, known.target if known else stem(target.path), weight, known.created if known else now, why
            )
            edited = seen.data if same else edit(seen.data, seen.path, link=[link])
        if edited == seen.data:
            return WriteResult(f"Connected already: {ends}", source_id, short_id(source_id), seen.path, changed=False,
                           redacted=found, degraded=ormah.degraded())  # fmt: skip
        edited = edit(edited, seen.path, set={"updated": now})
        verb = "Disconnect" if remove else "Connect"
        done = commit(
            ormah, f"{verb}: {ends}", kind=Kind.LINK, caller=caller, body=reason or "",
            fill=lambda tx: tx.put(seen.path, edited, node_id=source_id, expect=seen.digest),
        )  # fmt: skip
        return WriteResult(f"{verb}ed: {ends}", source_id, short_id(source_id), seen.path, done.commit, done.op, True, found, [],
                       ormah.degraded())  # fmt: skip

    return amending(ormah, attempt)
