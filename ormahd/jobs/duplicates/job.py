"""Merge duplicates: two memories that say the same become one (REFERENCE 3.4; seeds, sleep cycle).

Pairs that say the same in the same words are merged without a decision (`text.sameness`, a cautious rule). About other similar
pairs a judge decides, or without a judge a person: the job makes a proposal with the merged text. A memory is in only one
pending proposal at a time, so that five similar memories do not lead to ten proposals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ormahd.actions.views import headline
from ormahd.jobs.duplicates.candidates import QUESTION, Found, Search, candidates, shown, waiting
from ormahd.jobs.duplicates.change import keeper, merge, persons, why_apart
from ormahd.jobs.duplicates.merged_text import meaning, unfit, united
from ormahd.jobs.job import Ask, Change, Step, Turn
from ormahd.judge.port import Duplicate, JudgeGone
from ormahd.model.node import ProposalType
from ormahd.text.diff import clip
from ormahd.text.sameness import contrast, same
from ormahd.text.secrets import redact
from ormahd.text.standing import Relation, compare
from ormahd.text.statement import read

if TYPE_CHECKING:
    from ormahd.index.rows import NodeRow

__all__ = ["DuplicateMerger", "candidates"]

PROPOSE_LIKENESS = 0.65
"""Minimum similarity score of a pair for a proposal without a judge. Unrelated memories stay below 0.5."""
AT_ONCE = 20
"""Number of pairs in one request to the judge."""
UNASKED = Duplicate(same=True, title=None, content=None, reason="")
"""The verdict that stands in where no judge was asked."""


class DuplicateMerger:
    """The job. It merges pairs with the same words, then handles the other pairs with or without a judge."""

    name = "duplicate_merger"

    def plan(self, turn: Turn) -> Iterator[Step]:
        search = Search(turn, f"{self.name} {turn.judge.name}" if turn.judge else self.name)
        try:
            found = list(search)
            gone: set[str] = set()
            by_itself = turn.ormah.settings.merging.by_itself
            made = persons(turn.ormah, [row for one in found for row in (one.one, one.other)])
            # If a person created both files, neither is removed without that person's decision
            alone = [one for one in found if one.how is not None and by_itself and not one.ids <= made]
            for pair in alone:
                if change := _alone(turn, pair, gone, partial(search.settle, pair)):
                    yield change
                    gone |= _removed(change, turn)
            others = [one for one in found if one not in alone]
            if turn.judge:
                yield from self._judged(turn, others, search, gone)
            else:
                yield from self._unasked(turn, others, search, gone)
        finally:
            search.close()

    def _unasked(self, turn: Turn, pairs: Sequence[Found], search: Search, gone: set[str]) -> Iterator[Step]:
        """Without a judge: propose the pairs with a high score and no difference in their words; settle the others."""
        desk = _Desk(turn, search)
        for pair in sorted(pairs, key=_best_first):
            known = _known(turn, pair)
            answered = known is not None and not known.same  # an agent was asked
            if answered or pair.ids & gone or pair.like.composite < PROPOSE_LIKENESS or not says_the_same(pair):
                search.settle(pair)
            else:
                yield from desk.propose(pair, UNASKED)

    def _judged(self, turn: Turn, pairs: Sequence[Found], search: Search, gone: set[str]) -> Iterator[Step]:
        """With a judge: if it says yes, merge a pair with a high score and propose any other; if it says no, settle it.

        A pair is proposed also if the judge's text is refused, or a person created both files.
        """
        at_once = turn.ormah.settings.merging.merge_likeness
        desk = _Desk(turn, search)
        for pair, verdict in _asked(turn, sorted(pairs, key=_best_first)):
            if not verdict.same or pair.ids & gone:
                search.settle(pair)
                continue
            fresh = _fresh(turn, pair)
            if fresh is None:
                continue
            made = persons(turn.ormah, (fresh.one, fresh.other))
            keep, remove = keeper(fresh.one, fresh.other, made)
            bad = unfit(verdict.title, verdict.content, keep, remove, meaning(turn.ormah))
            if bad is None and not fresh.ids <= made and pair.like.composite >= at_once:
                change = _merged(turn, fresh, verdict, f"judged to say the same by {_name(turn)}: {verdict.reason}")
                yield replace(change, done=partial(search.settle, pair))
                gone |= _removed(change, turn)
            else:
                yield from desk.propose(fresh, verdict, bad)


def says_the_same(pair: Found) -> bool:
    """Whether the words of a pair are evidence that both say the same; the absence of differences is not enough.

    A number, a name, a word of code or a negation that only one side has, or one word replaced by another, is a difference.
    """
    older, newer = sorted((pair.one, pair.other), key=lambda row: (row.created, row.updated, row.id))
    if same(older.title, older.content, newer.title, newer.content) is not None:
        return True
    if contrast(_text(older), _text(newer)) is not None:
        return False
    texts = [read(row.title, row.content, row.type) for row in (older, newer)]
    return compare(texts[0], texts[1], pair.like.cosine).verdict is Relation.SAME


class _Desk:
    """Makes the proposals of one run: a limited number, and none for a memory that is in a pending proposal."""

    def __init__(self, turn: Turn, search: Search) -> None:
        self._turn, self._search = turn, search
        self._asked = waiting(turn.ormah)
        self._left = turn.ormah.settings.merging.max_proposals

    def propose(self, pair: Found, verdict: Duplicate, bad: str | None = None) -> Iterator[Ask]:
        if pair.ids & self._asked or self._left <= 0:
            return  # the pair stays open for a later run
        fresh = _fresh(self._turn, pair)
        if fresh is None:
            return
        yield _ask(self._turn, fresh, verdict, bad)
        self._asked |= pair.ids
        self._left -= 1
        self._search.settle(pair)


def _alone(turn: Turn, pair: Found, gone: set[str], done: Any) -> Change | None:
    """Return the merge of a pair with the same words, made from the current notes; None if it is not to be merged (now)."""
    known = _known(turn, pair)
    if pair.ids & gone or (known is not None and not known.same):
        done()
        return None
    fresh = _fresh(turn, pair, texts=False)
    if fresh is None:
        return None
    how = same(fresh.one.title, fresh.one.content, fresh.other.title, fresh.other.content)
    if how is None:
        return None
    change = _merged(turn, fresh, UNASKED, f"They say the same: {how}.")
    return replace(change, done=done)


def _merged(turn: Turn, pair: Found, verdict: Duplicate, why: str) -> Change:
    keep, remove = keeper(pair.one, pair.other, persons(turn.ormah, (pair.one, pair.other)))
    if verdict.content is not None and not turn.dry:
        turn.ormah.index.embed_ahead([(verdict.title or keep.title, verdict.content)], urgent=False)
    return merge(
        turn.ormah, keep.id, remove.id, title=verdict.title, content=verdict.content, reason=why, body=f"{pair.like}"
    )


def _ask(turn: Turn, pair: Found, verdict: Duplicate, bad: str | None) -> Ask:
    keep, remove = keeper(pair.one, pair.other, persons(turn.ormah, (pair.one, pair.other)))
    judged = verdict is not UNASKED
    title = verdict.title if judged and bad is None else None
    content = verdict.content if judged and bad is None else united(keep, remove, meaning(turn.ormah))
    reason = f"{_name(turn)} says that they are the same: {verdict.reason}" if judged else "They are much alike."
    if bad is not None:
        reason += f" Its text was not taken: {bad}."
    title = title or keep.title or remove.title
    tags = list(dict.fromkeys([*keep.tags, *remove.tags]))
    head = [title or "", f"tags: {', '.join(tags)}" if tags else "", ""]
    text = keep.content if content is None else content
    preview = "\n".join([*(line for line in head[:2] if line), "", text] if any(head) else [text])
    name, other = (headline(row.title, row.content, 60) for row in (keep, remove))
    action = f"Merge two memories of “{name}”" if name == other else f"Merge “{other}” into “{name}”"
    return Ask(
        ProposalType.MERGE, (keep.id, remove.id), action, reason,
        payload={"keep_id": keep.id, "remove_id": remove.id, "title": title, "content": content,
                 "reason": reason, "body": f"{pair.like}"},
        based_on={keep.id: keep.digest, remove.id: remove.digest}, preview=preview,
        evidence={"composite": round(pair.like.composite, 3), "cosine": round(pair.like.cosine, 3),
                  "title": round(pair.like.title, 3), "words": round(pair.like.words, 3)},
    )  # fmt: skip


def _asked(turn: Turn, pairs: Sequence[Found]) -> Iterator[tuple[Found, Duplicate]]:
    """Yield pairs with the judge's verdicts, including remembered ones. Pairs without an answer are omitted and stay open."""
    left = turn.ormah.settings.jobs.judge_questions
    there = True
    for at in range(0, len(pairs), AT_ONCE):
        some = pairs[at : at + AT_ONCE]
        verdicts = [_known(turn, pair) for pair in some]
        new = [pair for pair, known in zip(some, verdicts, strict=True) if known is None][: max(0, left)]
        answers: dict[frozenset[str], Duplicate] = {}
        if new and there and turn.judge is not None:
            left -= len(new)
            turn.give()
            try:
                said = turn.judge.duplicates(shown(new))
            except JudgeGone:
                there, said = False, []
            for pair, answer in zip(new, said, strict=False):
                if answer is not None:
                    answers[pair.ids] = replace(answer, reason=clip(redact(answer.reason).text))
                    _remember(turn, pair, answers[pair.ids])
        for pair, known in zip(some, verdicts, strict=True):
            verdict = known or answers.get(pair.ids)
            if verdict is not None:
                yield pair, verdict


def _remember(turn: Turn, pair: Found, said: Duplicate) -> None:
    """Remember a verdict, unless its text contains a secret; then the judge is asked again."""
    if not turn.dry and not redact(f"{said.title}\n{said.content}").found:
        turn.verdicts.remember(
            QUESTION, pair.texts,
            {"same": said.same, "title": said.title, "content": said.content, "reason": said.reason},
        )  # fmt: skip


def _known(turn: Turn, pair: Found) -> Duplicate | None:
    known = turn.verdicts.known(QUESTION, pair.texts)
    if known is None:
        return None
    said = [known.get(name) if isinstance(known.get(name), str) else None for name in ("title", "content", "reason")]
    return Duplicate(known.get("same") is True, said[0], said[1], said[2] or "")


def _fresh(turn: Turn, pair: Found, *, texts: bool = True) -> Found | None:
    """Return the pair with its current rows; None if one is gone, they cannot be merged, or (`texts`) a text changed."""
    rows = turn.ormah.index.notes([pair.one.id, pair.other.id], connections=False)
    if len(rows) < 2:
        return None
    now = replace(pair, one=rows[pair.one.id], other=rows[pair.other.id])
    if why_apart(turn.ormah, now.one, now.other) is not None or (texts and now.texts != pair.texts):
        return None
    return now


def _removed(change: Change, turn: Turn) -> set[str]:
    """Return the id that a merge would remove in a dry run, to exclude it from further plans; otherwise an empty set."""
    return {list(change.based_on)[1]} if turn.dry else set()


def _best_first(pair: Found) -> tuple[float, list[str]]:
    return -pair.like.composite, sorted(pair.ids)


def _text(row: NodeRow) -> str:
    return f"{row.title}\n{row.content}" if row.title else row.content


def _name(turn: Turn) -> str:
    return f"the judge ({turn.judge.name})" if turn.judge else "nobody"
