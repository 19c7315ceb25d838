"""A judge that is a model: turns the jobs' questions into prompts, and the model's answers into verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, TypeVar

from msgspec import Struct

from ormahd.judge.asking import Asker, JudgeQuestion, Unusable
from ormahd.judge.port import Contrast, Duplicate, Linked, Pair, ShownMemory, Summary
from ormahd.model.node import EdgeType, NodeType
from ormahd.text.quoting import harmless, shortened
from ormahd.text.secrets import MARGIN, redact

WHOLE: Final = 6_000
"""Maximum characters of a memory in a question about duplicates. No question is asked about a longer one: the merged
text would replace all of it, while the model saw only a part."""
SHORT: Final = 2_000
"""Characters of a memory that are shown in questions about links and conflicts, where only its claim matters
(REFERENCE C 3.2)."""
CALL: Final = 24_000
"""Maximum characters of memories in one call: about 7,000 tokens, because small local models can read 8,000."""

Verdict = TypeVar("Verdict", Duplicate, Linked, Contrast, Summary)
_RELATIONS: Final = {edge.value: edge for edge in (EdgeType.SUPPORTS, EdgeType.PART_OF, EdgeType.DEPENDS_ON, EdgeType.RELATED_TO)}  # fmt: skip


class SameAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    q: int
    same: bool
    title: str | None
    content: str | None
    reason: str


class LinkAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    q: int
    relation: Literal["supports", "part_of", "depends_on", "related_to", "none"]
    reason: str


class ContrastAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    q: int
    kind: Literal["evolution", "tension", "none"]
    reason: str


class SummaryAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    q: int
    together: bool
    title: str | None
    content: str | None
    type: NodeType
    reason: str


_EACH = "Answer each question by its number `q`, exactly once. `reason` is one short sentence."
SAME: Final = (
    "You look after a person's long-term memory. Each question shows two memories, a and b. Decide whether both say the same, so that "
    "one of them is enough. Different numbers, dates, names, versions, places or conditions are not the same. If in doubt, `same` is false.\n"
    "If they are the same, `title` and `content` are the text of the one that stays: everything that either of them says, once, in their "
    "own words, with every number, name and path, and nothing else. Else both are null.\n" + _EACH
)
LINKS: Final = (
    "You look after a person's long-term memory. Each question shows two memories, a and b. Decide how a relates to b: `supports` (a is a "
    "reason or evidence for b), `part_of` (a is a part of what b describes), `depends_on` (a holds or works only while b does), "
    "`related_to` (who reads one wants to know the other). Usually it is `none`: that both are about one project or one technique is not "
    "enough. That one replaced the other is no link either.\n" + _EACH
)
CONFLICTS: Final = (
    "You look after a person's long-term memory. Each question shows two memories, a and b, with the dates they were written. Decide whether "
    "both can be true today of one and the same thing. `evolution`: the later one replaced the earlier belief. `tension`: both are still "
    "held, and contradict each other. `none`: both can be true, they are about different things, or one only adds to the other. Usually "
    "it is `none`.\n" + _EACH
)
SUMMARIES: Final = (
    "You look after a person's long-term memory. Each question shows a few memories that are close in meaning. Decide whether one memory can "
    "take their place (`together`). If so, `title` and `content` are its text: every claim, number, date, name and path that they have, once, "
    "in plain sentences that stand by themselves, and nothing else; `type` is the kind of memory. If they are about different things, "
    "`together` is false, and title and content are null.\n" + _EACH
)


class ModelJudge:
    """A `Judge` that asks a model, through an `Asker`, and turns its answers into verdicts."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    @property
    def name(self) -> str:
        return self._asker.name

    def duplicates(self, pairs: Sequence[Pair]) -> Sequence[Duplicate | None]:
        def verdict(pair: Pair, said: SameAnswer) -> Duplicate:
            faithful = said.same and all(_faithful(one) for one in (pair.a, pair.b))
            return Duplicate(
                said.same,
                _text(said.title) if faithful else None,
                _text(said.content) if faithful else None,
                said.reason,
            )

        return self._each(
            "duplicates", SAME, pairs, lambda pair: _pair(pair, WHOLE), SameAnswer, verdict,
            fits=lambda pair: max(len(pair.a.content), len(pair.b.content)) <= WHOLE,
        )  # fmt: skip

    def links(self, pairs: Sequence[Pair]) -> Sequence[Linked | None]:
        def verdict(_: Pair, said: LinkAnswer) -> Linked:
            return Linked(_RELATIONS.get(said.relation), said.reason)

        return self._each("links", LINKS, pairs, lambda pair: _pair(pair, SHORT), LinkAnswer, verdict)

    def conflicts(self, pairs: Sequence[Pair]) -> Sequence[Contrast | None]:
        def verdict(_: Pair, said: ContrastAnswer) -> Contrast:
            return Contrast(said.kind, said.reason)

        return self._each("conflicts", CONFLICTS, pairs, lambda pair: _pair(pair, SHORT), ContrastAnswer, verdict)

    def summaries(self, clusters: Sequence[Sequence[ShownMemory]]) -> Sequence[Summary | None]:
        def verdict(_: Sequence[ShownMemory], said: SummaryAnswer) -> Summary:
            content = _text(said.content) if said.together else None
            return Summary(_text(said.title) if content is not None else None, content, said.type, said.reason)

        def fits(cluster: Sequence[ShownMemory]) -> bool:
            # A summary replaces all memories of the cluster, so the model must see each of them whole and unchanged
            return sum(len(one.content) for one in cluster) <= CALL and all(_faithful(one) for one in cluster)

        return self._each(
            "summaries", SUMMARIES, clusters, lambda cluster: {"memories": [_shown(one, CALL) for one in cluster]},
            SummaryAnswer, verdict, fits=fits,
        )  # fmt: skip

    def _each(
        self, task: str, instructions: str, asked: Sequence[Any], show: Callable[[Any], dict[str, Any]], item: type[Struct],
        verdict: Callable[[Any, Any], Verdict], *, fits: Callable[[Any], bool] = lambda _: True,
    ) -> list[Verdict | None]:  # fmt: skip
        """Ask one question about each entry of `asked`, in as many calls as the texts need. Return the verdicts in
        order; None for an entry that got no usable answer, or for which `fits` is false, so that it was not asked
        about.

        Raises:
            JudgeGone: the judge did not answer a call. Answers to earlier calls are lost; their questions stay open.
        """
        verdicts: list[Verdict | None] = [None] * len(asked)
        for batch in _calls([(at, show(one)) for at, one in enumerate(asked) if fits(one)]):
            numbers = tuple(range(1, len(batch) + 1))
            data = [{"q": number, **shown} for number, (_, shown) in zip(numbers, batch, strict=True)]
            try:
                items = self._asker.ask(JudgeQuestion(task, instructions, data, item, numbers))
            except Unusable:
                continue  # the questions of this call stay open; those of other calls may still be answered
            for said in items:
                at = batch[said.q - 1][0]
                verdicts[at] = verdict(asked[at], said)
        return verdicts


def _calls(shown: Sequence[tuple[int, dict[str, Any]]]) -> Iterator[list[tuple[int, dict[str, Any]]]]:
    """Divide questions among calls. The questions of one call have at most `CALL` characters, unless it has a single
    question that is longer."""
    batch: list[tuple[int, dict[str, Any]]] = []
    size = 0
    for one in shown:
        length = len(str(one[1]))
        if batch and size + length > CALL:
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += length
    if batch:
        yield batch


def _pair(pair: Pair, characters: int) -> dict[str, Any]:
    return {"a": _shown(pair.a, characters), "b": _shown(pair.b, characters)}


def _shown(one: ShownMemory, characters: int) -> dict[str, Any]:
    # Redact title and content together: a label such as "password" in the title marks the content as a secret
    beginning = one.content[: characters + MARGIN]  # with a margin, so that a secret at the cut is still recognised
    title, _, content = redact(f"{_title(one)}\n{beginning}").text.partition("\n")
    return {
        "title": title, "type": one.type.value, "space": one.space or "global", "written": one.created.date().isoformat(),
        "text": shortened(content, characters),
    }  # fmt: skip


def _faithful(one: ShownMemory) -> bool:
    """Return whether a model is shown a memory unchanged, because it has no secrets, and no signs that `harmless`
    replaces."""
    whole = f"{_title(one)}\n{one.content}"
    return not redact(whole).found and harmless(whole) == whole


def _title(one: ShownMemory) -> str:
    return " ".join((one.title or "").split())


def _text(said: str | None) -> str | None:
    """Return a text that a model wrote, without white space around it; None if it is missing or empty."""
    return said.strip() if said is not None and said.strip() else None
