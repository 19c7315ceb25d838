"""Find tokens by the marks of their issuers, as `betterleaks.txt` and `secret_tokens.txt` list them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache, cached_property
from importlib.resources import files
from typing import Final, NamedTuple

from ormahd.model.strength import Pace

_WORDS: Final = re.compile(r"[a-z_.-]*+")
_WORD_REST: Final = re.compile(r"[A-Za-z0-9_-]*+")


class Span(NamedTuple):
    """A secret in a text: characters `start` to `end` (exclusive), and its kind."""

    start: int
    end: int
    kind: str


class _Rule:
    def __init__(self, line: str) -> None:
        self.kind, least, keywords, self._pattern = line.split("\t")
        self.entropy = float(least)
        self._keywords = keywords.split("|")
        self.folded = [(keyword, _trigrams(keyword)) for keyword in map(str.casefold, self._keywords)]

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The rule's pattern. It is compiled at its first use, because most rules are never used."""
        keywords = "|".join(map(re.escape, self._keywords))
        return re.compile(self._pattern.replace("{keywords}", keywords), re.ASCII)


@cache
def _rules() -> list[_Rule]:
    lines = [
        line
        for name in ("betterleaks.txt", "secret_tokens.txt")
        for line in files("ormahd.text").joinpath(name).read_text("utf-8").splitlines()
    ]
    return [_Rule(line) for line in lines if line and not line.startswith("#")]


def spans(text: str, folded: str, pace: Pace) -> Iterator[Span]:
    """Yield the tokens in a text, in no order. `folded`: the text, casefolded. `pace`: see `secrets.redact`.

    Only the rules of which a keyword is in the text search it. A pattern of fixed length does not match the end of a
    longer token, which is secret too.
    """
    trigrams = _trigrams(folded)  # a set is asked in a tenth of the time that a search of the text takes
    rules = [
        rule
        for rule in _rules()
        if any(of_keyword <= trigrams and keyword in folded for keyword, of_keyword in rule.folded)
    ]
    for rule in pace(rules):
        for found in rule.pattern.finditer(text):
            start, end = next(
                (found.span(group + 1) for group, part in enumerate(found.groups()) if part), found.span()
            )
            value = text[start:end]
            if _WORDS.fullmatch(value):
                continue
            # entropy: the bits of information of a character, by how often each occurs
            shares = [count / len(value) for count in Counter(value).values()]
            entropy = -sum(share * math.log2(share) for share in shares)
            if entropy >= rule.entropy:
                rest = _WORD_REST.match(text, end)
                yield Span(start, rest.end() if rest else end, rule.kind)


def _trigrams(text: str) -> set[str]:
    return {text[at : at + 3] for at in range(len(text) - 2)}
