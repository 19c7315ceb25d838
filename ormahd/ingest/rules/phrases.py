"""Read the phrases of a language's file and find them in a sentence.

A phrase is a row of words: `a|b` is one of several, `a?` may be missing, `a_b` is two words, `<list>` is a word of a list of the file, `:` a
colon or a dash, `…` up to four words, `…+` any number, `$` the end of the sentence, `,` a comma, `&a|b` words that come next and stay, `<word>` any word, `<cap>` a word with a capital.

What stands behind `=>` takes the place of the phrase in the memory: `<list>` is the word that was found, `<0>` what was found of the first
`a|b`, `<between>` what stood for the first dots, `=` the whole phrase. Without `=>` the phrase is left out.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Final

from msgspec import Struct, convert

from ormahd.ingest.rules.dates import DateWords
from ormahd.ingest.rules.voice import RuleVoice
from ormahd.model.node import NodeType

_LISTED: Final = (
    *("lead", "tail", "joins", "conjunction", "cut", "request", "aside", "behind", "ending", "imperatives", "unsure"),
    *("this", "here", "denial", "reason", "listing"),
)
LANGUAGES: Final = ("en", "de", "es", "fr")
_BETWEEN: Final = {"…": r"(?:,?\s[^\s,;:]+){0,4}?", "…+": r"(?:\s[^\s;]+){0,30}?", "$": r"(?=[\s.!]*$|,)"}
_WORD: Final = r"[^\s,;:.!?]+"
_END: Final = r"(?![\w'-])"
_PART: Final = re.compile(r"<(\w+)>")


class SentenceRule(Struct, frozen=True):
    """What a phrase at the beginning of a clause means."""

    name: str
    say: tuple[str, ...]
    type: NodeType = NodeType.FACT
    wraps: bool = False
    """Whether what stands behind the phrase is the memory, to be read by the other rules."""
    asked: bool = False
    """Whether the phrase is a request in the form of a question."""
    opens: bool = False
    """Whether the phrase begins like a question or a condition."""
    lasting: bool = False
    """Whether the phrase says that it holds from that day on."""
    careful: bool = False
    """Whether what follows has to be a lasting statement; news of the moment are none."""
    corrects: bool = False
    """Whether the phrase says that something said before is wrong."""
    denies: bool = False
    """Whether it is a correction only with what is wrong: ", not 8080"."""
    unless: str = ""
    """Words that must not be the next ones."""


class RulePhrase(Struct, frozen=True):
    order: int
    """Its place in the file: the first that fits counts."""
    rule: SentenceRule
    pattern: re.Pattern[str]
    instead: str | None
    """What takes the place of the phrase; None: nothing; "=": the phrase itself."""
    unless: frozenset[str]


class RuleGuards(Struct, frozen=True):
    """Words that make a sentence no memory. Each is a list of phrases, separated by spaces."""

    opening: str
    """At the beginning of a sentence."""
    before: str
    """Anywhere before the phrase of a rule."""
    anywhere: str
    passing: str = ""
    """Words about the state of the moment, for rules that are `careful`."""
    work: str = ""
    """In a correction: it is about the work at hand."""
    general: str = ""
    """First words of a saying; one with a number is none."""
    pointing: str = ""
    """First words of a memory that point to something said before."""
    points: str = ""
    """Anywhere in a memory, likewise."""
    writing: str = ""
    """Verbs that ask for a text to be written, and nouns of such texts: "write … email"."""
    texts: str = ""
    today: str = ""
    """Anywhere in a decision of the user alone: it is about the work at hand."""
    playing: str = ""
    """Phrases that begin a role play."""


class RuleLanguage(Struct, frozen=True):
    """A language's file, compiled."""

    language: str
    phrases: Mapping[str, Sequence[RulePhrase]]
    """By a word that a sentence must have; "" for phrases without a certain word."""
    guards: Mapping[str, re.Pattern[str]]
    voice: RuleVoice
    dates: DateWords
    since: str
    """What follows an instruction that holds from a day on."""
    lead: re.Pattern[str]
    tail: re.Pattern[str]
    joins: re.Pattern[str]
    """Where a clause of a sentence may begin."""
    conjunction: re.Pattern[str]
    request: re.Pattern[str]
    """Where a request begins that follows what a person says about themselves."""
    cut: re.Pattern[str]
    """Where a request or a remark begins that follows a memory in its sentence."""
    behind: re.Pattern[str]
    """At the end of a sentence: "remember that"."""
    ending: re.Pattern[str]
    """At the end of a sentence: "from now on"."""
    listing: re.Pattern[str]
    """In a sentence that ends with a colon: the items of the list below are memories."""
    imperatives: re.Pattern[str]
    """First words of an instruction."""
    unsure: re.Pattern[str]
    """Words that make an intention of what would be a lasting instruction."""
    this: re.Pattern[str]
    """A word that points to what lies before the speaker, "this money"; "this year" and "this project" do not."""
    denial: re.Pattern[str]
    """Before what is wrong: ", not 8080"."""
    being: re.Pattern[str]
    """Verbs that a correction needs: "the port is 8443"."""
    reason: re.Pattern[str]
    """Where the reason of a sentence begins: a title ends there."""


class _LanguageFile(Struct, frozen=True):
    lead: str
    tail: str
    joins: str
    conjunction: str
    lists: dict[str, str]
    rule: list[SentenceRule]
    guard: RuleGuards
    voice: RuleVoice
    dates: DateWords
    since: str
    reason: str
    cut: str
    request: str
    behind: str
    ending: str
    listing: str
    imperatives: str
    unsure: str
    this: str
    here: str
    aside: str
    denial: str


@cache
def load(language: str) -> RuleLanguage:
    """Return a language's phrases, read at first use."""
    text = resources.files(__package__).joinpath("words", f"{language}.toml").read_text("utf-8")
    file = convert(tomllib.loads(text), _LanguageFile)
    phrases: dict[str, list[RulePhrase]] = {}
    order = 0
    for rule in file.rule:
        for say in rule.say:
            row, _, instead = say.partition("=>")
            pattern, needed = _compiled(row.split(), file.lists)
            phrase = RulePhrase(
                order,
                rule,
                pattern,
                instead.strip() if "=>" in say else None,
                frozenset(words(rule.unless, file.lists)),
            )
            order += 1
            for word in needed:
                phrases.setdefault(word, []).append(phrase)
    guarded = {name: words(getattr(file.guard, name), file.lists) for name in RuleGuards.__struct_fields__}
    guards = {name: _any(one) for name, one in guarded.items()}
    guards["writing"] = _pair(guarded["writing"], guarded["texts"])
    listed = {name: words(getattr(file, name), file.lists) for name in _LISTED}
    one_of = {name: _alternatives(some) for name, some in listed.items()}
    leads = rf"(?:(?:{one_of['lead']})[\s,]+)*"
    return RuleLanguage(
        language, phrases, guards, file.voice, file.dates, file.since,
        lead=re.compile(rf"(?:\s*(?:{one_of['lead']}){_END}[\s,.!:;…–—-]*)+"),
        tail=re.compile(rf"[\s,;–—-]+(?:{one_of['tail']})[\s.!]*$"),
        joins=re.compile(rf"[,;:)]\s|\s[–—-]+\s|,?\s(?:{one_of['joins']})(?=\s)"),
        conjunction=re.compile(rf"(?:[\s,:–—-]|(?:{one_of['conjunction']}){_END})*"),
        cut=re.compile(rf"(?:[,;:)]|\s[–—-]|\.{{3}})\s+(?:{one_of['cut']}){_END}"),
        request=re.compile(rf"(?:,\s(?:{one_of['request']})|,?\s(?:{one_of['aside']})){_END}"),
        behind=re.compile(
            rf"(?:^|[,;:.)–—-]+\s*{leads}|(?:[\s,]+(?:{one_of['lead']}))+\s+)(?:{one_of['behind']})[\s.!]*$"
        ),
        ending=re.compile(rf"[\s,;:–—-]+{leads}(?:{one_of['ending']})[\s.!]*$"),
        listing=re.compile(rf"{leads}(?:{one_of['listing']}){_END}[^:]{{0,60}}:$"),
        imperatives=_any(listed["imperatives"]),
        unsure=_any(listed["unsure"]),
        this=re.compile(rf"(?<![\w'-])(?:{one_of['this']})\s(?!(?:{one_of['here']}){_END})"),
        denial=re.compile(rf",?\s(?:{one_of['denial']})\s"),
        being=_any(file.lists["being"].split()),
        reason=_any(listed["reason"]),
    )  # fmt: skip


def words(listed: str, lists: Mapping[str, str]) -> list[str]:
    """Return the words and phrases of a list; `<name>` stands for another list of the file."""
    found: list[str] = []
    for word in listed.split():
        other = _PART.fullmatch(word)
        found += words(lists[other[1]], lists) if other else [word.replace("_", " ")]
    return found


def _compiled(row: Sequence[str], lists: Mapping[str, str]) -> tuple[re.Pattern[str], list[str]]:
    """Return a phrase as a pattern, for a text that begins with a space, and the words of which a sentence needs one."""
    source, needed, choices = "", [""], 0
    for slot in row:
        if slot in _BETWEEN:
            between = _BETWEEN[slot]
            source += between if slot == "$" or "(?P<between>" in source else f"(?P<between>{between})"
            continue
        if slot == ",":
            source += ","
            continue
        if slot.startswith("&"):
            source += rf"(?=,?\s+(?:{_alternatives(words(slot[1:].replace('|', ' '), lists))}){_END})"
            continue
        name = slot.removesuffix("?")
        free = name in ("<word>", "<cap>")
        listed = None if free else _PART.fullmatch(name)
        options = [] if free else [one for part in name.split("|") for one in words(part, lists)]
        spoken = [one for one in options if one != ":"]
        one_of = _alternatives(spoken) if options else _WORD
        if listed:
            one_of = f"(?P<{listed[1]}>{one_of})" if f"(?P<{listed[1]}>" not in source else f"(?:{one_of})"
        if name == "<cap>":
            one_of = f"(?P<cap>{one_of})" if "(?P<cap>" not in source else one_of
        if len(options) > 1 or listed:
            one_of = f"(?P<c{choices}>{one_of})"
            choices += 1
        alternatives = [rf",?\s+(?:{one_of}){_END}"] if spoken or not options else []
        alternatives += [r"\s*(?::|\s[–—-]+(?=\s))"] if ":" in options else []
        source += f"(?:{'|'.join(alternatives)})" + ("?" if slot.endswith("?") else "")
        first = [one.split()[0] for one in spoken]
        if spoken and not slot.endswith("?") and ":" not in options and (needed == [""] or len(first) <= len(needed)):
            needed = sorted(set(first))
    return re.compile(source), needed


def _any(listed: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern for one of some phrases as whole words; without phrases, one that never matches."""
    return re.compile(rf"(?<![\w'-])(?:{_alternatives(listed)}){_END}" if listed else r"(?!)")


def _pair(verbs: Sequence[str], nouns: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern for a verb and a noun up to six words later."""
    return re.compile(
        rf"(?<![\w'-])(?:{_alternatives(verbs)})\s(?:\S{{1,40}}\s){{0,6}}?(?:{_alternatives(nouns)}){_END}"
    )


def _alternatives(listed: Sequence[str]) -> str:
    return "|".join(r"\s".join(map(re.escape, one.split())) for one in sorted(set(listed), key=len, reverse=True))
