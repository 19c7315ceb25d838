"""Apply the verdicts of an agent, with the same code as the jobs: one commit per change, and one for all links."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ormahd.actions.amend import Outcome, clean
from ormahd.actions.caller import PERSON
from ormahd.errors import BadRequest, Conflict, InvalidNote, NotFound, OrmahError
from ormahd.jobs.apply import apply
from ormahd.jobs.conflicts.change import evolution, tension
from ormahd.jobs.consolidation.change import consolidate
from ormahd.jobs.duplicates.change import merge
from ormahd.jobs.duplicates.merged_text import meaning, repeated
from ormahd.jobs.links.change import Draft, Wish, count_of
from ormahd.jobs.maintenance import issue
from ormahd.jobs.maintenance.issue import stale
from ormahd.jobs.maintenance.results import LIST, why
from ormahd.model.node import EdgeType
from ormahd.text.diff import clip
from ormahd.text.facts import lost

if TYPE_CHECKING:
    from ormahd.actions.caller import Caller
    from ormahd.jobs.job import Change
    from ormahd.jobs.maintenance.results import Checked, Taken
    from ormahd.ormah import Ormah

NO: Final[Mapping[str, Mapping[str, Any]]] = {
    issue.LINKS: {"edge": None}, issue.CONFLICTS: {"kind": "none"}, issue.MERGES: {"same": False},
    issue.CLUSTERS: {"united": False},
}  # fmt: skip
"""{batch: the verdict "no" in the form in which the job remembers it}."""

MOST_TIMES: Final = 2
SPARE: Final = 500
"""A merged text may have MOST_TIMES the characters of the longer source, and always this many."""
READ: Final = 100_000
"""If two memories together have more characters, the commit does not list the facts that the merged text leaves out."""
NAMED: Final = 12
"""Maximum number of left-out facts that the commit lists."""
REFUSING: Final = (BadRequest, Conflict, NotFound, InvalidNote)
"""Errors that refuse one item; the other items are still applied."""
SO_ALREADY: Final = "it is so already"


class Settling:
    """Applies the checked verdicts of one phase two, as one run. The commits name `caller`, who judged, as their source."""

    def __init__(self, ormah: Ormah, caller: Caller, run: str) -> None:
        self._ormah = ormah
        self._caller = caller
        self.run = run
        self.counts = dict.fromkeys(("edges", "merges", "consolidations", "conflicts"), 0)
        self.commits: list[str] = []

    def apply(self, checked: Checked) -> None:
        """Apply all accepted items. An item that turns out to be impossible is moved to the refused ones.

        Raises:
            VaultBusy: another process holds git, and a change could not be queued.
        """
        self._edges(checked)
        for name, build in (
            ("conflicts", self._conflict),
            ("merges", self._merge),
            ("consolidations", self._consolidation),
        ):
            for one in checked.taken[name]:
                self._one(checked, name, one, build)

    def _edges(self, checked: Checked) -> None:
        """Write all links in one commit; an impossible link does not affect the others.

        A `contradicts` edge is handled as a conflict, in a commit of its own.
        """
        draft = Draft(self._ormah)
        drawn: list[Taken] = []
        for one in checked.taken["edges"]:
            if one.result.edge_type == EdgeType.CONTRADICTS:
                self._one(checked, "edges", one, self._conflict)
                continue
            try:
                self._fresh(one)
                if draft.add(self._wish(one)):
                    drawn.append(one)
                else:
                    checked.refuse(one.name, one.asked.ids[0], SO_ALREADY)
            except REFUSING as exc:
                self._refuse(checked, one, exc)
        if not drawn:
            return
        body = "\n".join([self._judged(), "", *(draft.sentence(wish) for wish in draft.made)])
        change = draft.change(subject=f"Link {count_of(len(drawn))} of memories", body=body)
        try:
            done = apply(self._ormah, change, self._caller, run=self.run)
        except REFUSING as exc:
            for one in drawn:
                self._refuse(checked, one, exc)
        else:
            self._count(checked, "edges", drawn, done)

    def _one(self, checked: Checked, name: str, one: Taken, build: Callable[[Taken], Change]) -> None:
        """Make the change of one item from the current memories, and commit it."""
        try:
            self._fresh(one)
            done = apply(self._ormah, build(one), self._caller, run=self.run)
        except REFUSING as exc:
            self._refuse(checked, one, exc)
            return
        if done is None:
            checked.refuse(one.name, one.asked.ids[0], SO_ALREADY)
        else:
            self._count(checked, name, [one], done)

    def _fresh(self, one: Taken) -> None:
        rows = self._ormah.index.notes(list(one.asked.ids), connections=False)
        if (changed := stale(rows, one.asked)) is not None:
            raise Conflict(changed[1], data={"id": changed[0]})

    def _refuse(self, checked: Checked, one: Taken, error: OrmahError) -> None:
        checked.refuse(one.name, str(error.data.get("id") or one.asked.ids[0]), why(error), (one.batch, one.asked))

    def _count(self, checked: Checked, name: str, taken: Sequence[Taken], done: Outcome | None) -> None:
        self.counts[name] += len(taken)
        if done is not None and done.commit is not None:
            self.commits.append(done.commit)
        for one in taken:
            if LIST[name] == one.batch:
                checked.verdicts[one.batch, one.asked.ids] = _yes(one.result)

    # ------------------------------------------------------------ the changes

    def _wish(self, one: Taken) -> Wish:
        weight = one.result.weight or one.asked.score or 0.5
        return Wish(one.result.source_id, one.result.target_id, EdgeType(one.result.edge_type), weight, self._said(one))

    def _conflict(self, one: Taken) -> Change:
        reason, body = self._said(one), self._body(one)
        if getattr(one.result, "kind", None) != "evolution":
            return tension(self._ormah, one.result.source_id, one.result.target_id, reason=reason, body=body)
        return evolution(
            self._ormah, one.result.source_id, one.result.target_id, reason=reason, body=body,
            by_person=self._caller.source == PERSON,
        )  # fmt: skip

    def _merge(self, one: Taken) -> Change:
        title, content = self._clean(one.result.title), self._clean(one.result.content)
        rows = self._ormah.index.notes(list(one.asked.ids), connections=False)
        body = self._judged()
        if content is not None:
            most = max(SPARE, MOST_TIMES * max(len(row.content) for row in rows.values()))
            if len(content) > most:
                raise BadRequest(f"content: it has {len(content):,} characters; {most:,} are enough for these two")
        keep, gone = rows[one.result.keep_id], rows[one.result.remove_id]
        if content is not None and (twice := repeated(content, keep, gone, meaning(self._ormah))) is not None:
            raise BadRequest(f"content: it says the same twice: “{clip(twice)}”", hint="say it once")
        united = (title or keep.title, keep.content if content is None else content)
        both = [(row.title, row.content) for row in (keep, gone)]
        long = sum(len(content) for _, content in both) > READ
        if missing := () if long else lost(both, "\n".join(part or "" for part in united)):
            body += "\nSaid only before: " + ", ".join(missing[:NAMED])
        return merge(self._ormah, keep.id, gone.id, title=title, content=content, reason=self._said(one), body=body)

    def _consolidation(self, one: Taken) -> Change:
        return consolidate(
            self._ormah, one.result.node_ids, title=one.result.title, content=one.result.content,
            type=one.result.type, reason=self._said(one), body=self._body(one), source=self._caller.source,
        )  # fmt: skip

    # ------------------------------------------------------------ texts of commits

    def _clean(self, text: str | None) -> str | None:
        return clean(self._ormah, text, [])

    def _said(self, one: Taken) -> str:
        return " ".join((self._clean(one.result.reason) or "").split())

    def _judged(self) -> str:
        return f"Judged by {self._caller.source}."

    def _body(self, one: Taken) -> str:
        return "\n".join(part for part in (self._said(one), self._judged()) if part)


def _yes(result: Any) -> Mapping[str, Any]:
    if hasattr(result, "edge_type"):
        return {"edge": result.edge_type}
    if hasattr(result, "kind"):
        return {"kind": result.kind}
    return {"same": True} if hasattr(result, "keep_id") else {"united": True}
