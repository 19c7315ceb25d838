"""Turns sentences in the first person into the third person: "I live in Ulm" becomes "The user lives in Ulm". Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from msgspec import Struct

from ormahd.ingest.rules.prose import plain_form


class RuleVoice(Struct, frozen=True, eq=False):
    """The words of one language by which the first person is turned into the third. Lists are separated by spaces."""

    user: str
    """The subject with which a sentence about the user begins, such as "The user"."""
    of: str
    """Words such as "the user's", by which a memory says that something belongs to the user."""
    again: str
    """The subject for the user in a further clause of the sentence, such as "they"; "" if a sentence with such a
    clause is quoted instead."""
    said: str
    """The form in which a sentence is quoted if it cannot be put into the third person; `{}`: the sentence."""
    i: str
    """The pronouns of the first person that come before a verb, such as `i`."""
    verbs: str
    """Entries `first>third`: a verb in the first person and its form in the third."""
    adverbs: str
    """Words that may come between the pronoun and the verb."""
    pronouns: dict[str, str]
    """Word of the first person -> its replacement in a sentence whose subject is the user."""
    alone: dict[str, str]
    """Word of the first person -> its replacement in a sentence that does not name the user otherwise."""
    first: str
    """Words of the first person. If one is left after the replacements, the sentence is quoted."""
    that: str = ""
    """The form for a clause with its verb at the end, as in German; `{}` stands for the clause."""
    joined: str = ""
    """The word for "and", after which a verb of the first person may have no pronoun: "I live here and work there"."""
    keeps: str = ""
    """Words after which a verb is an infinitive and stays as it is: "to work here and live there"."""
    drops: bool = False
    """Whether a sentence may leave out the pronoun and begin with the verb, as in Spanish."""
    regular: bool = False
    """Whether verbs that are not in `verbs` get -s in the third person, as in English."""


def third(verb: str, voice: RuleVoice) -> str:
    """Return the third person of `verb`, which is in the first person."""
    known = _verbs(voice.verbs).get(verb)
    if known is not None or not voice.regular:
        return known or verb
    if verb.endswith(("s", "sh", "ch", "x", "o")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if verb.endswith("y") and verb[-2:-1] not in "aeiou" else f"{verb}s"


def about_user(text: str, voice: RuleVoice) -> str | None:
    """Return a sentence that begins with "I" and a verb as a sentence about the user. None if it does not begin so,
    or cannot be put into the third person."""
    match = _subject(voice).match(plain_form(text))
    if match is None:
        return None
    rest = told(text[match.end() :], voice, subject=True)
    if rest is None:
        return None
    adverb = f"{text[match.start('adverb') : match.end('adverb')]} " if match["adverb"] else ""
    return f"{voice.user} {adverb}{_verbs(voice.verbs)[match['verb']]}{rest}"


def says_i(text: str, voice: RuleVoice) -> bool:
    """Return whether the first word of a sentence is a pronoun for "I"."""
    first = text.replace("'", "' ").split(" ", 1)[0].rstrip("'")
    return first in [one.rstrip("'") for one in voice.i.split()]


def told(text: str, voice: RuleVoice, *, subject: bool) -> str | None:
    """Return `text` with the words of the first person replaced by words for the user; None if one of them has no
    replacement.

    `subject`: whether the user is the subject of the sentence.
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
    """Return a clause with its verb at the end as a main sentence in the third person; None if that is not possible.

    "ich in Ulm wohne" becomes "Der Nutzer wohnt in Ulm". A clause with another subject is put into the form
    `voice.that`.
    """
    words = text.split(" ")
    if words[0].lower() == voice.i and len(words) > 2:
        rest = told(" ".join(words[1:-1]), voice, subject=True)
        verb = _verbs(voice.verbs).get(words[-1].lower())
        return None if rest is None or verb is None else f"{voice.user} {verb} {rest}"
    clause = told(text, voice, subject=True)
    return None if clause is None else voice.that.format(clause)


def quoted(text: str, voice: RuleVoice) -> str:
    """Return a sentence as a quotation of the user."""
    return voice.said.format(text[:1].upper() + text[1:] + ("" if text.endswith((".", "!")) else "."))


@cache
def _changes(voice: RuleVoice, *, subject: bool) -> Mapping[str, str]:
    """Return word or words of the first person -> their replacement. `subject`: whether the user is the subject."""
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
    """Return a pattern that matches "I", an optional adverb and a known verb at the beginning of a sentence."""
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
