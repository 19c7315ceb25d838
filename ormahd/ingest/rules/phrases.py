"""Reads a language's file in `words/`, and compiles its phrases to patterns that find them in a sentence.

A phrase is a row of words: `a|b` is one of several words, `a?` an optional word, `a_b` two words, `<list>` a word of
a list of the file, `:` a colon or a dash, `…` up to four words, `…+` up to thirty words, `$` the end of the sentence,
`,` a comma, `&a|b` words that must follow but are no part of the phrase, `<word>` any word, `<cap>` a word with a
capital.

The text after `=>` replaces the phrase in the memory. In it, `<list>` is the word of that list that was found, `<0>`
the word found for the first `a|b`, `<between>` the words found for the first dots, and `=` alone the whole phrase.
Without `=>` the phrase is left out of the memory.
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
    """A rule: phrases (`say`) that may begin a clause, and which kind of memory (`type`) the clause then makes."""

    name: str
    say: tuple[str, ...]
    type: NodeType = NodeType.FACT
    wraps: bool = False
    """Whether the text after the phrase is the memory, as after "remember that". Other rules may apply to it."""
    asked: bool = False
    """Whether the phrase also counts in a question, as in "could you remember that …?"."""
    opens: bool = False
    """Whether the phrase counts even if the clause begins like a question or a condition, where others do not."""
    lasting: bool = False
    """Whether the phrase says that the memory holds from that day on, as "from now on" does."""
    careful: bool = False
    """Whether the text after the phrase is a memory only if it holds for long, and not if it is news of the moment."""
    corrects: bool = False
    """Whether the phrase says that an earlier statement is wrong."""
    denies: bool = False
    """Whether it is a correction only if the sentence also names what is wrong: ", not 8080"."""
    unless: str = ""
    """Words that must not follow the phrase."""


class RulePhrase(Struct, frozen=True):
    order: int
    """The position of the phrase in the file. Of several phrases that fit, the first is used."""
    rule: SentenceRule
    pattern: re.Pattern[str]
    instead: str | None
    """The text that replaces the phrase in the memory; None: the phrase is left out; "=": it stays."""
    unless: frozenset[str]


class RuleGuards(Struct, frozen=True):
    """The words of one language by which a sentence is recognised as no memory. Each field is a list of phrases,
    separated by spaces."""

    opening: str
    """Phrases at the beginning of a clause."""
    before: str
    """Phrases anywhere before the phrase of a rule."""
    anywhere: str
    passing: str = ""
    """Words about the state of the moment. They count for rules that are `careful`."""
    work: str = ""
    """Words in a correction that show that it is about the present work only."""
    general: str = ""
    """First words of a saying or commonplace. A sentence with a number is not taken for one."""
    pointing: str = ""
    """Words at the beginning of a memory that refer to something said before."""
    points: str = ""
    """Words anywhere in a memory that refer to something said before."""
    writing: str = ""
    """Verbs that ask the agent to write a text: "write an email". They count with a noun of `texts` after them."""
    texts: str = ""
    today: str = ""
    """Words in a decision or goal of the user alone that show that it is about the present work only."""
    playing: str = ""
    """Phrases with which a role play begins."""


class RuleLanguage(Struct, frozen=True):
    """The content of a language's file (`words/<language>.toml`), with its phrases compiled to patterns."""

    language: str
    phrases: Mapping[str, Sequence[RulePhrase]]
    """Word -> phrases that can only match a sentence with this word; "" -> phrases that need no certain word."""
    guards: Mapping[str, re.Pattern[str]]
    voice: RuleVoice
    dates: DateWords
    since: str
    """The text that is added to an instruction that holds from a day on; `{}` stands for the date."""
    lead: re.Pattern[str]
    tail: re.Pattern[str]
    joins: re.Pattern[str]
    """Matches what is before a new clause in a sentence: a punctuation mark or a conjunction."""
    conjunction: re.Pattern[str]
    request: re.Pattern[str]
    """Matches where a request begins after a statement of the person about themselves."""
    cut: re.Pattern[str]
    """Matches where a request or a remark begins after a memory in the same sentence."""
    behind: re.Pattern[str]
    """Matches phrases such as "remember that" at the end of a sentence."""
    ending: re.Pattern[str]
    """Matches phrases such as "from now on" at the end of a sentence."""
    listing: re.Pattern[str]
    """Matches a sentence with a colon at its end that announces a list of memories."""
    imperatives: re.Pattern[str]
    """Matches the first word of an instruction."""
    unsure: re.Pattern[str]
    """Matches words such as "might" that turn a lasting instruction into a mere intention."""
    this: re.Pattern[str]
    """Matches "this" with a word that only the conversation explains, as in "this money", but not "this year" or "this
    project"."""
    denial: re.Pattern[str]
    """Matches the word before what is wrong: ", not 8080"."""
    being: re.Pattern[str]
    """Matches verbs of which a correction needs one, such as "is" in "the port is 8443"."""
    reason: re.Pattern[str]
    """Matches words such as "because", where a reason begins. A title is cut there."""


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
    """Return the compiled content of `words/<language>.toml`. The file is read only at the first call."""
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
    """Return the words and phrases in `listed`, a list as it stands in a language's file. `<name>` in it includes
    another list of that file; `lists`: name -> list."""
    found: list[str] = []
    for word in listed.split():
        other = _PART.fullmatch(word)
        found += words(lists[other[1]], lists) if other else [word.replace("_", " ")]
    return found


def _compiled(row: Sequence[str], lists: Mapping[str, str]) -> tuple[re.Pattern[str], list[str]]:
    """Compile a phrase of a rule. Return (pattern, words of which a sentence must have one if the pattern is to
    match; [""] if any sentence may match). The pattern is for a text that begins with a space."""
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
    """Return a pattern that matches any of the phrases as whole words. If there are none, it never matches."""
    return re.compile(rf"(?<![\w'-])(?:{_alternatives(listed)}){_END}" if listed else r"(?!)")


def _pair(verbs: Sequence[str], nouns: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern that matches one of the verbs and, with at most six words between, one of the nouns after
    it."""
    return re.compile(
        rf"(?<![\w'-])(?:{_alternatives(verbs)})\s(?:\S{{1,40}}\s){{0,6}}?(?:{_alternatives(nouns)}){_END}"
    )


def _alternatives(listed: Sequence[str]) -> str:
    return "|".join(r"\s".join(map(re.escape, one.split())) for one in sorted(set(listed), key=len, reverse=True))
