"""Rules for secrets. Every rule is linear in the text.

- tokens by the marks of their issuers, as `betterleaks.txt` and `secret_tokens.txt` list them;
- private keys with their body; `Authorization` and `Cookie` headers, bearer tokens; passwords in URLs;
- assignments such as `password = …` or `"api_key": "…"`: the value is one word of at least 8 characters (6 in quotes)
  that mixes letters with digits or signs. Variables, calls, paths, URLs, versions, dates, placeholders, masks and slugs
  are no secrets; a UUID or digest is one only as the value of an assignment;
- passwords of letters alone: `password = swordfish`, "my password is swordfish", `--password swordfish`. Such a
  password looks like any other word, so three conditions must hold. It follows a label of a password with a sign or
  verb. It ends a line or clause. It is not in `plain_words.txt`, and is no participle and no name in code. Labels are
  those of English, German, French and Spanish;
- secrets in sentences and commands: `the wifi password at home is …`, a PIN, recovery codes, `curl -u me:…`. Their
  names, in many languages, are in `secret_labels.txt`;
- card and account numbers with a valid checksum.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, cached_property, lru_cache, partial
from importlib.resources import files
from typing import Final, NamedTuple

from ormahd.model.strength import Pace
from ormahd.text.tables import patterns, sections, tables

_RULE: Final = patterns("secrets.toml", "rules")
_FOLLOWING: Final = patterns("secrets.toml", "following")
"""What may stand between a secret's label and its value: a `sign` such as a colon, a `verb`, nothing (`next`), or a few
other words (`marked`)."""
_EXAMPLES: Final = tables("secrets.toml")["examples"]
_MAX_KEY = 65_536
"""Maximum number of characters between BEGIN and END of a private key."""

_MAX_WORD = 128
"""Maximum number of characters of a value that may be a variable, path or call."""


class Span(NamedTuple):
    """A secret in a text: characters `start` to `end` (exclusive), and its kind."""

    start: int
    end: int
    kind: str


def looks_real(value: str) -> bool:
    """Return whether a value looks like a secret, and not like a word, variable or template."""
    if len(set(value)) < 4 or (len(value) <= _MAX_WORD and _RULE["stand_in"].fullmatch(value)):
        return False
    if len(value) >= 20 and 7 * len(_RULE["hump"].findall(value)) > len(value):
        return True  # letters at random, and no name in camel case
    return any(char.isalpha() for char in value) and any(char.isdigit() or char in "!@#$%^&*" for char in value)


def is_placeholder(password: str) -> bool:
    """Return whether the password in a URL is a placeholder, and no secret."""
    return len(set(password)) < 2 or _RULE["url_stand_in"].fullmatch(password) is not None


def spans(text: str, pace: Pace) -> Iterator[Span]:
    """Yield every secret that this module's rules find, in no order. Spans may overlap. `pace`: see
    `secrets.redact`."""
    folded = text.casefold()
    yield from _tokens(text, folded, pace)
    for needs, search in pace(_RULES):
        if any(word in folded for word in needs):
            yield from search(text)


def _passwords_of_urls(text: str) -> Iterator[Span]:
    """Yield the passwords in URLs (`https://me:PASSWORD@host`), except placeholders."""
    for found in _RULE["url_password"].finditer(text):
        if not is_placeholder(found[1]):
            yield Span(*found.span(1), "Basic Auth Credentials")


def _credentials(rule: str, text: str) -> Iterator[Span]:
    """Yield the credentials after each match of `rule`: the key of a pattern for a header or a bearer token."""
    for found in _RULE[rule].finditer(text):
        value = _RULE["credentials"].match(text, found.end())
        if value and (looks_real(value[0]) or (rule == "header" and _RULE["cases"].search(value[0]))):
            yield Span(value.start(), value.end(), "Authorization")


def _cookies(text: str) -> Iterator[Span]:
    """Yield the values of cookies in `Cookie` and `Set-Cookie` headers, if they look like secrets."""
    reach = 0
    for header in _RULE["cookies"].finditer(text):
        at = header.end()
        while at >= reach and (cookie := _RULE["cookie"].match(text, at)):
            value = cookie["value"]
            if len(value) >= 8 and (looks_real(value) or _RULE["cases"].search(value)):
                yield Span(*cookie.span("value"), "Cookie")
            at = cookie.end()
        reach = max(reach, at)


def _assignments(pattern: re.Pattern[str], text: str) -> Iterator[Span]:
    """Yield the values of assignments (`token = …`) that look like secrets. `pattern`: matches the name and the
    sign."""
    reach = 0
    for found in pattern.finditer(text):
        # The value is not consumed, because it may contain another name, as in `password: token=…`.
        place = _assigned_value(text, found.end()) if found.end() >= reach else None
        if place is None:
            continue
        # Names within a long value are skipped. Otherwise hostile text would be read again for each of them.
        reach = place[1] if place[1] - place[0] > _MAX_WORD else reach
        value, password = text[slice(*place)], "pass" in found[0].casefold()
        # The value of `token: gpt-4o-mini` is a name and no secret, but a password may look like a name.
        if looks_real(value) and (password or not _RULE["slug"].fullmatch(value)):
            yield Span(*place, "Password" if password else "Secret")


def _assigned_value(text: str, start: int) -> tuple[int, int] | None:
    """Return (start, end) of the value that is assigned at `start`, without quotes; None if there is none, or it is too
    short."""
    if quoted := _RULE["quoted"].match(text, start):
        return quoted.span(quoted.lastindex or 0)
    if bare := _RULE["bare"].match(text, start):
        head = len(bare[0]) - len(bare[0].lstrip("*"))
        value = bare[0].strip("*").rstrip(".:!?)]}*")
        return (start + head, start + head + len(value)) if len(value) >= 8 else None
    if long := _RULE["long_value"].match(text, start):
        return long.span(1)
    return None


def long_secrets(text: str) -> Iterator[Span]:
    """Yield the private keys and JSON web tokens in a text. They may be longer than any other secret."""
    yield from (Span(*found.span(), "jwt") for found in _RULE["jwt"].finditer(text))
    marks = list(_RULE["pem"].finditer(text))
    ends = [mark.start() for mark in marks]
    for mark in marks:
        if mark[1] == "END":
            continue
        following = bisect_left(ends, mark.end())
        close = marks[following] if following < len(marks) else None
        if close and close[1] == "END" and close.start() - mark.end() <= _MAX_KEY:
            body = text[mark.end() : close.start()]
            # Most of a key is long runs of characters. Prose that only mentions both markers is no key.
            if 2 * sum(len(run) for run in _RULE["long_run"].findall(body)) > len(body):
                yield Span(mark.start(), close.end(), "Private Key")
        elif (body_end := _RULE["key_body"].match(text, mark.end())) and len(body_end[0].strip(" \r\n\t\\\"'>|")) >= 40:
            # A key that was cut off is a secret too. White space after it is not part of it.
            yield Span(mark.start(), mark.end() + len(body_end[0].rstrip()), "Private Key")
    for putty in _RULE["putty"].finditer(text):
        yield Span(putty.start(1), putty.start(1) + len(putty[1].rstrip()), "Private Key")


_RECOVERY: Final = {"recovery": "Recovery Code", "phrase": "Recovery Phrase"}
_KINDS: Final = {"password": "Password", "key": "Secret", "pin": "PIN"} | _RECOVERY
_TRAILING: Final = ".:?)]}*_"
_LEADING: Final = "\"'`(["
_LONGEST: Final = 128
"""Maximum number of characters of a password."""
_SIGNS: Final = frozenset("!#$%^&*")


def _passwords_of_flags(text: str) -> Iterator[Span]:
    """Yield the passwords after flags of commands, such as `--password` or `-u`."""
    for found in _RULE["flags"].finditer(text):
        name = found.lastgroup or ""
        value = found[name]
        start, end = found.start(name), found.start(name) + len(value.rstrip(_TRAILING))
        # what follows such a flag is a password or a variable; plain words are left to `_letter_passwords`
        if _is_real(value.rstrip(_TRAILING), least=6):
            yield Span(start, end, "Password")


def _passwords_of_logins(text: str) -> Iterator[Span]:
    """Yield the passwords of logins, such as `login: me / PASSWORD`."""
    for found in _RULE["pair"].finditer(text):
        yield from _trimmed_password(text, *found.span("value"))


def _called_passwords(text: str) -> Iterator[Span]:
    """Yield the words that a phrase after them calls a password: `hunter2x is the password`."""
    for found in _RULE["called"].finditer(text):
        before = text[max(0, found.start() - _LONGEST) : found.start()].split()
        if before:
            yield from _trimmed_password(text, found.start() - len(before[-1]), found.start())


def _cards(text: str) -> Iterator[Span]:
    """Yield the numbers of payment cards."""
    for found in _RULE["card"].finditer(text) if _RULE["digits_of_a_card"].search(text) else ():
        if _is_card(found[0]):
            yield Span(*found.span(), "Card Number")


def _ibans(text: str) -> Iterator[Span]:
    """Yield the account numbers (IBAN) with a valid checksum, except those in examples."""
    for found in _RULE["iban"].finditer(text):
        plain = found[0].replace(" ", "")
        if 15 <= len(plain) <= 34 and plain not in _EXAMPLES["ibans"]:
            number = int("".join(str(int(char, 36)) for char in plain[4:] + plain[:4]))
            if number % 97 == 1:
                yield Span(*found.span(), "IBAN")


def _trimmed_password(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the password between `start` and `end` without signs around it; nothing if it does not look like a
    secret."""
    value = text[start:end]
    start += len(value) - len(value.lstrip(_LEADING))
    value = value.strip(_LEADING).rstrip(_TRAILING)
    if _is_real(value, least=6):
        yield Span(start, start + len(value), "Password")


def is_product(text: str, end: int) -> bool:
    """Return whether the value that ends at `end` is the name of a program, as a word such as "app" follows it."""
    return _RULE["product"].match(text, end) is not None


def _labelled_secrets(text: str) -> Iterator[Span]:
    """Yield the secrets that follow a label in a sentence or command, such as `the wifi password at home is …`."""
    folded = text.casefold()
    for kind, names in _labels().items():
        present = tuple(name for name in names if name.lstrip("~") in folded)
        if not present:
            continue
        behind = 0
        for label in _label_pattern(present).finditer(text):
            if label.start() < behind or _RULE["other"].match(text, label.end()):
                continue
            for name, pattern in _FOLLOWING.items():
                found = pattern.match(text, label.end())
                if found is None:
                    continue
                how = name.partition("_")[0]
                values = list(_labelled_values(text, found.end(), kind, how, dense=label["dense"] is not None))
                if values:
                    yield from values
                    behind = values[-1].end
                    break


def _labelled_values(text: str, start: int, kind: str, how: str, *, dense: bool) -> Iterator[Span]:
    """Yield the secrets of `kind` that begin at `start`: at most one, but for recovery codes all of their list.

    `how`: what stands between the secret's label ("password") and `start`, a key of
    `_FOLLOWING` up to its `_`; `dense`: whether the
    label is in a script without spaces.
    """
    if kind == "phrase":
        if words := _RULE["words"].match(text, start):
            yield Span(*words.span(), _KINDS[kind])
    elif kind == "recovery":
        yield from _recovery_codes(text, start)
    elif kind == "pin":
        digits = None if how == "marked" else _RULE["digits"].match(text, start)
        if digits is not None and (how != "next" or _RULE["end"].match(text, digits.end())):
            yield Span(*digits.span(1), _KINDS[kind])
    else:
        found = _RULE["quoted_word"].match(text, start)
        place = found.span(1) if found else None
        if found is None and (bare := _RULE["ascii" if dense else "bare_word"].match(text, start)):
            place = start, start + len(bare[0].rstrip(_TRAILING))
        if place is not None and _is_secret(text, place, kind, how, quoted=found is not None):
            yield Span(*place, _KINDS[kind])


def _is_secret(text: str, place: tuple[int, int], kind: str, how: str, *, quoted: bool) -> bool:
    """Return whether the value at `place` (start, end) after a label is the secret itself, and not a description of
    it. `kind`, `how`: see `_labelled_values`."""
    value = text[slice(*place)]
    if how == "marked" and (kind != "password" or _SIGNS.isdisjoint(value) or not _RULE["end"].match(text, place[1])):
        return False
    if kind == "password" and value.endswith("!") and _describes(value.rstrip("!")):
        return False
    if is_product(text, place[1]) or (how in ("verb", "next", "marked") and _RULE["measure"].fullmatch(value)):
        return False
    if kind == "key":
        strict = how in ("verb", "next")
        if _RULE["slug"].fullmatch(value) or not _is_real(value, least=12 if strict and not quoted else 8):
            return False
        return not strict or sum(char.isdigit() for char in value) >= 2
    if how == "sign" and value.isdigit():
        return len(value) >= 6
    return _is_real(value, least=6 if how in ("sign", "verb") else 8)


def _recovery_codes(text: str, start: int) -> Iterator[Span]:
    """Yield the recovery codes of the list that begins at `start`."""
    at = start
    while found := _RULE["code"].match(text, (_RULE["codes"].match(text, at) or re.compile("").match(text, at)).end()):  # type: ignore[union-attr]
        if sum(char.isdigit() for char in found[0]) < 2:
            return
        yield Span(*found.span(), _KINDS["recovery"])
        at = found.end()


def _is_real(value: str, *, least: int) -> bool:
    """Return whether a value of at least `least` characters looks like a secret, and is no name of a product or a
    place."""
    if len(value) < least or _RULE["product_names"].fullmatch(value) or _RULE["place"].fullmatch(value):
        return False
    return looks_real(value)


def _is_card(text: str) -> bool:
    """Return whether a text is the number of a payment card: of a known issuer, with a valid checksum, and no
    example."""
    digits = re.sub(r"[ -]", "", text)
    if digits in _EXAMPLES["cards"] or len(set(digits)) < 4 or not _RULE["issuer"].fullmatch(digits):
        return False
    twice = [int(digit) * 2 for digit in digits[-2::-2]]
    return (sum(map(int, digits[-1::-2])) + sum(value - 9 if value > 9 else value for value in twice)) % 10 == 0


@lru_cache(maxsize=256)
def _label_pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern that matches any of these labels of secrets as a whole word.

    Labels that begin with `~` are in scripts without spaces; they match anywhere, in the group `dense`.
    """
    spaced = "|".join(re.escape(name) for name in names if not name.startswith("~"))
    dense = "|".join(re.escape(name[1:]) for name in names if name.startswith("~"))
    found = rf"(?<![\w@/.-])(?:{spaced})(?![\w@-])" if spaced else "(?!)"
    return re.compile(rf"{found}|(?P<dense>{dense or '(?!)'})", re.IGNORECASE)


@cache
def _labels() -> dict[str, list[str]]:
    """Return `{kind of secret: its labels}` from `secret_labels.txt`, folded, longest first."""
    return {kind: sorted(names, key=len, reverse=True) for kind, names in sections("secret_labels.txt").items()}


# ---------------------------------------------------------------- tokens with the marks of their issuers

_LOWER: Final = re.compile(r"[a-z_.-]*+")
_WORD_REST: Final = re.compile(r"[A-Za-z0-9_-]*+")


class _TokenRule:
    """A rule for the tokens of one issuer: a pattern, and keywords of which a text with such a token has at least one.

    `entropy`: minimum bits of information of each character; `folded`: (keyword, its trigrams) of each keyword,
    casefolded.
    """

    def __init__(self, line: str) -> None:
        """`line`: kind, minimum entropy, keywords separated by `|`, and pattern, separated by tabs."""
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
def token_rules() -> list[_TokenRule]:
    """Return the rules in `betterleaks.txt` and `secret_tokens.txt`."""
    lines = [
        line
        for name in ("betterleaks.txt", "secret_tokens.txt")
        for line in files("ormahd.text").joinpath(name).read_text("utf-8").splitlines()
    ]
    return [_TokenRule(line) for line in lines if line and not line.startswith("#")]


def _tokens(text: str, folded: str, pace: Pace) -> Iterator[Span]:
    """Yield the tokens in a text, in no order. `folded`: the text, casefolded. `pace`: see `secrets.redact`.

    Only the rules of which a keyword is in the text search it. A pattern of fixed length does not match the end of a
    longer token, which is secret too.
    """
    trigrams = _trigrams(folded)  # a set is asked in a tenth of the time that a search of the text takes
    rules = [
        rule
        for rule in token_rules()
        if any(of_keyword <= trigrams and keyword in folded for keyword, of_keyword in rule.folded)
    ]
    for rule in pace(rules):
        for found in rule.pattern.finditer(text):
            start, end = next(
                (found.span(group + 1) for group, part in enumerate(found.groups()) if part), found.span()
            )
            value = text[start:end]
            if _LOWER.fullmatch(value):
                continue
            # entropy: the bits of information of a character, by how often each occurs
            shares = [count / len(value) for count in Counter(value).values()]
            entropy = -sum(share * math.log2(share) for share in shares)
            if entropy >= rule.entropy:
                rest = _WORD_REST.match(text, end)
                yield Span(start, rest.end() if rest else end, rule.kind)


def _trigrams(text: str) -> set[str]:
    """Return the runs of three characters in a text."""
    return {text[at : at + 3] for at in range(len(text) - 2)}


# ---------------------------------------------------------------- passwords of letters alone

_SENTENCES: Final = "words of sentences"
"""Name of the section of `plain_words.txt` with words of sentences. A phrase with one of them is no password."""
_LETTERS: Final = patterns("secrets.toml", "letters")


def _letter_passwords(text: str) -> Iterator[Span]:
    """Yield every password that consists of letters alone, in no order. Takes time linear in the text's length."""
    for found in _LETTERS["before"].finditer(text):
        word = _letters_after(text, found.end(), verb=found["verb"] is not None, sign=found["how"])
        if word is not None:
            yield Span(*word.span("word"), _KINDS["password"])
    for found in _LETTERS["beside"].finditer(text):
        word = _letters_after(text, found.end(), verb=True)
        if word is None or _describes(word["word"]):
            continue
        # it ends its clause: in `password "reset" link` the word `reset` does not, so it is no password
        closed = _LETTERS["closer"].match(text, word.end())
        end = closed.end() if closed else word.end()
        if _LETTERS["ends"].match(text, end) or _LETTERS["goes_on"].match(text, end):
            yield Span(*word.span("word"), _KINDS["password"])
    for pattern in (_LETTERS["flag"], _LETTERS["called"]):
        for found in pattern.finditer(text):
            if not _is_plain(found["word"]) and not found["word"].isupper():
                yield Span(*found.span("word"), _KINDS["password"])


def _letters_after(text: str, start: int, *, verb: bool, sign: str = "") -> re.Match[str] | None:
    """Return a match whose group `word` is the password that begins at `start`; None if there is none.

    `verb`: whether a verb stands between the label ("password") and the password; `sign`: the sign between them, else
    empty.
    """
    if quoted := _LETTERS["quoted"].match(text, start):
        return None if _is_plain(quoted["word"]) else quoted
    if phrase := _LETTERS["phrase"].match(text, start):
        return phrase if _plain_words()[_SENTENCES].isdisjoint(phrase["word"].split()) else None
    if slug := _LETTERS["slug"].match(text, start):
        prose = verb or not _plain_words()[_SENTENCES].isdisjoint(slug["word"].split("-"))
        return slug if not prose and _LETTERS["ends"].match(text, slug.end()) else None
    bare = _LETTERS["bare"].match(text, start)
    if bare is None:
        return None
    end = bare.end()
    goes_on = ("=" in sign and _LETTERS["goes_on"].match(text, end)) or (sign == "=" and text[end : end + 1] == " ")
    if not goes_on and not _LETTERS["ends"].match(text, end):
        return None
    word = bare["word"]
    is_code = word.isupper() or _LETTERS["capital_inside"].search(word) is not None
    return None if is_code or _describes(word) else bare


def _describes(word: str) -> bool:
    """Return whether a word after "password" describes one instead of being it: `wrong`, `required`, `abgelaufen`."""
    return _is_plain(word) or _LETTERS["participle"].fullmatch(word.casefold()) is not None


def _is_plain(word: str) -> bool:
    """Return whether a word is probably no password: a type, a state, a label or the name of a program."""
    known = any(word.casefold() in listed for listed in _plain_words().values())
    return known or len(set(word)) < 4 or _LETTERS["of_a_label"].search(word) is not None


@cache
def _plain_words() -> dict[str, frozenset[str]]:
    """Return `{section: folded words}` of `plain_words.txt`."""
    return {name: frozenset(" ".join(lines).split()) for name, lines in sections("plain_words.txt").items()}


_RULES: Final[tuple[tuple[tuple[str, ...], Callable[[str], Iterator[Span]]], ...]] = (
    (("eyj", "private"), long_secrets),
    (("://",), _passwords_of_urls),
    (("bearer",), partial(_credentials, "bearer")),
    (("authorization",), partial(_credentials, "header")),
    (("cookie",), _cookies),
    (("pass", "pwd", "pw", "secret", "token", "key", "credential", "pat"), partial(_assignments, _RULE["assigned"])),
    (("pass", "pwd"), partial(_assignments, _RULE["stated"])),
    (("-u", "--user", "--basic", "--proxy", "-pass", "-secret", "-token", "-api", "-auth", "-access", "-client", "mysql", "mariadb", "sshpass", "redis-cli", "az login", "sqlcmd", "zip", "openssl", "htpasswd", "smb", "configure set", "sudo -s"), _passwords_of_flags),
    (("log in", "login", "sign in", "cred", "account", "anmeldung", "zugang", "identifiant", "acceso", "доступ", "логин"), _passwords_of_logins),
    (("pass", "pin", "token", "key"), _called_passwords),
    (("pass", "pw", "kennwort", "contrase", "-u", "--user", "--basic", "mysql", "mariadb", "redis-cli", " login"), _letter_passwords),
    (("",), _labelled_secrets),
    (("",), _cards),
    (("",), _ibans),
)  # fmt: skip
"""(words, rule): each rule searches only texts that contain one of its words, folded."""
