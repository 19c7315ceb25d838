"""Secrets that detect-secrets has no rule for, or only half a rule: our additions to `ormahd.text.secrets`.

Every rule is linear in the text, also in a hostile one: a repetition is bounded, or starts where a token starts.

What is added and why (detect-secrets 1.5):

- private keys: theirs sees the BEGIN line only; the body is the secret;
- `Authorization` headers and bearer tokens; passwords in URLs with characters that theirs leaves out;
- tokens by their issuer's prefix: Anthropic and newer OpenAI, `github_pat_`, Google, npm, Stripe's test keys, …;
- assignments: `password = …`, `"api_key": "…"`, `the password is …`, with a value that looks real.

The rule for assignments: the name ends in a word like `password`, `secret`, `token` or `api_key` and is followed by
`=`, `:`, `:=` or `=>`. The value is one word (bare or in quotes) of at least 8 characters (6 in quotes) that mixes
letters with digits or with signs (`!@#$%^&*`). What stands for a secret instead of being one stays: variables
(`$DB_PASS`, `<token>`, `settings.password`, `MY_SECRET_V2`), calls, paths, URLs, addresses, versions, dates, names
of algorithms, stock words (`changeme`), asterisks, and slugs (`gpt-4o-mini`) unless a password is named. With `is`
in place of the sign only passwords count, since `the token is …` is prose. A UUID or a digest stays wherever it
stands, except as the value of such an assignment: keys do come as UUIDs.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple


class Span(NamedTuple):
    """A secret's place in a text: characters `start` to `end` (exclusive), and what it is."""

    start: int
    end: int
    kind: str


_MAX_KEY = 65_536
"""Characters between BEGIN and END of a private key; an 8192 bit RSA key has 6,500, a PGP block may have more."""

_TOKENS: tuple[tuple[str, str, re.Pattern[str]], ...] = tuple(
    (kind, hint, re.compile(rf"(?<![A-Za-z0-9_-])(?:{pattern})"))
    for kind, hint, pattern in (
        ("API Key", "sk-", r"sk-[A-Za-z0-9_-]{20,512}"),  # OpenAI, Anthropic, OpenRouter, …
        ("GitHub Token", "github_pat_", r"github_pat_[A-Za-z0-9_]{22,255}"),
        ("Google API Key", "AIza", r"AIza[A-Za-z0-9_-]{35}"),
        ("Google OAuth Token", "ya29.", r"ya29\.[A-Za-z0-9_-]{20,512}"),
        ("Google OAuth Token", "GOCSPX-", r"GOCSPX-[A-Za-z0-9_-]{20,64}"),
        ("npm Token", "npm_", r"npm_[A-Za-z0-9]{36}"),
        ("Stripe Access Key", "_test_", r"[rs]k_test_[A-Za-z0-9]{16,255}"),
        ("Stripe Access Key", "_live_", r"[rs]k_live_[A-Za-z0-9]{16,255}"),
        ("Stripe Access Key", "whsec_", r"whsec_[A-Za-z0-9]{16,255}"),
        ("Slack Token", "xox", r"xox[abeoprs]-[A-Za-z0-9-]{20,255}"),
        ("Slack Token", "xapp-", r"xapp-\d-[A-Za-z0-9-]{20,255}"),
        ("Hugging Face Token", "hf_", r"hf_[A-Za-z0-9]{30,128}"),
        ("API Key", "gsk_", r"gsk_[A-Za-z0-9]{30,128}"),
        ("API Key", "-", r"(?:xai|pplx|nvapi)-[A-Za-z0-9_-]{40,128}"),
        ("DigitalOcean Token", "_v1_", r"do[opr]_v1_[a-f0-9]{64}"),
        ("Docker Token", "dckr_pat_", r"dckr_pat_[A-Za-z0-9_-]{20,64}"),
        ("Vault Token", "hv", r"hv[sb]\.[A-Za-z0-9_-]{24,255}"),
        ("Grafana Token", "gl", r"gl(?:sa|c)_[A-Za-z0-9_=]{32,255}"),
        ("Linear API Key", "lin_api_", r"lin_api_[A-Za-z0-9]{32,64}"),
        ("Notion Token", "_", r"(?:secret|ntn)_[A-Za-z0-9]{40,64}"),
        ("Shopify Token", "shp", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
        ("Atlassian Token", "ATATT3", r"ATATT3[A-Za-z0-9_=-]{60,255}"),
        ("Terraform Token", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,80}"),
        ("Postman API Key", "PMAK-", r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
        ("Supabase Key", "sb", r"sb[ps]_(?:secret_)?[A-Za-z0-9_-]{30,64}"),
        ("Private Key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    )
)
_NPMRC = re.compile(r":_authToken=[ \t]{0,8}([A-Za-z0-9_-]{30,255})")
_BEARER = re.compile(r"(?i)(?<![a-z0-9_-])bearer[ \t]{1,8}(?=[a-z0-9._~+/-]{16})")
_HEADER = re.compile(
    r"(?i)(?<![a-z0-9_])(?:proxy-|x-)?authorization[\"']?[ \t]{0,8}[:=][ \t]{0,8}[\"']?(?:[a-z]{3,16}[ \t]{1,8}+)?"
)
_CREDENTIALS = re.compile(r"[A-Za-z0-9._~+/-]{8,8192}+={0,2}")
_CASES = re.compile(r"[a-z0-9][A-Z]|=$")
_URL_PASSWORD = re.compile(r"://[^\s/:@\"'<>]{0,255}:([^\s/@\"'<>]{1,255})@(?=[\w\[])")

_PEM = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_LONG_RUN = re.compile(r"[A-Za-z0-9+/=]{16,}+")
_KEY_BODY = re.compile(r"(?:[A-Za-z0-9+/=]{17,}+|[\s\\\"'>|]|\\[nr])*+")
_PUTTY = re.compile(r"Private-Lines: \d{1,4}\r?\n((?:[A-Za-z0-9+/=]{1,128}+(?:\r?\n|\Z))+)")

_NAME = (
    r"(?:passwords?|passwd|passphrase|passcode|(?<![a-z])pwd|(?<=[_-])pass|(?<=[_-])pw|secret|token"
    r"|(?:api|access|auth|secret|private|encryption|signing|account|master)[_-]?key|credentials?)"
)
_OF = r"(?:[_-](?:base|prod|production|staging|stage|dev|test|live|local|old|new|main|primary|secondary|backup|v?\d{1,4})){0,2}"
"""What a name may end in: SECRET_KEY_BASE, PASSWORD_PROD."""
_ASSIGNED = re.compile(rf"(?i){_NAME}{_OF}(?:\\?[\"'`]\]?|\*\*)?[ \t]{{0,8}}(?::=|=>|[:=])(?:\*\*)?[ \t]{{0,8}}")
_TOLD = re.compile(r"(?i)(?:password|passwd|passphrase|passcode|pwd) (?:is|was)[ \t]{0,4}(?::[ \t]{0,4})?")
_QUOTED = re.compile(
    r"""\\(["'`])((?:(?!\\\1)\S){6,512}+)(?=\\\1)"""  # inside a string of JSON
    r"""|(["'`])((?:\\\S|(?!\3)[^\s\\]){6,512}+)(?=\3)"""
)
_BARE = re.compile(r"[^\s\"'`<>,;|]{8,512}+(?![^\s\"'`<>,;|])")
_LONG_VALUE = re.compile(r"[\"'`]?([A-Za-z0-9_.~+/=-]{500,}+)")
_MAX_WORD = 128
"""Characters; what is longer is no variable, path or call that stands for a secret."""

_STAND_IN = re.compile(
    r"""(?x)
    [a-z0-9_.-]{1,24}(?:/[a-z0-9_.-]{1,32})+/? |                                       # k8s/prod/db-creds
    ![A-Za-z/:!-]* | \$(?:[A-Za-z_]+|[A-Z0-9_]+|[({].*) | [<\[].* | \{.*\}\w* | %.*%                    # variables, templates
    | [A-Za-z_.]\w*(?:\.\w+)*[\[(].* | (?i:.*[*.•…x]{4}.*) | .*://.*                    # calls, masks, URLs
    | (?:~|\.{1,2})/.* | /(?=.{0,30}$|.*[._-])[\w./-]* | [\w./-]+\.(?:pem|key|txt|json|ya?ml|toml|env|py|[jt]s|md|pub|crt|gpg)
    | [\w.+-]+@[\w-]+(?:\.[\w-]+)+ | v?\d+(?:\.\d+)+.* | \d{4}-\d\d-\d\d.*              # addresses, versions, dates
    | [a-z_][a-z_0-9]{0,24}(?:\.[a-z_][a-z_0-9]{0,24})+ | [A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+ # settings.password, DB_PASS_2
    | (?i:(?:sha|md|argon|bcrypt|scrypt|pbkdf|base|aes|rsa|ed|hs|rs|utf|oauth|hmac)-?\d.{0,12}|x-?(?:509|25519|448|86|64)(?:[_-](?:64|v\d))?)
    | (?i:(?:your|my|the|some|test|new|old)?[_-]?(?:changeme|example|placeholder|password|secret|dummy)
        [_-]?(?:key|token|value|here|password)?\d?)
    """
)
SLUG = re.compile(r"(?!(?:\D*\d){4})[a-z0-9]+(?:[-_][a-z0-9]+)+")


def looks_real(value: str) -> bool:
    """True when a value that stands where a secret may stand is one, not a word, a variable or a template."""
    if len(set(value)) < 4 or (len(value) <= _MAX_WORD and _STAND_IN.fullmatch(value)):
        return False
    return any(char.isalpha() for char in value) and any(char.isdigit() or char in "!@#$%^&*" for char in value)


def stands_in(password: str) -> bool:
    """True for what stands for a password in a URL. Anything else there is one, however plain it looks."""
    return len(set(password)) < 2 or _URL_STAND_IN.fullmatch(password) is not None


_URL_STAND_IN = re.compile(r"(?i)[\[<{$%*].*|x+|(?:your)?[_-]?(?:pass|passwd|password|pw|pwd|secret|token)")


def spans(text: str) -> Iterator[Span]:
    """Every secret that our own rules find; spans may overlap and come in no order."""
    yield from private_keys(text)
    for kind, hint, pattern in _TOKENS:
        for found in pattern.finditer(text) if hint in text else ():
            # a token of letters alone (Hugging Face) mixes them; words behind a prefix do not
            if any(char.isdigit() for char in found[0]) or _CASES.search(found[0]):
                yield Span(found.start(), found.end(), kind)
    for found in _NPMRC.finditer(text):
        yield Span(*found.span(1), "npm Token")
    for found in _URL_PASSWORD.finditer(text):
        if not stands_in(found[1]):
            yield Span(*found.span(1), "Basic Auth Credentials")
    for pattern in (_BEARER, _HEADER):
        for found in pattern.finditer(text):
            value = _CREDENTIALS.match(text, found.end())
            if value and (looks_real(value[0]) or (pattern is _HEADER and _CASES.search(value[0]))):
                yield Span(value.start(), value.end(), "Authorization")
    yield from _assignments(text)


def _assignments(text: str) -> Iterator[Span]:
    for pattern in (_ASSIGNED, _TOLD):
        reach = 0
        for found in pattern.finditer(text):
            # The value is looked at, not consumed: in `password: token=…` the second name has its own turn.
            place = _value(text, found.end()) if found.end() >= reach else None
            if place is None:
                continue
            # Nothing real hides in a long value that is not: without this a hostile text is read again for each name.
            reach = place[1] if place[1] - place[0] > _MAX_WORD else reach
            value, password = text[slice(*place)], "pass" in found[0].casefold()
            # `token: gpt-4o-mini` is a name; a password may well look like one.
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


def private_keys(text: str) -> Iterator[Span]:
    """Private keys, which may be longer than any other secret."""
    marks = list(_PEM.finditer(text))
    ends = [mark.start() for mark in marks]
    for mark in marks:
        if mark[1] == "END":
            continue
        following = bisect_left(ends, mark.end())
        close = marks[following] if following < len(marks) else None
        if close and close[1] == "END" and close.start() - mark.end() <= _MAX_KEY:
            body = text[mark.end() : close.start()]
            # Prose between two markers that are only mentioned is no key: most of a key is long runs.
            if 2 * sum(len(run) for run in _LONG_RUN.findall(body)) > len(body):
                yield Span(mark.start(), close.end(), "Private Key")
        elif (body_end := _KEY_BODY.match(text, mark.end())) and len(body_end[0].strip(" \r\n\t\\\"'>|")) >= 40:
            # A key that was cut off is as secret as a whole one; blank space after it is not part of it.
            yield Span(mark.start(), mark.end() + len(body_end[0].rstrip()), "Private Key")
    for putty in _PUTTY.finditer(text):
        yield Span(putty.start(1), putty.start(1) + len(putty[1].rstrip()), "Private Key")
