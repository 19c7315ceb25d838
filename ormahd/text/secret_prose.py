"""Secrets as people tell them: `the wifi password at home is …`, `Passwort: …`, `curl -u me:…`, a PIN, recovery codes, cards.

Names of secrets come from `secret_labels.txt`, in the languages of many countries. What follows a name is taken for the
secret when it looks like one: letters with digits or signs, digits for a PIN. Each name allows some words in between
(`the password for the printer is`) and a value on the next line or in the next column. Cards and account numbers are known
by their checksum. Every pattern is bounded, so the work is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final

from ormahd.text.secret_rules import SLUG, Span, looks_real

_KINDS: Final = {
    "password": "Password",
    "key": "Secret",
    "pin": "PIN",
    "recovery": "Recovery Code",
    "phrase": "Recovery Phrase",
}

_BETWEEN: Final = r"(?P<about>(?:[ \t]{1,4}[^\s:=|,;!?\"'`<>]{1,24}){0,6}?)"
_FEW: Final = r"(?:[ \t]{1,4}[^\s:=|,;!?\"'`<>]{1,24}){1,3}?"
_VERBS: Final = r"is|was|are|be|=|ist|war|lautet|lautete|heißt|est|était|es|era|é|è|jest|to|är|er|on|là|は|が|—|–|-"
_SIGN: Final = r"[\"'`*_)\]]{0,3}[ \t]{0,8}(?::=|=>|->|→|[:：=|\t])[ \t*_|]{0,8}(?:\r?\n[ \t>*-]{0,8})?"
_VERB: Final = rf"[ \t]{{1,4}}(?:{_VERBS})(?:[ \t]{{1,4}}(?:now|still|currently|jetzt|nun|maintenant|ahora|agora|adesso|nu|teraz|сейчас|теперь))?[ \t]{{0,4}}:?[ \t]{{1,4}}"
_DENSE: Final = r"[ \t]{0,4}(?:是|为|為|は|が|는|은|이|가|คือ|[:：=|])[ \t]{0,4}"
_LINE: Final = r"[ \t*_]{0,8}\r?\n(?:\r?\n)?[ \t>*-]{0,8}"
_NEXT: Final = r"[ \t]{1,4}"

_QUOTED: Final = re.compile(r"[\"'`“”„«]([^\s\"'`“”„«»]{4,128})[\"'`“”»]")
_BARE: Final = re.compile(r"[^\s\"'`<>,;|，。；、「」（）]{4,128}")
_ASCII: Final = re.compile(r"[!#-&*-:=?-_a-~]{4,128}")
_TRAILING: Final = ".:?)]}*_"
_LEADING: Final = "\"'`(["
_LONGEST: Final = 128
"""Characters of a password at most."""
_DIGITS: Final = re.compile(r"[#*]?(\d(?:[ -]?\d){3,9})[#*]?(?![\w.-]*\w)")
_END: Final = re.compile(r"[ \t]*(?:[.,;:!?)]|$|\n)")
_SIGNS: Final = frozenset("!#$%^&*")
_CODE: Final = re.compile(r"(?<![\w-])(?=[a-z0-9-]*\d)[a-z0-9]{4,10}(?:-[a-z0-9]{3,10}){0,3}(?![\w-])", re.IGNORECASE)
_CODES: Final = re.compile(r"(?:[\s,;:|*>•.)-]|\d{1,2}[.)]|and|und|et|y|и){0,12}", re.IGNORECASE)
_WORDS: Final = re.compile(r"(?:\d{1,2}[.)] ?)?[a-z]{3,8}(?:[\s,]{1,3}(?:\d{1,2}[.)] ?)?[a-z]{3,8}){11,23}")

_OTHER: Final = re.compile(
    r"(?i)[\s_-]*(?:polic|manager|reset|hash|rotat|field|length|strength|generat|column|file|prompt|page|form|auth|flow|stor"
    r"|vault|expir|requirement|rule|input|box|hint|check|valid|encod|format|type|limit|bucket|count|budget|window|header|name"
    r"|scope|endpoint|service|provider|schema|table|cookie|refresh|lifetime|ttl|based|protected|less|richtlinie|länge|politique)"
)
"""What is said of passwords and keys in general: `password policy`, `token limit`."""
_PRODUCT: Final = re.compile(
    r"[ \t]{1,4}(?:app|apps|application|manager|plugin|extension|client|library|package|service|tool)\b"
)
"""Behind a value: it is the name of a program (`KeePass2Android app`)."""
_NAMES: Final = re.compile(
    r"(?i)(?:\d?password|lastpass|keepass\w*|bitwarden|auth0|oauth\d.*|nist[\w-]*|iso[\d-]+|rfc\d+|fido\d|x\.?509|base\d+|\w+\d(?:st|nd|rd|th))"
)
_PLACE: Final = re.compile(r"[a-z0-9_.-]{1,24}(?:/[a-z0-9_.-]{1,32})+/?")
"""A path in a store of secrets: `k8s/prod/db-creds`."""
_MEASURE: Final = re.compile(
    r"(?i)[<>~≥≤+-]?\d+(?:[.,]\d+)?(?:[a-zµ%°]{1,4}|-(?:char|digit|bit|byte|day|hour|min)\w*)\+?|\d+[x×]\d+"
)

_FLAGS: Final = re.compile(
    r"(?<![\w-])(?:-u|--user|--proxy-user|--basic)[ =]{1,2}[\"']?[\w.@+-]{1,64}:(?P<user>[^\s\"'@/]{4,128})"
    r"|(?<![\w-])--?(?:pass|password|passwd|passphrase|secret|token|api[-_]?key|auth[-_]?token|access[-_]?token|secret[-_]?key|client[-_]?secret)"
    r"[ =]{1,2}[\"']?(?P<flag>[^\s\"'`<>$|;]{4,256})"
    r"|(?<![\w-])(?:mysql|mysqldump|mysqladmin|mariadb|sshpass)\b[^\n|;&]{0,120}?[ ]-p[ ]?[\"']?(?P<short>[^\s\"'`<>$|;-][^\s\"'`<>$|;]{5,127})",
    re.IGNORECASE,
)  # fmt: skip
_CALLED: Final = re.compile(
    r"[ \t]{1,4}(?:is|as|for)[ \t]{1,4}(?:the|my|our|your|a)[ \t]{1,4}(?:[^\s.,;:!?]{1,20}[ \t]{1,4}){0,3}?"
    r"(?:password|passphrase|passcode|pin|token|api key|secret key)\b",
    re.IGNORECASE,
)
"""What follows a secret that is told before its name: `… is the password for the guests`."""
_PAIR: Final = re.compile(
    r"(?i)(?<!\w)(?:log ?in|logins?|sign in|creds?|credentials|account|anmeldung|zugang|zugangsdaten|identifiants?|acceso|доступ|логин)"
    r"(?:[ \t]{1,4}[^\s:=|,;!?/]{1,20}){0,4}?[ \t]{0,4}(?::|with|mit|avec|con|is|as|=)[ \t]{0,4}"
    r"[\w.@+-]{2,64}[ \t]{0,2}[:/][ \t]{0,2}(?P<value>[^\s\"'`<>,;|/]{6,128})"
)

_CARD: Final = re.compile(
    r"(?<![\w.-])(?:\d{4}[ -]?){3}\d{1,7}(?![\w-])|(?<![\w.-])3[47]\d{2}[ -]?\d{6}[ -]?\d{5}(?![\w-])|(?<![\w.-])3[068]\d{2}[ -]?\d{6}[ -]?\d{4}(?![\w-])"
)
_ISSUER: Final = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2(?:2[2-9]|[3-6]\d|7[01]|720)\d{12,13}|3[47]\d{13}|6(?:011|5\d\d)\d{12}|3[068]\d{12}|35\d{14}|62\d{14,17}"
)
_TEST_CARDS: Final = frozenset(
    ["4111111111111111", "4242424242424242", "4012888888881881", "5555555555554444", "5105105105105100", "378282246310005",
     "371449635398431", "6011111111111117", "30569309025904", "3530111333300000", "4000000000000002", "2223003122003222"]
)  # fmt: skip
_IBAN: Final = re.compile(r"(?<![\w-])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![\w-])")
_EXAMPLE_IBANS: Final = frozenset(
    ["DE89370400440532013000", "GB82WEST12345698765432", "GB29NWBK60161331926819", "FR1420041010050500013M02606"]
)


def spans(text: str) -> Iterator[Span]:
    """Every secret that these rules find; spans may overlap and come in no order."""
    for found in _FLAGS.finditer(text):
        name = found.lastgroup or ""
        value = found[name]
        start, end = found.start(name), found.start(name) + len(value.rstrip(_TRAILING))
        # after such a flag stands a password or a variable: a plain word is one as well, but not a word of a sentence
        if _is_real(value.rstrip(_TRAILING), least=6):
            yield Span(start, end, "Password")
    for found in _PAIR.finditer(text):
        yield from _password(text, *found.span("value"))
    for found in _CALLED.finditer(text):
        before = text[max(0, found.start() - _LONGEST) : found.start()].split()
        if before:
            yield from _password(text, found.start() - len(before[-1]), found.start())
    yield from _labelled(text)
    for found in _CARD.finditer(text):
        if _is_card(found[0]):
            yield Span(*found.span(), "Card Number")
    for found in _IBAN.finditer(text):
        if _is_iban(found[0]):
            yield Span(*found.span(), "IBAN")


def _password(text: str, start: int, end: int) -> Iterator[Span]:
    value = text[start:end]
    start += len(value) - len(value.lstrip(_LEADING))
    value = value.strip(_LEADING).rstrip(_TRAILING)
    if _is_real(value, least=6):
        yield Span(start, start + len(value), "Password")


def is_product(text: str, end: int) -> bool:
    """True where the value that ends at `end` is the name of a program."""
    return _PRODUCT.match(text, end) is not None


def _labelled(text: str) -> Iterator[Span]:
    folded = text.casefold()
    for kind, names in _names().items():
        there = tuple(name for name in names if name.lstrip("~") in folded)
        if not there:
            continue
        behind = 0
        for label in _pattern(there).finditer(text):
            if label.start() < behind or _OTHER.match(text, label.end()):
                continue
            for how, pattern in _following():
                found = pattern.match(text, label.end())
                if found is None:
                    continue
                told = list(_values(text, found.end(), kind, how, dense=label["dense"] is not None))
                if told:
                    yield from told
                    behind = told[-1].end
                    break


def _values(text: str, start: int, kind: str, how: str, *, dense: bool) -> Iterator[Span]:
    """The secret that begins at `start`, where what stands there is one of this kind."""
    if kind == "phrase":
        if words := _WORDS.match(text, start):
            yield Span(*words.span(), _KINDS[kind])
    elif kind == "recovery":
        yield from _codes(text, start)
    elif kind == "pin":
        digits = None if how == "marked" else _DIGITS.match(text, start)
        if digits is not None and (how != "next" or _END.match(text, digits.end())):
            yield Span(*digits.span(1), _KINDS[kind])
    else:
        found = _QUOTED.match(text, start)
        place = found.span(1) if found else _bare(text, start, dense=dense)
        if place is not None and _tells(text, place, kind, how, quoted=found is not None):
            yield Span(*place, _KINDS[kind])


def _bare(text: str, start: int, *, dense: bool) -> tuple[int, int] | None:
    found = (_ASCII if dense else _BARE).match(text, start)
    if found is None:
        return None
    return start, start + len(found[0].rstrip(_TRAILING))


def _tells(text: str, place: tuple[int, int], kind: str, how: str, *, quoted: bool) -> bool:
    """Whether a value behind a name is the secret itself."""
    value = text[slice(*place)]
    if how == "marked" and (kind != "password" or _SIGNS.isdisjoint(value) or not _END.match(text, place[1])):
        return False
    if is_product(text, place[1]) or (how in ("verb", "next", "marked") and _MEASURE.fullmatch(value)):
        return False
    if kind == "key":
        strict = how in ("verb", "next")
        if SLUG.fullmatch(value) or not _is_real(value, least=12 if strict and not quoted else 8):
            return False
        return not strict or sum(char.isdigit() for char in value) >= 2
    if how == "sign" and value.isdigit():
        return len(value) >= 6
    return _is_real(value, least=6 if how in ("sign", "verb") else 8)


def _codes(text: str, start: int) -> Iterator[Span]:
    """The codes of a list, one behind the other."""
    at = start
    while found := _CODE.match(text, (_CODES.match(text, at) or re.compile("").match(text, at)).end()):  # type: ignore[union-attr]
        if sum(char.isdigit() for char in found[0]) < 2:
            return
        yield Span(*found.span(), _KINDS["recovery"])
        at = found.end()


def _is_real(value: str, *, least: int) -> bool:
    if len(value) < least or _NAMES.fullmatch(value) or _PLACE.fullmatch(value):
        return False
    return looks_real(value)


def _is_card(text: str) -> bool:
    digits = re.sub(r"[ -]", "", text)
    if digits in _TEST_CARDS or len(set(digits)) < 4 or not _ISSUER.fullmatch(digits):
        return False
    twice = [int(digit) * 2 for digit in digits[-2::-2]]
    return (sum(map(int, digits[-1::-2])) + sum(value - 9 if value > 9 else value for value in twice)) % 10 == 0


def _is_iban(text: str) -> bool:
    plain = text.replace(" ", "")
    if plain in _EXAMPLE_IBANS or not 15 <= len(plain) <= 34:
        return False
    return int("".join(str(int(char, 36)) for char in plain[4:] + plain[:4])) % 97 == 1


@lru_cache(maxsize=256)
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """Any of these names, where it stands by itself; `dense` where its script has no spaces."""
    spaced = "|".join(re.escape(name) for name in names if not name.startswith("~"))
    dense = "|".join(re.escape(name[1:]) for name in names if name.startswith("~"))
    found = rf"(?<![\w@/.-])(?:{spaced})(?![\w@-])" if spaced else "(?!)"
    return re.compile(rf"{found}|(?P<dense>{dense or '(?!)'})", re.IGNORECASE)


@cache
def _following() -> list[tuple[str, re.Pattern[str]]]:
    """What may stand between a name and its value, and how strong a sign that is."""
    between = [
        ("sign", _BETWEEN + _SIGN), ("verb", _BETWEEN + _VERB), ("sign", _DENSE), ("sign", _LINE), ("next", _NEXT),
        ("marked", _FEW + _NEXT),
    ]  # fmt: skip
    return [(how, re.compile(pattern, re.IGNORECASE)) for how, pattern in between]


@cache
def _names() -> dict[str, list[str]]:
    """Names by kind, folded, the longest first, so that a name is not read as the beginning of it."""
    found: dict[str, list[str]] = {}
    for line in files("ormahd.text").joinpath("secret_labels.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            found[kind := line.strip("[]")] = []
        elif line and not line.startswith("#"):
            found[kind].append(line.casefold())
    return {kind: sorted(names, key=len, reverse=True) for kind, names in found.items()}
