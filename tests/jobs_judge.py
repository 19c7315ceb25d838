"""A judge for tests: what it says follows from the texts and from a seed, and now and then it is what judges are.

It is honest by simple rules (the same words: a duplicate; the same words but for a number: a contradiction; everything
that was said, in a row: a summary), and by chance, in shares that the test gives, wrong, malformed, slow or gone. The same
seed and the same questions give the same answers, whatever the ids are.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ormahd.judge.port import AnyVerdict, Contrast, Duplicate, Group, JudgeGone, Linked, ShownMemory, Summary, Task
from ormahd.model.node import NodeType
from ormahd.text.words import words

T = TypeVar("T")

SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
"""Looks like a token of GitHub's, as a model that repeats what it was shown might write one."""
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Faults:
    """Shares of questions (0 to 1) that are not answered honestly."""

    wrong: float = 0.0
    """The opposite, or something made up."""
    malformed: float = 0.0
    """What no memory can be: empty, a megabyte, with a secret, a NUL, conflict markers; or too few answers."""
    open: float = 0.0
    """No answer to this one question."""
    slow: float = 0.0
    """The world goes on meanwhile (`meanwhile`)."""
    gone: float = 0.0
    """Of calls: nobody answers."""


NONE = Faults()


@dataclass
class ScriptedJudge:
    """Implements `ormahd.judge.port.Judge`. `asked` holds every question, in order: (what, texts)."""

    seed: int = 0
    faults: Faults = NONE
    meanwhile: Callable[[], None] = lambda: None
    """What happens while a slow judge thinks: the test's clock goes on, a person edits."""
    name: str = "scripted"
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    did: Counter[str] = field(default_factory=Counter)
    """How often it was what."""

    def answer(self, task: Task, groups: Sequence[Group]) -> Sequence[AnyVerdict | None]:
        asked = {
            "duplicate": self.duplicates,
            "link": self.links,
            "conflict": self.conflicts,
            "consolidate": self.summaries,
        }
        return asked[task.name](groups)

    def duplicates(self, pairs: Sequence[Group]) -> Sequence[Duplicate | None]:
        return self._answer("duplicates", pairs, _duplicate, _no_duplicate, _bad_duplicate)

    def links(self, pairs: Sequence[Group]) -> Sequence[Linked | None]:
        return self._answer("links", pairs, _link, _no_link, _bad_link)

    def conflicts(self, pairs: Sequence[Group]) -> Sequence[Contrast | None]:
        return self._answer("conflicts", pairs, _contrast, _no_contrast, _bad_contrast)

    def summaries(self, clusters: Sequence[Group]) -> Sequence[Summary | None]:
        return self._answer("summaries", clusters, _summary, _no_summary, _bad_summary)

    def _answer(
        self,
        what: str,
        questions: Sequence[Group],
        honest: Callable[[Group], T],
        wrong: Callable[[Group, random.Random], T],
        malformed: Callable[[Group, random.Random], T],
    ) -> Sequence[T | None]:
        texts = [tuple(sorted(f"{one.title or ''}\0{one.content}" for one in question)) for question in questions]
        self.asked += [(what, one) for one in texts]
        chance = random.Random(repr((self.seed, what, texts)))
        if chance.random() < self.faults.gone:
            self.did["gone"] += 1
            raise JudgeGone("nobody answers")
        answers: list[T | None] = []
        for question in questions:
            drawn = chance.random()
            for fault in ("wrong", "malformed", "open", "slow"):
                drawn -= getattr(self.faults, fault)
                if drawn < 0:
                    break
            else:
                fault = "honest"
            self.did[fault] += 1
            if fault == "open":
                answers.append(None)
                continue
            if fault == "slow":
                self.meanwhile()
            answers.append(
                wrong(question, chance) if fault == "wrong"
                else malformed(question, chance) if fault == "malformed" else honest(question)
            )  # fmt: skip
            if fault == "malformed" and chance.random() < 0.1:
                return answers  # too few
        return answers


# ---------------------------------------------------------------- honest


def _plain(shown: ShownMemory) -> Counter[str]:
    return Counter(words(_NUMBER.sub("", shown.content)))


def _same(one: ShownMemory, other: ShownMemory) -> bool:
    return Counter(words(one.content)) == Counter(words(other.content))


def _duplicate(pair: Group) -> Duplicate:
    one, other = pair
    return Duplicate(_same(one, other), None, None, "the same words" if _same(one, other) else "other words")


def _link(pair: Group) -> Linked:
    one, other = (set(words(shown.content)) for shown in pair)
    shared = len(one & other)
    return Linked("supports" if shared >= 4 else "none", f"{shared} words in common")


def _contrast(pair: Group) -> Contrast:
    one, other = pair
    if _plain(one) != _plain(other) or _same(one, other):
        return Contrast("none", "about other things")
    return Contrast("evolution" if one.created != other.created else "tension", "another number")


def _summary(cluster: Group) -> Summary:
    lines = dict.fromkeys(line for shown in cluster for line in shown.content.splitlines() if line.strip())
    title = " / ".join(dict.fromkeys(shown.title for shown in cluster if shown.title))[:200]
    return Summary(title or None, "\n".join(lines), cluster[0].type, f"{len(cluster)} memories on one thing")


# ---------------------------------------------------------------- wrong


def _no_duplicate(pair: Group, chance: random.Random) -> Duplicate:
    same = not _duplicate(pair).same
    return Duplicate(same, "Made up", "Something that nobody ever said.", "wrong") if chance.random() < 0.5 else (
        Duplicate(same, None, None, "wrong")
    )  # fmt: skip


def _no_link(_pair: Group, chance: random.Random) -> Linked:
    return Linked(chance.choice(["part_of", "depends_on", "related_to"]), "wrong")


def _no_contrast(_pair: Group, chance: random.Random) -> Contrast:
    return Contrast(chance.choice(["evolution", "tension"]), "wrong")


def _no_summary(cluster: Group, chance: random.Random) -> Summary:
    """Half of what was said, something else, or the truth under a type of its own."""
    lines = _summary(cluster).content or ""
    content = chance.choice([lines[: len(lines) // 2], "All of this is settled.", lines])
    return Summary(chance.choice([None, "Miscellaneous"]), content or "-", chance.choice(list(NodeType)), "wrong")


# ---------------------------------------------------------------- malformed


def _bad_text(chance: random.Random) -> str:
    return chance.choice([
        "", " \n\t ", "x" * 1_000_000, f"The token is {SECRET}.", "a NUL \0 in it", "<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs",
        "half of a character \ud800", "---\nid: nobody\n---\n",
    ])  # fmt: skip


def _bad_duplicate(_pair: Group, chance: random.Random) -> Duplicate:
    return Duplicate(True, chance.choice([None, "", "t" * 10_000]), _bad_text(chance), _bad_text(chance)[:2000])


def _bad_link(_pair: Group, chance: random.Random) -> Linked:
    return Linked("related_to", _bad_text(chance)[:2000])


def _bad_contrast(_pair: Group, chance: random.Random) -> Contrast:
    return Contrast(chance.choice(["evolution", "tension", "none"]), _bad_text(chance)[:2000])


def _bad_summary(cluster: Group, chance: random.Random) -> Summary:
    return Summary(
        chance.choice([None, "", "t" * 10_000]), _bad_text(chance), cluster[0].type, _bad_text(chance)[:2000]
    )
