"""Rules for secrets that no issuer marks. Every rule is linear in the text.

- private keys with their body; `Authorization` and `Cookie` headers, bearer tokens; passwords in URLs;
- assignments such as `password = …` or `"api_key": "…"`: the value is one word of at least 8 characters (6 in quotes)
  that mixes letters with digits or signs. Variables, calls, paths, URLs, versions, dates, placeholders, masks and slugs
  are no secrets; a UUID or digest is one only as the value of an assignment;
- passwords of letters alone (`ormahd.text.letter_passwords`);
- secrets in sentences and commands: `the wifi password at home is …`, a PIN, recovery codes, `curl -u me:…`. Their
  names, in many languages, are in `secret_labels.txt`;
- card and account numbers with a valid checksum.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import cache, lru_cache, partial
from importlib.resources import files
from typing import Final

from ormahd.model.strength import Pace
from ormahd.text import letter_passwords, tokens
from ormahd.text.letter_passwords import SHORT, USER
from ormahd.text.tokens import Span

_MAX_KEY = 65_536
"""Maximum number of characters between BEGIN and END of a private key."""

_BEARER = re.compile(r"(?i)(?<![a-z0-9_-])bearer[ \t]{1,8}(?=[a-z0-9._~+/-]{16})")
_HEADER = re.compile(
    r"(?i)(?<![a-z0-9_])(?:proxy-|x-)?authorization[\"']?[ \t]{0,8}[:=][ \t]{0,8}[\"']?(?:[a-z]{3,16}[ \t]{1,8}+)?"
)
_COOKIES = re.compile(r"(?i)(?<![a-z0-9_-])(?:set-)?cookie[\"']?[ \t]{0,8}[:=][ \t]{0,8}[\"']?(?=[a-z0-9_.$-]{1,64}=)")
_COOKIE = re.compile(r"(?P<name>[A-Za-z0-9_.$-]{1,64})=(?P<value>[^\s;,\"'<>]{0,4096})(?:;[ \t]{0,8})?")
_CASES = re.compile(r"[a-z0-9][A-Z]|=$")
"""Matches in a token without digits, and not in a word."""
_CREDENTIALS = re.compile(r"[A-Za-z0-9._~+/-]{8,8192}+={0,2}")
_URL_PASSWORD = re.compile(r"://[^\s/:@\"'<>]{0,255}:([^\s/@\"'<>]{1,255})@(?=[\w\[])")

_PEM = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_JWT = re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{4,}+(?:\.[A-Za-z0-9_.+/=-]*+)?")
_LONG_RUN = re.compile(r"[A-Za-z0-9+/=]{16,}+")
_KEY_BODY = re.compile(r"(?:[A-Za-z0-9+/=]{17,}+|[\s\\\"'>|]|\\[nr])*+")
_PUTTY = re.compile(r"Private-Lines: \d{1,4}\r?\n((?:[A-Za-z0-9+/=]{1,128}+(?:\r?\n|\Z))+)")

_NAME = (
    r"(?:passwords?|passwd|passphrase|passcode|(?<![a-z])pwd|(?<=[_-])pass|(?<=[_-])pw|secret|token"
    r"|(?:api|access|admin|app|auth|secret|client|deploy|private|encryption|license|service|session|shared|signing|account|master|server|write)[_-]?key"
    r"|credentials?|(?<=[_-])pat)"
)
_OF = r"(?:[_-](?:base|prod|production|staging|stage|dev|test|live|local|old|new|main|primary|secondary|backup|v?\d{1,4})){0,2}"
"""Matches what may follow the name of a secret: the endings of SECRET_KEY_BASE, PASSWORD_PROD."""
_ASSIGNED = re.compile(rf"(?i){_NAME}{_OF}(?:\\?[\"'`]\]?|\*\*)?[ \t]{{0,8}}(?::=|=>|[:=])(?:\*\*)?[ \t]{{0,8}}")
_TOLD = re.compile(r"(?i)(?:password|passwd|passphrase|passcode|pwd) (?:is|was)[ \t]{0,4}(?::[ \t]{0,4})?")
_QUOTED = re.compile(
    r"""\\(["'`])((?:(?!\\\1)\S){6,512}+)(?=\\\1)"""  # inside a string of JSON
    r"""|(["'`])((?:\\\S|(?!\3)[^\s\\]){6,512}+)(?=\3)"""
)
_BARE = re.compile(r"[^\s\"'`<>,;|]{8,512}+(?![^\s\"'`<>,;|])")
_LONG_VALUE = re.compile(r"[\"'`]?([A-Za-z0-9_.~+/=-]{500,}+)")
_MAX_WORD = 128
"""Maximum number of characters of a value that may be a variable, path or call."""

_STAND_IN = re.compile(
    r"""(?x)
    [a-z0-9_.-]{1,24}(?:/[a-z0-9_.-]{1,32})+/? |                                       # k8s/prod/db-creds
    ![A-Za-z/:!-]* | \$(?:[A-Za-z_]+|[A-Z0-9_]+|[({].*) | [<\[].* | \{.*\}\w* | %.*%                    # variables, templates
    | [A-Za-z_.]\w*(?:\.\w+)*[\[(].* | (?i:.*[*.•…x]{4}.*) | .*://.*                    # calls, masks, URLs
    | (?:~|\.{1,2})/.* | /(?=.{0,30}$|.*[._-])[\w./-]* | [\w./-]+\.(?:pem|key|txt|json|ya?ml|toml|env|py|[jt]s|md|pub|crt|gpg)
    | [\w.+-]+@[\w-]+(?:\.[\w-]+)+ | v?\d+(?:\.\d+)+.* | \d{4}-\d\d-\d\d.*              # addresses, versions, dates
    | [a-z_]+(?::[\w,]+)?(?:\|[a-z_]+(?::[\w,]+)?)+                                     # required|min:8
    | [a-z_][a-z_0-9]{0,24}(?:\.[a-z_][a-z_0-9]{0,24})+ | [A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+ # settings.password, DB_PASS_2
    | (?i:(?:sha|md|argon|bcrypt|scrypt|pbkdf|base|aes|rsa|ed|hs|rs|utf|oauth|hmac)-?\d.{0,12}|x-?(?:509|25519|448|86|64)(?:[_-](?:64|v\d))?)
    | (?i:(?:your|my|the|some|test|new|old)?[_-]?(?:changeme|example|placeholder|password|secret|dummy)
        [_-]?(?:key|token|value|here|password)?\d?)
    """
)
SLUG = re.compile(r"(?!(?:\D*\d){4})[a-z0-9]+(?:[-_][a-z0-9]+)+")


def looks_real(value: str) -> bool:
    """Return whether a value looks like a secret, and not like a word, variable or template."""
    if len(set(value)) < 4 or (len(value) <= _MAX_WORD and _STAND_IN.fullmatch(value)):
        return False
    if len(value) >= 20 and 7 * len(_HUMP.findall(value)) > len(value):
        return True  # letters at random, and no name in camel case
    return any(char.isalpha() for char in value) and any(char.isdigit() or char in "!@#$%^&*" for char in value)


_HUMP = re.compile(r"[a-z](?=[A-Z])")


def stands_in(password: str) -> bool:
    """Return whether the password in a URL is only a placeholder."""
    return len(set(password)) < 2 or _URL_STAND_IN.fullmatch(password) is not None


_URL_STAND_IN = re.compile(r"(?i)[\[<{$%*].*|x+|(?:your)?[_-]?(?:pass|passwd|password|pw|pwd|secret|token)")


def spans(text: str, pace: Pace) -> Iterator[Span]:
    """Yield every secret that this module's rules find, in no order. Spans may overlap. `pace`: see
    `secrets.redact`."""
    folded = text.casefold()
    yield from tokens.spans(text, folded, pace)
    for needs, search in pace(_RULES):
        if any(word in folded for word in needs):
            yield from search(text)


def _passwords_of_urls(text: str) -> Iterator[Span]:
    for found in _URL_PASSWORD.finditer(text):
        if not stands_in(found[1]):
            yield Span(*found.span(1), "Basic Auth Credentials")


def _credentials(pattern: re.Pattern[str], text: str) -> Iterator[Span]:
    for found in pattern.finditer(text):
        value = _CREDENTIALS.match(text, found.end())
        if value and (looks_real(value[0]) or (pattern is _HEADER and _CASES.search(value[0]))):
            yield Span(value.start(), value.end(), "Authorization")


def _cookies(text: str) -> Iterator[Span]:
    """Yield the values of cookies in `Cookie` and `Set-Cookie` headers, if they look like secrets."""
    reach = 0
    for header in _COOKIES.finditer(text):
        at = header.end()
        while at >= reach and (cookie := _COOKIE.match(text, at)):
            value = cookie["value"]
            if len(value) >= 8 and (looks_real(value) or _CASES.search(value)):
                yield Span(*cookie.span("value"), "Cookie")
            at = cookie.end()
        reach = max(reach, at)


def _assignments(pattern: re.Pattern[str], text: str) -> Iterator[Span]:
    reach = 0
    for found in pattern.finditer(text):
        # The value is not consumed, because it may contain another name, as in `password: token=…`.
        place = _value(text, found.end()) if found.end() >= reach else None
        if place is None:
            continue
        # Names within a long value are skipped. Otherwise hostile text would be read again for each of them.
        reach = place[1] if place[1] - place[0] > _MAX_WORD else reach
        value, password = text[slice(*place)], "pass" in found[0].casefold()
        # The value of `token: gpt-4o-mini` is a name and no secret, but a password may look like a name.
        if looks_real(value) and (password or not SLUG.fullmatch(value)):
            yield Span(*place, "Password" if password else "Secret")


def _value(text: str, start: int) -> tuple[int, int] | None:
    if quoted := _QUOTED.match(text, start):
        return quoted.span(quoted.lastindex or 0)
    if bare := _BARE.match(text, start):
        head = len(bare[0]) - len(bare[0].lstrip("*"))
        value = bare[0].strip("*").rstrip(".:!?)]}*")
        return (start + head, start + head + len(value)) if len(value) >= 8 else None
    if long := _LONG_VALUE.match(text, start):
        return long.span(1)
    return None


def long_secrets(text: str) -> Iterator[Span]:
    """Yield the private keys and JSON web tokens in a text. They may be longer than any other secret."""
    yield from (Span(*found.span(), "jwt") for found in _JWT.finditer(text))
    marks = list(_PEM.finditer(text))
    ends = [mark.start() for mark in marks]
    for mark in marks:
        if mark[1] == "END":
            continue
        following = bisect_left(ends, mark.end())
        close = marks[following] if following < len(marks) else None
        if close and close[1] == "END" and close.start() - mark.end() <= _MAX_KEY:
            body = text[mark.end() : close.start()]
            # Most of a key is long runs of characters. Prose that only mentions both markers is no key.
            if 2 * sum(len(run) for run in _LONG_RUN.findall(body)) > len(body):
                yield Span(mark.start(), close.end(), "Private Key")
        elif (body_end := _KEY_BODY.match(text, mark.end())) and len(body_end[0].strip(" \r\n\t\\\"'>|")) >= 40:
            # A key that was cut off is a secret too. White space after it is not part of it.
            yield Span(mark.start(), mark.end() + len(body_end[0].rstrip()), "Private Key")
    for putty in _PUTTY.finditer(text):
        yield Span(putty.start(1), putty.start(1) + len(putty[1].rstrip()), "Private Key")


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

_QUOTED_WORD: Final = re.compile(r"[\"'`“”„«]([^\s\"'`“”„«»]{4,128})[\"'`“”»]")
_BARE_WORD: Final = re.compile(r"[^\s\"'`<>,;|，。；、「」（）]{4,128}")
_ASCII: Final = re.compile(r"[!#-&*-:=?-_a-~]{4,128}")
_TRAILING: Final = ".:?)]}*_"
_LEADING: Final = "\"'`(["
_LONGEST: Final = 128
"""Maximum number of characters of a password."""
_DIGITS: Final = re.compile(r"[#*]?(\d(?:[ -]?\d){3,9})[#*]?(?![\w.-]*\w)")
_END: Final = re.compile(r"[ \t]*(?:[.,;:!?)]|$|\n)")
_SIGNS: Final = frozenset("!#$%^&*")
_CODE: Final = re.compile(r"(?<![\w-])(?=[a-z0-9-]*\d)[a-z0-9]{4,10}(?:-[a-z0-9]{3,10}){0,3}(?![\w-])", re.IGNORECASE)
_CODES: Final = re.compile(r"(?:[\s,;:|*>•.)-]|\d{1,2}[.)]|and|und|et|y|и){0,12}", re.IGNORECASE)
_WORDS: Final = re.compile(r"(?:\d{1,2}[.)] ?)?[a-z]{3,8}(?:[\s,]{1,3}(?:\d{1,2}[.)] ?)?[a-z]{3,8}){11,23}")

_OTHER: Final = re.compile(
    r"(?i)[\s_-]{0,3}(?:polic|manager|reset|hash|rotat|field|length|strength|generat|column|file|prompt|page|form|auth|flow|stor"
    r"|vault|expir|requirement|rule|input|box|hint|check|valid|encod|format|type|limit|bucket|count|budget|window|header|name"
    r"|scope|endpoint|service|provider|schema|table|cookie|refresh|lifetime|ttl|based|protected|less|richtlinie|länge|politique)"
)
"""Matches words after "password" or "token" that show that no secret follows: `password policy`, `token limit`."""
_PRODUCT: Final = re.compile(
    r"[ \t]{1,4}(?:app|apps|application|manager|plugin|extension|client|library|package|service|tool)\b"
)
"""Matches words after the name of a program (`KeePass2Android app`)."""
_PRODUCT_NAMES: Final = re.compile(
    r"(?i)(?:\d?password|lastpass|keepass\w*|bitwarden|auth0|oauth\d.*|nist[\w-]*|iso[\d-]+|rfc\d+|fido\d|x\.?509|base\d+|\w+\d(?:st|nd|rd|th))"
)
_PLACE: Final = re.compile(r"[a-z0-9_.-]{1,24}(?:/[a-z0-9_.-]{1,32})+/?")
"""Matches a path in a store of secrets: `k8s/prod/db-creds`."""
_MEASURE: Final = re.compile(
    r"(?i)[<>~≥≤+-]?\d+(?:[.,]\d+)?(?:[a-zµ%°]{1,4}|-(?:char|digit|bit|byte|day|hour|min)\w*)\+?|\d+[x×]\d+"
)

_FLAGS: Final = re.compile(
    rf"(?<![\w-]){USER}(?P<user>[^\s\"'@/]{{4,128}})"
    r"|(?<![\w-])--?(?:pass|password|passwd|passphrase|secret|token|api[-_]?key|auth[-_]?token|access[-_]?token|secret[-_]?key|client[-_]?secret)"
    r"[ =]{1,2}[\"']?(?P<flag>[^\s\"'`<>$|;]{4,256})"
    rf"|(?<![\w-]){SHORT}[ ]?[\"']?(?P<short>[^\s\"'`<>$|;-][^\s\"'`<>$|;]{{5,127}})",
    re.IGNORECASE,
)  # fmt: skip
_CALLED: Final = re.compile(
    r"[ \t]{1,4}(?:is|as|for)[ \t]{1,4}(?:the|my|our|your|a)[ \t]{1,4}(?:[^\s.,;:!?]{1,20}[ \t]{1,4}){0,3}?"
    r"(?:password|passphrase|passcode|pin|token|api key|secret key)\b",
    re.IGNORECASE,
)
"""Matches what follows a secret if its name comes later, as in `… is the password for the guests`."""
_PAIR: Final = re.compile(
    r"(?i)(?<!\w)(?:log ?in|logins?|sign in|creds?|credentials|account|anmeldung|zugang|zugangsdaten|identifiants?|acceso|доступ|логин)"
    r"(?:[ \t]{1,4}[^\s:=|,;!?/]{1,20}){0,4}?[ \t]{0,4}(?::|with|mit|avec|con|is|as|=)[ \t]{0,4}"
    r"[\w.@+-]{2,64}[ \t]{0,2}[:/][ \t]{0,2}(?P<value>[^\s\"'`<>,;|/]{6,128})"
)

_CARD: Final = re.compile(
    r"(?<![\w.-])(?:\d{4}[ -]?){3}\d{1,7}(?![\w-])|(?<![\w.-])3[47]\d{2}[ -]?\d{6}[ -]?\d{5}(?![\w-])|(?<![\w.-])3[068]\d{2}[ -]?\d{6}[ -]?\d{4}(?![\w-])"
)
_DIGITS_OF_A_CARD: Final = re.compile(r"\d{4}")
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


def _flags(text: str) -> Iterator[Span]:
    for found in _FLAGS.finditer(text):
        name = found.lastgroup or ""
        value = found[name]
        start, end = found.start(name), found.start(name) + len(value.rstrip(_TRAILING))
        # what follows such a flag is a password or a variable; plain words are left to `letter_passwords`
        if _is_real(value.rstrip(_TRAILING), least=6):
            yield Span(start, end, "Password")


def _pairs(text: str) -> Iterator[Span]:
    for found in _PAIR.finditer(text):
        yield from _password(text, *found.span("value"))


def _called(text: str) -> Iterator[Span]:
    for found in _CALLED.finditer(text):
        before = text[max(0, found.start() - _LONGEST) : found.start()].split()
        if before:
            yield from _password(text, found.start() - len(before[-1]), found.start())


def _cards(text: str) -> Iterator[Span]:
    for found in _CARD.finditer(text) if _DIGITS_OF_A_CARD.search(text) else ():
        if _is_card(found[0]):
            yield Span(*found.span(), "Card Number")


def _ibans(text: str) -> Iterator[Span]:
    for found in _IBAN.finditer(text):
        if _is_iban(found[0]):
            yield Span(*found.span(), "IBAN")


def _password(text: str, start: int, end: int) -> Iterator[Span]:
    value = text[start:end]
    start += len(value) - len(value.lstrip(_LEADING))
    value = value.strip(_LEADING).rstrip(_TRAILING)
    if _is_real(value, least=6):
        yield Span(start, start + len(value), "Password")


def _letters(text: str) -> Iterator[Span]:
    for found in letter_passwords.spans(text):
        yield Span(found.start, found.end, _KINDS["password"])


def is_product(text: str, end: int) -> bool:
    """Return whether the value that ends at `end` is the name of a program, as a word such as "app" follows it."""
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
    """Yield the secrets of `kind` that begin at `start`: at most one, but for recovery codes all of their list.

    `how`: what stands between the secret's label ("password") and `start`, see `_following`; `dense`: whether the
    label is in a script without spaces.
    """
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
        found = _QUOTED_WORD.match(text, start)
        place = found.span(1) if found else _bare(text, start, dense=dense)
        if place is not None and _tells(text, place, kind, how, quoted=found is not None):
            yield Span(*place, _KINDS[kind])


def _bare(text: str, start: int, *, dense: bool) -> tuple[int, int] | None:
    found = (_ASCII if dense else _BARE_WORD).match(text, start)
    if found is None:
        return None
    return start, start + len(found[0].rstrip(_TRAILING))


def _tells(text: str, place: tuple[int, int], kind: str, how: str, *, quoted: bool) -> bool:
    """Return whether the value at `place` (start, end) after a label is the secret itself, and not a description of
    it. `kind`, `how`: see `_values`."""
    value = text[slice(*place)]
    if how == "marked" and (kind != "password" or _SIGNS.isdisjoint(value) or not _END.match(text, place[1])):
        return False
    if kind == "password" and value.endswith("!") and letter_passwords.describes(value.rstrip("!")):
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
    """Yield the recovery codes of the list that begins at `start`."""
    at = start
    while found := _CODE.match(text, (_CODES.match(text, at) or re.compile("").match(text, at)).end()):  # type: ignore[union-attr]
        if sum(char.isdigit() for char in found[0]) < 2:
            return
        yield Span(*found.span(), _KINDS["recovery"])
        at = found.end()


def _is_real(value: str, *, least: int) -> bool:
    if len(value) < least or _PRODUCT_NAMES.fullmatch(value) or _PLACE.fullmatch(value):
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
    """Return a pattern that matches any of these labels of secrets as a whole word.

    Labels that begin with `~` are in scripts without spaces; they match anywhere, in the group `dense`.
    """
    spaced = "|".join(re.escape(name) for name in names if not name.startswith("~"))
    dense = "|".join(re.escape(name[1:]) for name in names if name.startswith("~"))
    found = rf"(?<![\w@/.-])(?:{spaced})(?![\w@-])" if spaced else "(?!)"
    return re.compile(rf"{found}|(?P<dense>{dense or '(?!)'})", re.IGNORECASE)


@cache
def _following() -> list[tuple[str, re.Pattern[str]]]:
    """Return (kind, pattern) for the texts that may stand between a secret's label and its value.

    Kinds: a `sign` such as a colon, a `verb`, nothing (`next`), or a few other words (`marked`).
    """
    between = [
        ("sign", _BETWEEN + _SIGN), ("verb", _BETWEEN + _VERB), ("sign", _DENSE), ("sign", _LINE), ("next", _NEXT),
        ("marked", _FEW + _NEXT),
    ]  # fmt: skip
    return [(how, re.compile(pattern, re.IGNORECASE)) for how, pattern in between]


@cache
def _names() -> dict[str, list[str]]:
    """Return `{kind of secret: its labels}` from `secret_labels.txt`, folded, longest first."""
    found: dict[str, list[str]] = {}
    for line in files("ormahd.text").joinpath("secret_labels.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            found[kind := line.strip("[]")] = []
        elif line and not line.startswith("#"):
            found[kind].append(line.casefold())
    return {kind: sorted(names, key=len, reverse=True) for kind, names in found.items()}


_RULES: Final[tuple[tuple[tuple[str, ...], Callable[[str], Iterator[Span]]], ...]] = (
    (("eyj", "private"), long_secrets),
    (("://",), _passwords_of_urls),
    (("bearer",), partial(_credentials, _BEARER)),
    (("authorization",), partial(_credentials, _HEADER)),
    (("cookie",), _cookies),
    (("pass", "pwd", "pw", "secret", "token", "key", "credential", "pat"), partial(_assignments, _ASSIGNED)),
    (("pass", "pwd"), partial(_assignments, _TOLD)),
    (("-u", "--user", "--basic", "--proxy", "-pass", "-secret", "-token", "-api", "-auth", "-access", "-client", "mysql", "mariadb", "sshpass"), _flags),
    (("log in", "login", "sign in", "cred", "account", "anmeldung", "zugang", "identifiant", "acceso", "доступ", "логин"), _pairs),
    (("pass", "pin", "token", "key"), _called),
    (("pass", "pw", "kennwort", "contrase", "-u", "--user", "--basic", "mysql", "mariadb", "redis-cli", " login"), _letters),
    (("",), _labelled),
    (("",), _cards),
    (("",), _ibans),
)  # fmt: skip
"""(words, rule): each rule searches only texts that contain one of its words, folded."""
