"""Add or remove one edge between two memories, in the note of its source."""

from __future__ import annotations

from ormahd.actions.amend import Caller, amending, clean, refuse_source, see, transaction, written
from ormahd.actions.views import headline, stem
from ormahd.api import ConnectParams, WriteResult
from ormahd.errors import BadRequest, NotFound
from ormahd.model.change import Kind
from ormahd.model.node import EdgeType, LinkRequest, short_id
from ormahd.note.edit import edit
from ormahd.note.values import NoteLink
from ormahd.ormah import Ormah


def connect(ormah: Ormah, params: ConnectParams, caller: Caller) -> WriteResult:
    """Add the edge, or change its weight and reason; with `remove` delete it. If `reason` is None, the edge keeps its
    reason; an empty `reason` removes it.

    Raises:
        NotFound: an id is unknown, or the edge to remove is not in the frontmatter (links in the text are the person's
        own).
        Ambiguous: several memories have an id with this prefix.
        BadRequest: a value is invalid, or both ends are the same memory.
    """
    wish = LinkRequest.of(params, target=params.target_id)
    edge = EdgeType(wish.edge)
    source_id, target_id = ormah.index.resolve(params.source_id), ormah.index.resolve(wish.target)
    if source_id == target_id:
        raise BadRequest("a memory cannot be connected to itself", hint="name two different ids")
    found: list[str] = []
    reason = clean(ormah, wish.reason, found)

    def attempt() -> WriteResult:
        """Write the edge into the note of the source, or remove it, and return the answer.

        Raises:
            NotFound: an edge to remove does not exist.
        """
        # The edge as the source's note has it, if it does
        seen = see(ormah, source_id)
        target = ormah.index.note(target_id)
        refuse_source(target)
        now = ormah.moment()
        ends = f"{headline(seen.note.title, seen.note.content, 40)} {edge} {headline(target.title, target.content, 40)}"
        links = (link for link in seen.note.links if link.edge is edge and not link.body)
        known = next((link for link in links if ormah.index.resolve_link(link.target) == target_id), None)

        # The edited note
        if params.remove:
            edited = edit(seen.data, seen.path, unlink=[(edge, stem(target.path))])
            if edited == seen.data:
                hint = f"see: ormahctl show {short_id(source_id)}"
                raise NotFound(f"there is no such edge in {seen.path}: {ends}", hint=hint)
        elif known is None:
            link = NoteLink(edge, stem(target.path), wish.weight, now, reason or None)
            edited = edit(seen.data, seen.path, link=[link])
        else:
            why = known.reason if reason is None else reason or None
            link = NoteLink(edge, known.target, wish.weight, known.created, why)
            same = known.weight == wish.weight and known.reason == why
            edited = seen.data if same else edit(seen.data, seen.path, link=[link])
        if edited == seen.data:
            return written(ormah, f"Connected already: {ends}", seen, redacted=found)
        edited = edit(edited, seen.path, set={"updated": now})

        # Commit it
        verb = "Disconnect" if params.remove else "Connect"
        with transaction(ormah, f"{verb}: {ends}", kind=Kind.LINK, caller=caller, body=reason or "") as tx:
            tx.put(seen.path, edited, node_id=source_id, expect=seen.digest)
        return written(ormah, f"{verb}ed: {ends}", seen, tx, redacted=found)

    return amending(ormah, attempt)
