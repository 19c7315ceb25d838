"""A judge that is a model: puts the jobs' questions into words. The table of tasks has the prompts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec.structs import replace

from ormahd.judge.asking import Asker, JudgeQuestion
from ormahd.judge.port import AnyVerdict, Contrast, Duplicate, Group, Linked, ShownMemory, Summary, Task, Unusable
from ormahd.text.quoting import harmless, shortened
from ormahd.text.secrets import MARGIN, redact

WHOLE: Final = 6_000
"""Characters of a memory in a question about duplicates. The merged text would replace all of a longer one, while the
model saw only a part."""
SHORT: Final = 2_000
"""Characters of a memory that are shown in questions about links and conflicts, where only its claim matters
(REFERENCE C 3.2)."""
CALL: Final = 24_000
"""Maximum characters of memories in one call: about 7,000 tokens, because small local models can read 8,000."""

_BEGIN = "You look after a person's long-term memory. Each question shows "
_EACH = "\nAnswer each question by its number `q`, exactly once. `reason` is one short sentence."
DUPLICATES: Final = Task(
    "duplicate",
    Duplicate,
    _BEGIN
    + "two memories, a and b. Decide whether both say the same, so that one of them is enough. Different numbers, "
    "dates, names, versions, places or conditions are not the same. If in doubt, `same` is false.\n"
    "If they are the same, `title` and `content` are the text of the one that stays: everything that either of them "
    "says, once, in their own words, with every number, name and path, and nothing else. Else both are null." + _EACH,
    characters=WHOLE,
    rewrites=True,
)
LINKS: Final = Task(
    "link",
    Linked,
    _BEGIN + "two memories, a and b. Decide how a relates to b (`edge`): `supports` (a is a reason or evidence for b), "
    "`part_of` (a is a part of what b describes), `depends_on` (a holds or works only while b does), `related_to` (who "
    "reads one wants to know the other). Usually it is `none`: that both are about one project or one technique is not "
    "enough. That one replaced the other is no link either." + _EACH,
    characters=SHORT,
)
CONFLICTS: Final = Task(
    "conflict",
    Contrast,
    _BEGIN
    + "two memories, a and b, with the dates they were written. Decide whether both can be true today of one and "
    "the same thing. `evolution`: the later one replaced the earlier belief. `tension`: both are still held, and "
    "contradict each other. `none`: both can be true, they are about different things, or one only adds to the other. "
    "Usually it is `none`." + _EACH,
    characters=SHORT,
)
SUMMARIES: Final = Task(
    "consolidate",
    Summary,
    _BEGIN + "a few memories that are close in meaning. Decide whether one memory can take their place. If so, `title` "
    "and `content` are its text: every claim, number, date, name and path that they have, once, in plain sentences that "
    "stand by themselves, and nothing else; `type` is the kind of memory. If they are about different things, `title` "
    "and `content` are null." + _EACH,
    characters=CALL,
    rewrites=True,
    must_write=True,
)

_BACKUP, _AGAIN, _GATE = (
    {"title": "", "text": text}
    for text in (
        "The backup runs every night at two.",
        "Every night at two the backup runs.",
        "The garden gate needs a new hinge.",
    )
)
_QUESTIONS = [{"q": 1, "a": _BACKUP, "b": _AGAIN}, {"q": 2, "a": _BACKUP, "b": _GATE}]
TRIAL: Final = JudgeQuestion("trial", DUPLICATES.instructions, _QUESTIONS, DUPLICATES.answer, (1, 2))
"""The batch of two questions that `ormahctl doctor --judge` asks. It has no data of the person. `RIGHT` has the
answers."""
RIGHT: Final = {1: True, 2: False}


class ModelJudge:
    """A `Judge` that asks a model, through an `Asker`."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    @property
    def name(self) -> str:
        return self._asker.name

    def answer(self, task: Task, groups: Sequence[Group]) -> Sequence[AnyVerdict | None]:
        """Return a verdict for each group, in order, in as many calls as the texts need.

        The verdict is None if the question remains open: a memory is longer than a model may be shown for this task, it
        cannot be shown unchanged although the verdict rewrites it, or the judge gave no usable answer.

        Raises:
            JudgeGone: the judge did not answer a call. Verdicts of earlier calls are lost, so all questions remain
            open.
        """
        verdicts: list[AnyVerdict | None] = [None] * len(groups)
        questions = []
        for q, group in enumerate(groups, 1):
            # the model must be shown enough of the group to answer
            sizes = [len(memory.content) for memory in group]
            if task.rewrites and (max(sizes) > task.characters or sum(sizes) > CALL):
                continue
            if task.must_write and not all(map(_is_unchanged, group)):
                continue
            memories = [_as_data(memory, task.characters) for memory in group]
            pair = {"memories": memories} if task.must_write else {"a": memories[0], "b": memories[1]}
            questions.append({"q": q, **pair})
        for batch in _batches(questions):
            numbers = tuple(question["q"] for question in batch)
            try:
                answered = self._asker.ask(JudgeQuestion(task.name, task.instructions, batch, task.answer, numbers))
            except Unusable:
                continue  # the questions of this call stay open; those of other calls may still be answered
            for verdict in answered:
                if task.rewrites:
                    unchanged = all(map(_is_unchanged, groups[verdict.q - 1]))
                    texts = {name: (getattr(verdict, name) or "").strip() or None for name in ("title", "content")}
                    verdict = replace(verdict, **(texts if unchanged else dict.fromkeys(texts)))
                verdicts[verdict.q - 1] = verdict
        return verdicts


def _batches(questions: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the questions in batches, one for each call.

    The questions of a batch have at most `CALL` characters, unless it has a single question that is longer.
    """
    batch: list[dict[str, Any]] = []
    size = 0
    for question in questions:
        length = len(str(question))
        if batch and size + length > CALL:
            yield batch
            batch, size = [], 0
        batch.append(question)
        size += length
    if batch:
        yield batch


def _as_data(memory: ShownMemory, characters: int) -> dict[str, str]:
    """Return the part of a memory that a model is shown, as a dict: `title`, `type`, `space`, `written`, `text`.

    Title and content are redacted together, because a label such as "password" in the title marks the content as a
    secret. `characters`: maximum length of `text`.
    """
    beginning = memory.content[: characters + MARGIN]  # with a margin, so that a secret at the cut is still recognised
    title, _, content = redact(f"{_title(memory)}\n{beginning}").text.partition("\n")
    return {
        "title": title,
        "type": memory.type,
        "space": memory.space or "global",
        "written": f"{memory.created:%Y-%m-%d}",
        "text": shortened(content, characters),
    }


def _is_unchanged(memory: ShownMemory) -> bool:
    """Return whether a model is shown a memory unchanged: it has no secrets, and no signs that `harmless` replaces."""
    whole = f"{_title(memory)}\n{memory.content}"
    return not redact(whole).found and harmless(whole) == whole


def _title(memory: ShownMemory) -> str:
    """Return a memory's title on one line; "" if it has none."""
    return " ".join((memory.title or "").split())
