"""Rules for passwords of letters alone: `password = swordfish`, "my password is swordfish", `--password swordfish`.

Such a password looks like any other word, so three conditions must hold. It follows a label of a password with a sign
or verb. It ends a line or clause. It is not in `plain_words.txt`, and is no participle and no name in code. Labels
are those of English, German, French and Spanish.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple


class LetterSpan(NamedTuple):
    """The position of a password in a text: characters `start` to `end` (exclusive)."""

    start: int
    end: int


SENTENCES: Final = "words of sentences"
"""Name of the section of `plain_words.txt` with words of sentences. A phrase with one of them is no password."""
_OWNERS: Final = [
    "db",
    "smtp",
    "imap",
    "mail",
    "ftp",
    "ssh",
    "sudo",
    "root",
    "admin",
    "user",
    "wifi",
    "redis",
    "mysql",
    "postgres",
]
_OF: Final = "|".join(f"(?<={owner}_pass)" for owner in _OWNERS)
_LABEL: Final = (  # each alternative begins with letters, with its look-behind after them: three times as fast
    rf"(?:password|passphrase|passwd|passcode|pwd(?<![a-z]pwd)|pw(?<![^\W_]pw)|_pass(?:{_OF})|passwort|kennwort|mot de passe|contrase[ñn]a)"
    r"(?:[_-](?:prod|production|staging|stage|dev|test|live|local|old|new|main|root|admin|v?\d{1,2})){0,2}"
)
_CLOSED: Final = r"(?:\\?[\"'`]\]?|\*\*)?"
_ABOUT: Final = (
    r"(?:[ \t]?\([^()\n]{1,30}\))?(?:[ \t]{1,4}(?:for|of|on|at|in|to|from|für|vom|von|am|im|zum|zur|der|des|du|de|del|pour|para)"
    r"(?:[ \t]{1,4}[^\s:=|,;.!?\"'`<>]{1,24}){1,6}?)?"
)
_SIGN: Final = r"[ \t]{0,8}(?::=|=>|->|→|[:=：](?!=))(?:\*\*)?[ \t]{0,8}(?:\r?\n[ \t>*-]{0,8})?"
_VERB: Final = (
    r"[ \t]{1,4}(?:is|was|ist|war|lautet|lautete|heißt|est|était|es|era)"
    r"(?:[ \t]{1,4}(?:now|still|currently|jetzt|nun|noch|maintenant|ahora))?[ \t]{0,4}:?[ \t]{1,4}"
)
_BEFORE: Final = re.compile(rf"{_LABEL}(?![\w-]){_CLOSED}{_ABOUT}(?P<how>{_SIGN}|(?P<verb>{_VERB}))", re.IGNORECASE)
_BESIDE: Final = re.compile(
    rf"{_LABEL}(?![\w-])(?:[ \t]+(?:to|auf|à|a|en))?[ \t]+(?=[\"'`“„«])|"
    rf"(?:set|chang|reset|updat)\w{{0,3}}[ \t](?:[^\s.,;:=!?]{{1,20}}[ \t]){{0,4}}?{_LABEL}(?![\w-])[ \t]+to[ \t]+",
    re.IGNORECASE,
)
"""Matches a label that a quoted word follows (`the password "swordfish"`), and `set the password to`."""
_LETTERS: Final = r"[^\W\d_]"
_QUOTED: Final = re.compile(rf"\\?(?P<mark>[\"'`“„«*])(?P<word>{_LETTERS}{{6,64}})(?=\\?[\"'`”“»*])")
_CLOSER: Final = re.compile(r"\\?[\"'`”“»*]")
_BARE: Final = re.compile(rf"(?P<word>{_LETTERS}{{6,64}}+)")
_SLUG: Final = re.compile(r"[\"'`]?(?P<word>[a-z]{3,12}(?:-[a-z]{3,12}){3,9}+)")
_PHRASE: Final = re.compile(r"(?P<mark>[\"'`“„«])(?P<word>[a-z]{3,12}(?: [a-z]{3,12}){3,9}+)(?=[\"'`”“»])")
_ENDS: Final = re.compile(
    r"[\"'`*_]{0,2}[ \t]*(?:(?:[.,;!][ \t]*)?(?:\r?\n|\Z)|[.,;!][ \t]|[ \t][|#/(]|(?<=[ \t])(?:on|for|in|at|and|but|since|until|unless|now|auf|für"
    r"|und|seit|et|pour|sur|en|para|y)[ \t])",
    re.IGNORECASE,
)
"""Matches what may follow a bare password: the end of a line or clause, a comment, or a word that begins another
part."""
_GOES_ON: Final = re.compile(
    r"[ \t](?:is|was|which|that|because|so|if|when|to|or|with|please|thanks|then|ist|war|bitte|danke|est|merci|es|gracias)(?![\w-])",
    re.IGNORECASE,
)
"""Matches words with which a sentence may continue after a password, as in `password = swordfish is wrong`. After a
colon they show nothing, because they may follow any topic there: `password: rotation is due`."""
_PARTICIPLE: Final = re.compile(
    r"[a-z]+(?:ed|(?<!l)ing|able|ible|ful|less|tive|ous|ical|ory|ary)|ge[a-zäöüß]+t|(?:ab|ver|be|er|ent|zer|aus|ein|an|zurück|unver)[a-zäöüß]+(?:t|en)"
    r"|[a-zäöüß]+(?:ig|lich|bar|los|isch|haft)|[a-zéèêç]+(?:ée?s?|eux|euse)|[a-záéíóúñ]+(?:ad[oa]s?|id[oa]s?)"
)
_CAPITAL_INSIDE: Final = re.compile(r"[a-zß-ÿ][A-ZÀ-Þ]")
_OF_A_LABEL: Final = re.compile(
    r"pass|pwd|secret|token|kennwort|contrase|user|admin|input|placeholder|your", re.IGNORECASE
)
USER: Final = r"(?:-u|--user|--proxy-user|--basic)[ =]{1,2}[\"']?[\w.@+-]{1,64}:"
"""Matches a flag with a user and a password (`-u me:swordfish`), up to the password."""
SHORT: Final = (
    r"(?:(?:mysql|mysqldump|mysqladmin|mariadb)\b[^\n|;&]{0,120}?[ ]-p|sshpass\b[^\n|;&]{0,120}?[ ]-p[ ]?|redis-cli\b[^\n|;&]{0,120}?[ ]-a[ ]"
    r"|(?:docker|podman)[ ]login\b[^\n|;&]{0,120}?[ ]-p[ ])"
)
"""Matches a command with a flag of one letter for its password (`mysql -p…`), up to the password."""
_FLAG: Final = re.compile(
    rf"(?<![\w\\-])(?:{USER}|--?(?:pass|password|passwd|passphrase)[ =]{{1,2}}[\"']?|{SHORT}[\"']?)"
    r"(?P<word>[A-Za-z]{6,64})(?![\w.:/@<$({-])",
    re.IGNORECASE,
)
_CALLED: Final = re.compile(
    rf"[\"'`“„](?P<word>{_LETTERS}{{6,64}})[\"'`”“][ \t]{{1,4}}(?:is|as|ist|als)[ \t]{{1,4}}(?:the|my|our|a|das|mein|unser)[ \t]{{1,4}}"
    r"(?:[^\s.,;:!?]{1,20}[ \t]{1,4}){0,3}?(?:password|passphrase|passcode|passwort|kennwort)\b",
    re.IGNORECASE,
)


def spans(text: str) -> Iterator[LetterSpan]:
    """Yield every password that consists of letters alone, in no order. Takes time linear in the text's length."""
    for found in _BEFORE.finditer(text):
        word = _after(text, found.end(), verb=found["verb"] is not None, sign=found["how"])
        if word is not None:
            yield LetterSpan(*word.span("word"))
    for found in _BESIDE.finditer(text):
        word = _after(text, found.end(), verb=True)
        if word is not None and _alone(text, word):
            yield LetterSpan(*word.span("word"))
    for pattern in (_FLAG, _CALLED):
        for found in pattern.finditer(text):
            if not is_plain(found["word"]) and not found["word"].isupper():
                yield LetterSpan(*found.span("word"))


def _after(text: str, start: int, *, verb: bool, sign: str = "") -> re.Match[str] | None:
    """Return a match whose group `word` is the password that begins at `start`; None if there is none.

    `verb`: whether a verb stands between the label ("password") and the password; `sign`: the sign between them, else
    empty.
    """
    if quoted := _QUOTED.match(text, start):
        return None if is_plain(quoted["word"]) else quoted
    if phrase := _PHRASE.match(text, start):
        return phrase if _words()[SENTENCES].isdisjoint(phrase["word"].split()) else None
    if slug := _SLUG.match(text, start):
        return (
            slug
            if not verb and _words()[SENTENCES].isdisjoint(slug["word"].split("-")) and _ENDS.match(text, slug.end())
            else None
        )
    bare = _BARE.match(text, start)
    if bare is None:
        return None
    end = bare.end()
    goes_on = ("=" in sign and _GOES_ON.match(text, end)) or (sign == "=" and text[end : end + 1] == " ")
    if not goes_on and not _ENDS.match(text, end):
        return None
    word = bare["word"]
    is_code = word.isupper() or _CAPITAL_INSIDE.search(word) is not None
    return None if is_code or describes(word) else bare


def _alone(text: str, found: re.Match[str]) -> bool:
    """Return whether the found word ends its clause and does not describe a password.

    In `password "reset" link`, the word `reset` does not end the clause, so it is no password.
    """
    closed = _CLOSER.match(text, found.end())
    end = closed.end() if closed else found.end()
    return not describes(found["word"]) and (_ENDS.match(text, end) or _GOES_ON.match(text, end)) is not None


def describes(word: str) -> bool:
    """Return whether a word after "password" describes one instead of being it: `wrong`, `required`, `abgelaufen`."""
    return is_plain(word) or _PARTICIPLE.fullmatch(word.casefold()) is not None


def is_plain(word: str) -> bool:
    """Return whether a word is probably no password: a type, a state, a label or the name of a program."""
    known = any(word.casefold() in some for some in _words().values())
    return known or len(set(word)) < 4 or _OF_A_LABEL.search(word) is not None


@cache
def _words() -> dict[str, frozenset[str]]:
    """Return `{section: folded words}` of `plain_words.txt`."""
    found: dict[str, set[str]] = {}
    for line in files("ormahd.text").joinpath("plain_words.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), set())
        elif line and not line.startswith("#"):
            section.update(line.casefold().split())
    return {name: frozenset(words) for name, words in found.items()}
