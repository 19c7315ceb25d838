"""Tell in the third person what a person says about themselves. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from msgspec import Struct

from ormahd.ingest.rules.prose import plain_form


class RuleVoice(Struct, frozen=True, eq=False):
    """Words for the third person in one language."""

    user: str
    """The user, as the subject at the beginning."""
    of: str
    """Words by which a memory says that something is the user's."""
    again: str
    """The user, as the subject of a further clause; "" if such a sentence is quoted. English verbs keep their form after "they"."""
    said: str
    """How a sentence is quoted that cannot be told in the third person."""
    i: str
    """Pronouns of the first person before a verb, such as `i`."""
    verbs: str
    """`first>third` forms of verbs."""
    adverbs: str
    """Words that may stand between the pronoun and the verb."""
    pronouns: dict[str, str]
    """First person -> third person in a sentence about the user."""
    alone: dict[str, str]
    """Likewise in a sentence that does not name the user."""
    first: str
    """Words in the first person: where one is left, the sentence is quoted."""
    that: str = ""
    """How a clause with its verb at the end is told, as in German."""
    joined: str = ""
    """"And", after which a verb may have no pronoun: "I live here and work there"."""
    keeps: str = ""
    """Words after which a verb has no person: "to work here and live there"."""
    drops: bool = False
    """Whether a sentence may begin with the verb, as in Spanish."""
    regular: bool = False
    """Whether verbs that are not listed end with -s, as in English."""


def third(verb: str, voice: RuleVoice) -> str:
    """Return the third person of a verb."""
    known = _verbs(voice.verbs).get(verb)
    if known is not None or not voice.regular:
        return known or verb
    if verb.endswith(("s", "sh", "ch", "x", "o")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if verb.endswith("y") and verb[-2:-1] not in "aeiou" else f"{verb}s"


def about_user(text: str, voice: RuleVoice) -> str | None:
    """Return a sentence whose subject is "I" as one about the user; None if it is no such sentence."""
    match = _subject(voice).match(plain_form(text))
    if match is None:
        return None
    rest = told(text[match.end() :], voice, subject=True)
    if rest is None:
        return None
    adverb = f"{text[match.start('adverb') : match.end('adverb')]} " if match["adverb"] else ""
    return f"{voice.user} {adverb}{_verbs(voice.verbs)[match['verb']]}{rest}"


def says_i(text: str, voice: RuleVoice) -> bool:
    """Whether the first word of a sentence is "I"."""
    first = text.replace("'", "' ").split(" ", 1)[0].rstrip("'")
    return first in [one.rstrip("'") for one in voice.i.split()]


def told(text: str, voice: RuleVoice, *, subject: bool) -> str | None:
    """Return `text` without the first person; None if that takes more than other words for a few.

    `subject`: whether the sentence is already about the user.
    """
    changes = _changes(voice, subject=subject)
    kept: list[str] = []
    at = 0
    plain = plain_form(text)
    for match in _any(tuple(changes)).finditer(plain):
        joined = voice.joined and match[0].startswith(f"{voice.joined} ")
        if joined and voice.keeps and _any(tuple(voice.keeps.split())).search(plain, at, match.start()):
            continue
        kept += [text[at : match.start()], changes[match[0]]]
        at = match.end()
    found = "".join([*kept, text[at:]])
    return None if _any(tuple(voice.first.split())).search(plain_form(found)) else found


def reported(text: str, voice: RuleVoice) -> str | None:
    """Return a clause with its verb at the end as a sentence; None if more than the verb is in the first person.

    "ich in Ulm wohne" becomes "Der Nutzer wohnt in Ulm"; with another subject the user says it.
    """
    words = text.split(" ")
    if words[0].lower() == voice.i and len(words) > 2:
        rest = told(" ".join(words[1:-1]), voice, subject=True)
        verb = _verbs(voice.verbs).get(words[-1].lower())
        return None if rest is None or verb is None else f"{voice.user} {verb} {rest}"
    clause = told(text, voice, subject=True)
    return None if clause is None else voice.that.format(clause)


def quoted(text: str, voice: RuleVoice) -> str:
    """Return a sentence as something that the user said."""
    return voice.said.format(text[:1].upper() + text[1:] + ("" if text.endswith((".", "!")) else "."))


@cache
def _changes(voice: RuleVoice, *, subject: bool) -> Mapping[str, str]:
    """Return words of the first person and what is said in their place."""
    if not subject:
        return voice.alone
    found = dict(voice.pronouns)
    for first, other in _verbs(voice.verbs).items():
        if voice.joined:
            found.setdefault(f"{voice.joined} {first}", f"{voice.joined} {other}")
        if voice.again and not voice.regular:
            found |= {f"{pronoun} {first}": f"{voice.again} {other}" for pronoun in voice.i.split()}
    return found


@cache
def _verbs(listed: str) -> Mapping[str, str]:
    pairs = (one.partition(">") for one in listed.split())
    return {first.replace("_", " "): other.replace("_", " ") for first, _, other in pairs}


@cache
def _subject(voice: RuleVoice) -> re.Pattern[str]:
    """Return a pattern for "I", an adverb and a verb."""
    pronouns = "|".join(re.escape(one) + ("" if one.endswith("'") else r"\s") for one in voice.i.split())
    between = "|".join(re.escape(one) for one in sorted(voice.adverbs.split(), key=len, reverse=True))
    forms = "|".join(map(re.escape, sorted(_verbs(voice.verbs), key=len, reverse=True)))
    optional = "?" if voice.drops else ""
    return re.compile(rf"(?:{pronouns}){optional}(?:(?P<adverb>{between})\s)?(?P<verb>{forms})(?![\w'-])")


@cache
def _any(listed: tuple[str, ...]) -> re.Pattern[str]:
    words = "|".join(
        re.escape(one) + ("" if one.endswith("'") else r"(?![\w-]|'\w)")
        for one in sorted(listed, key=len, reverse=True)
    )
    return re.compile(rf"(?<![\w'-])(?:{words})" if words else r"(?!)")
