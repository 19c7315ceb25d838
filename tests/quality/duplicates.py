"""Pairs of memories with what is right about them, made from texts by rules: retellings (the same) and hard negatives (not).

A retelling changes what carries no meaning, or says it in other words; a hard negative changes one thing that does: a
number, a date, a name, a negation, a unit, a version, a path, a word of code. Every hard negative is retold as well, so
that the rule cannot tell the two by there being a difference.

`python -m tests.quality.duplicates [FILE.json ...]` prints the figures; further files hold dialogues whose turns have `text`.
"""

from __future__ import annotations

import json
import random
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ormahd.text.sameness import Same, same
from tests.quality.sets import memory, rows

CORPUS = Path(__file__).parent / "corpus"
ROUNDS = 12
"""Pairs of each kind that are made of one text at most, by different draws."""

Words = tuple[str | None, str]
"""A memory's title and content."""
Change = Callable[[str, random.Random], str]


@dataclass(frozen=True)
class Pair:
    kind: str
    same: bool
    one: Words
    other: Words


def texts() -> list[Words]:
    found: list[Words] = []
    for half in ("dev", "held"):
        found += [(row[-2] or None, row[-1]) for row in rows(CORPUS / f"{half}-memories.tsv")]
    return found + [(text.title, text.content) for text in memory()[0]]


def turns(file: Path) -> list[Words]:
    """What was said in a dialogue of the shared benchmark: the texts of its turns."""

    def walk(value: object) -> Iterator[str]:
        if isinstance(value, dict):
            if isinstance(value.get("text"), str) and "speaker" in value:
                yield f"{value['speaker']}: {value['text']}"
            for inner in value.values():
                yield from walk(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from walk(inner)

    return [(None, text) for text in walk(json.loads(file.read_text("utf-8")))]


# ---------------------------------------------------------------- changes of a text


def _one(text: str, pattern: str, draw: random.Random, new: Callable[[re.Match[str]], str], flags: int = 0) -> str:
    """The text with one of the pattern's places changed, drawn by chance."""
    places = list(re.finditer(pattern, text, flags))
    if not places:
        return text
    place = draw.choice(places)
    return text[: place.start()] + new(place) + text[place.end() :]


def _swap(words: Sequence[str], **more: bool) -> Change:
    """Each of these words for another of them."""
    others = {word: [one for one in words if one != word] for word in words}
    pattern = rf"(?<![\w-])(?:{'|'.join(map(re.escape, sorted(words, key=len, reverse=True)))})(?![\w-])"
    return lambda text, draw: _one(text, pattern, draw, lambda place: draw.choice(others[place[0]]))


def _by(pairs: dict[str, str]) -> Change:
    pattern = rf"(?<![\w'-])(?:{'|'.join(map(re.escape, pairs))})(?![\w'-])"
    return lambda text, draw: _one(text, pattern, draw, lambda place: pairs[place[0]])


def _both(pairs: dict[str, str]) -> Change:
    return _by(pairs | {new: old for old, new in pairs.items()})


def _turned(text: str, draw: random.Random) -> str:
    """Two names change places; an article in capitals is none, nor is the same name in another case."""
    found = re.search(r"\b(?!The\b)([A-Z]\w+)\b(.{3,40}?)\b(?!The\b)([A-Z]\w+)\b", text)
    if found is None or found[1].casefold() == found[3].casefold():
        return text
    return f"{text[: found.start()]}{found[3]}{found[2]}{found[1]}{text[found.end() :]}"


WORDS = tomllib.loads(Path(__file__).with_name("duplicates.toml").read_text("utf-8"))
NAMES, NOUNS = WORDS["names"].split(), WORDS["nouns"].split()

SAME: dict[str, Change] = {
    "case": lambda text, draw: draw.choice(
        [
            text[:1].swapcase() + text[1:],
            text.upper() if text.isalpha() else text.title() if text.islower() else text[:1].lower() + text[1:],
        ]
    ),
    "loud": lambda text, draw: _one(text, r"\b[a-z]{4,}\b", draw, lambda place: place[0].upper()),
    "blanks": lambda text, draw: _one(text, r" ", draw, lambda _: draw.choice(["  ", "\n", " \t"])),
    "punctuation": lambda text, draw: _one(text, r"[,;](?= )|\.$", draw, lambda _: draw.choice(["", ";", "!"])),
    "quotes": lambda text, draw: text.replace("'", "\u2019").replace('"', "\u201c"),
    "bold": lambda text, draw: _one(text, r"(?<=\s)[A-Za-z]{3,}(?=\s)", draw, lambda place: f"**{place[0]}**"),
    "bullet": lambda text, draw: f"- {text}" if text[:1].isalpha() else text,
    "article": lambda text, draw: _one(text, r"(?<=\w )(?:the|a|an) (?=[a-z])", draw, lambda _: ""),
    "other article": lambda text, draw: _one(
        text, r"(?<=\w )(?:the|a|an) (?=[a-z])", draw, lambda place: "a " if place[0] == "the " else "the "
    ),
    "contraction": _both(WORDS["contraction"]),
    "spelling": _both(WORDS["spelling"]),
    "hyphen": lambda text, draw: _one(text, r"(?<=[a-z])-(?=[a-z])", draw, lambda _: " "),
    "numeral": _by(WORDS["numeral"]),
    "dash": lambda text, draw: _one(text, r"[:;](?= )", draw, lambda _: draw.choice([" \u2014", " -"])),
}
"""What the rule is to see through."""

OTHER_WORDS: dict[str, Change] = {
    "synonym": _by(WORDS["synonym"]),
    "filler": lambda text, draw: _one(
        text, r"(?<=[a-z]) (?=[a-z])", draw, lambda _: draw.choice([" also ", " really ", " in fact "])
    ),
    "typo": lambda text, draw: _one(
        text, r"[a-z]{7,}", draw, lambda place: place[0][:3] + place[0][4] + place[0][3] + place[0][5:]
    ),
    "tense": _by(WORDS["tense"]),
    "order": lambda text, draw: re.sub(r"^([^.;]{12,}?), ([^.;,]{12,})\.$", lambda two: f"{two[2]}, {two[1]}.", text),
    "sentence": lambda text, draw: f"{text} This was noted in passing.",
}
"""Retellings that take somebody who understands them; they are for a judge or a person. (Tense is none, strictly.)"""

DIFFERENT: dict[str, Change] = {
    "number": lambda text, draw: _one(
        text, r"\d+", draw, lambda place: str(int(place[0]) + draw.choice([-1, 1, 2, 10]))
    ),
    "digit": lambda text, draw: _one(text, r"\d", draw, lambda place: str((int(place[0]) + draw.randint(1, 9)) % 10)),
    "point": lambda text, draw: _one(
        text, r"(?<=\d)[.,](?=\d)|(?<=\d)(?=\d)", draw, lambda place: "" if place[0] else "."
    ),
    "sign": lambda text, draw: _one(text, r"(?<![\w.-])(?=\d)", draw, lambda _: draw.choice(["-", ">", "<", "~", "$"])),
    "numeral": _swap(WORDS["numbers"].split()),
    "month": _swap(WORDS["months"].split()),
    "day": _swap(WORDS["days"].split()),
    "unit": _swap(WORDS["units"].split()),
    "negation": _by(WORDS["negation"]),
    "denial": _by(WORDS["denial"]),
    "name": lambda text, draw: _one(
        text, r"(?<=[a-z,] )[A-Z][a-z]{2,}", draw, lambda place: draw.choice([n for n in NAMES if n != place[0]])
    ),
    "word": lambda text, draw: _one(
        text, r"(?<=[a-z,] )[a-z]{5,}(?=[ .,])", draw, lambda place: draw.choice([n for n in NOUNS if n != place[0]])
    ),
    "code": lambda text, draw: _one(
        text,
        r"`[^`]{3,}`|\b\w+_\w+\b|\b[a-z]+[A-Z]\w+\b",
        draw,
        lambda place: place[0][:-2] + draw.choice("xqz") + place[0][-1],
    ),
    "code's case": lambda text, draw: _one(text, r"(?<=`)[^`]*[a-z][^`]*(?=`)", draw, lambda place: place[0].upper()),
    "joint": lambda text, draw: _one(
        text,
        r"(?<=[a-z0-9])[_./](?=[a-z0-9])",
        draw,
        lambda place: draw.choice([one for one in "_./-" if one != place[0]]),
    ),
    "path": lambda text, draw: _one(
        text,
        r"(?<=/)[\w.-]{2,}|(?<=\w)\.(?:py|toml|md|example|json|com)\b",
        draw,
        lambda place: place[0] + draw.choice(["x", "2", ".bak"]),
    ),
    "flag": lambda text, draw: _one(
        text, r"(?<=[ `])-{1,2}(?=[a-z])", draw, lambda place: "" if len(place[0]) == 1 else "-"
    ),
    "question": lambda text, draw: text[:-1] + "?" if text.endswith(".") else text,
    "turned": _turned,
    "lettered": lambda text, draw: _one(
        text, r"(?<=[a-z]) (?=[a-z])", draw, lambda _: draw.choice([" A ", " B ", " C "])
    ),
}
"""What makes another memory of it."""

TITLES: dict[str, Change] = {
    "title's number": lambda text, draw: _one(
        text, r"$|\d+", draw, lambda place: str(int(place[0]) + 1) if place[0] else " 2"
    ),
    "title's name": lambda text, draw: f"{text} {draw.choice(['staging', 'production', 'Windows', 'backup'])}",
    "title's word": lambda text, draw: f"{text} {draw.choice(NOUNS)}",
    "title's no": lambda text, draw: f"No {text[:1].lower()}{text[1:]}",
}


def pairs(sources: Sequence[Words], rounds: int = ROUNDS) -> list[Pair]:
    """The same pairs for the same texts."""
    found: dict[Pair, None] = {}
    for number, (title, content) in enumerate(sources):
        draw = random.Random(number)
        for _ in range(rounds):
            for group, right in ((SAME, True), (OTHER_WORDS, True), (DIFFERENT, False), (DIFFERENT, False)):
                for kind in draw.sample(list(group), len(group)):
                    other = group[kind](content, draw)
                    if " ".join(other.split()) != " ".join(content.split()) or (kind == "blanks" and other != content):
                        retold = other if right else _retold(other, draw)
                        found[Pair(kind, right, (title, content), (title, retold))] = None
                        break
            if title is not None and draw.random() < 0.15:
                kind = draw.choice(list(TITLES))
                found[Pair(kind, False, (title, content), (TITLES[kind](title, draw), _retold(content, draw)))] = None
                given = content.split(".")[0]
                found[Pair("untitled", True, (given, content), (None, content))] = None
    return list(found)


def _retold(text: str, draw: random.Random) -> str:
    """What is harmless, on top: only changes that cannot take a hard negative back."""
    for kind in draw.sample(["loud", "blanks", "bold", "article", "contraction", "quotes"], 2):
        text = SAME[kind](text, draw)
    return text


@dataclass(frozen=True)
class Figures:
    merged: int
    wrong: list[Pair]
    """Merged, and different."""
    recall: dict[str, tuple[int, int]]
    """Kind -> (merged, all) of the same."""
    negatives: Counter[str]

    @property
    def precision(self) -> float:
        return 1 - len(self.wrong) / self.merged if self.merged else 1.0

    def share(self, kinds: Sequence[str]) -> float:
        hit, every = (sum(self.recall[kind][at] for kind in kinds if kind in self.recall) for at in (0, 1))
        return hit / every if every else 0.0


def measure(found: Sequence[Pair]) -> Figures:
    merged, every, negatives = Counter[str](), Counter[str](), Counter[str]()
    wrong: list[Pair] = []
    for pair in found:
        how: Same | None = same(*pair.one, *pair.other)
        if pair.same:
            every[pair.kind] += 1
            merged[pair.kind] += how is not None
        else:
            negatives[pair.kind] += 1
            if how is not None:
                wrong.append(pair)
    recall = {kind: (merged[kind], count) for kind, count in every.items()}
    return Figures(merged.total() + len(wrong), wrong, recall, negatives)


def main(files: Sequence[str]) -> None:
    sources = texts()
    for file in files:
        sources += turns(Path(file))
    found = pairs(sources)
    figures = measure(found)
    print(f"{len(sources)} texts, {len(found)} pairs: {figures.negatives.total()} different, {figures.merged} merged")
    print(
        f"precision {figures.precision:.4f}; recall {figures.share(list(SAME)):.3f} of retellings in the same words, "
        f"{figures.share(list(OTHER_WORDS)):.3f} in other words"
    )
    for kind, (hit, every) in sorted(figures.recall.items()):
        print(f"  {kind:14} {hit:5} of {every}")
    print("different:", dict(sorted(figures.negatives.items())))
    for pair in figures.wrong[:40]:
        print("WRONG", pair.kind, pair.one, pair.other, sep="\n    ")


if __name__ == "__main__":
    main(sys.argv[1:])
