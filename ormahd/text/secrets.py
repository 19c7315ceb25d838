"""Find and redact secrets in texts from agents, hooks and imports, before they are written to a file.

The patterns are those of detect-secrets' plugins for tokens, and those of `ormahd.text.secret_rules`. Its detectors
of entropy and keywords are not used, because in prose they match digests, ids and sentences. Nothing is verified over
the network.

Only the patterns of a plugin are used, because `analyze_line` returns no positions. They are changed so that a token
must begin where a word begins, and runs of blanks are bounded; otherwise hostile text takes hours.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import Final

from msgspec import Struct

from ormahd.model.strength import Pace
from ormahd.text import secret_rules
from ormahd.text.secret_rules import Span

_TOKEN_PLUGINS = {
    "jwt": "JwtTokenDetector",
    "gitlab_token": "GitLabTokenDetector",
    "pypi_token": "PypiTokenDetector",
    "twilio": "TwilioKeyDetector",
    "openai": "OpenAIDetector",
    "square_oauth": "SquareOAuthDetector",
    "sendgrid": "SendGridDetector",
    "discord": "DiscordBotTokenDetector",
    "slack": "SlackDetector",
    "telegram_token": "TelegramBotTokenDetector",
    "mailchimp": "MailchimpDetector",
    "stripe": "StripeDetector",
    "github_token": "GitHubTokenDetector",
    "azure_storage_key": "AzureStorageKeyDetector",
}
"""Module -> class of each plugin whose whole match is the secret."""
_CONTEXT_PLUGINS = {
    "aws": "AWSKeyDetector",
    "artifactory": "ArtifactoryDetector",
    "basic_auth": "BasicAuthDetector",
    "cloudant": "CloudantDetector",
    "ibm_cloud_iam": "IbmCloudIamDetector",
    "ibm_cos_hmac": "IbmCosHmacDetector",
    "softlayer": "SoftlayerDetector",
}
"""Module -> class of each plugin whose match has the secret in its last group; without groups the match is the secret.
`secret_rules` replaces `private_key` and `npm`. `ip_public`, `high_entropy_strings` and `keyword` are not used, because
they match too much in prose.
"""

_HINTS = {
    "jwt": "eyJ", "pypi_token": "pypi-", "openai": "T3BlbkFJ", "square_oauth": "sq0csp-", "sendgrid": "SG.",
    "mailchimp": "-us", "stripe": "k_live_", "azure_storage_key": "AccountKey=", "basic_auth": "://",
}  # fmt: skip
"""Module -> string that a text must contain for the plugin to match. It is tested before the pattern, which is
slower."""
_OF_A_LONG_KEY = frozenset({"cloudant", "ibm_cloud_iam", "ibm_cos_hmac", "softlayer"})
"""Modules whose secrets contain at least 24 letters and digits in a row. Their slow patterns are skipped for texts
without such a run."""
_LONG_KEY = re.compile(r"[A-Za-z0-9_-]{24}", re.IGNORECASE)

WINDOW: Final = 32_000
"""Number of characters of a long text that are searched at once, without margins."""
MARGIN: Final = 8_000
"""Number of characters before and after a window that are searched with it. A label and its value are shorter."""

_WORD_START = r"(?<![A-Za-z0-9_-])"
_WORD_REST = re.compile(r"[A-Za-z0-9_-]*+")
_JWT = re.compile(_WORD_START + r"eyJ[A-Za-z0-9_-]++\.[A-Za-z0-9_-]++[A-Za-z0-9_.+/=-]*+")
_JWT_REST = re.compile(r"[A-Za-z0-9_.+/=-]*+")


class Secret(Struct, frozen=True):
    """A secret that was redacted: its kind, and its line (from 1) in the original text."""

    kind: str
    line: int


class Redacted(Struct, frozen=True):
    """A text without its secrets, and the kind and line of each secret that was found, never the secret itself."""

    text: str
    found: tuple[Secret, ...]


class _Rule(Struct, frozen=True):
    kind: str
    pattern: re.Pattern[str]
    whole: bool  # the match is the secret; else its last group is
    hint: str
    of_a_long_key: bool
    rest: re.Pattern[str]
    accept: Callable[[str], bool]


_PLAIN_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,19}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Matches names that need no search: short ones, and UUIDs."""


def redact(text: str, *, pace: Pace = iter) -> Redacted:
    """Replace every secret in `text` by `[redacted: <kind>]`. Thread-safe. Doing it twice changes nothing more.

    The first call imports detect-secrets. A pattern holds the GIL while it searches, so a long text is searched in
    overlapping sections (windows). `pace`: iterates over the patterns, and may let other threads run between two of
    them.
    """
    found: list[tuple[int, Secret]] = []
    cuts: list[tuple[int, int]] = []
    # Search again, because a token right after a private key now begins a word.
    while spans := list(_joined(sorted(_spans(text, pace), key=_by_place))):
        text, cuts = _cut(text, spans, cuts, found)
    return Redacted(text, tuple(finding for _, finding in sorted(found, key=lambda at: (at[1].line, at[0]))))


@lru_cache(maxsize=1024)
def redact_name(name: str) -> Redacted:
    """Return `redact` of a name, such as that of a space, an agent or a session.

    Results are cached, because every request contains such names.
    """
    return Redacted(name, ()) if _PLAIN_NAME.fullmatch(name) else redact(name)


def _cut(
    text: str, spans: list[Span], cuts: list[tuple[int, int]], found: list[tuple[int, Secret]]
) -> tuple[str, list[tuple[int, int]]]:
    """Replace each span by a marker, and append (position, secret) to `found`. Return (the new text, updated `cuts`).

    `cuts`: (position in the text, number of line ends that the marker there replaced) for each earlier marker. With
    it the lines of secrets are counted as in the original text.
    """
    parts: list[str] = []
    moved: list[tuple[int, int]] = []
    earlier = iter([*cuts, (len(text) + 1, 0)])
    cut = next(earlier)
    line, end, size = 1, 0, 0
    for span in spans:
        while cut[0] <= span.start:
            moved.append((cut[0] + size - end, cut[1]))
            line += cut[1]
            cut = next(earlier)
        line += text.count("\n", end, span.start)
        found.append((span.start, Secret(span.kind, line)))
        parts += (text[end : span.start], f"[redacted: {span.kind}]")
        size += span.start - end + len(parts[-1])
        swallowed = text.count("\n", span.start, span.end)
        while cut[0] < span.end:
            swallowed += cut[1]
            cut = next(earlier)
        moved.append((size, swallowed))
        line += swallowed
        end = span.end
    while cut[0] <= len(text):
        moved.append((cut[0] + size - end, cut[1]))
        cut = next(earlier)
    return "".join(parts) + text[end:], [place for place in moved if place[1]]


def _spans(text: str, pace: Pace) -> Iterator[Span]:
    """Yield the secrets that all rules find in a text. A long text is searched in windows."""
    if len(text) <= WINDOW + MARGIN:
        yield from _spans_of(text, pace)
        return
    yield from secret_rules.private_keys(text)
    yield from _long_tokens(text)
    for start in range(0, len(text), WINDOW):
        first, last = max(0, start - MARGIN), min(len(text), start + WINDOW + MARGIN)
        for span in _spans_of(text[first:last], pace):
            begins, ends = first + span.start, first + span.end
            if start <= begins < start + WINDOW or (begins < start <= ends):
                if ends == last:  # the secret may continue after the window
                    rest = _JWT_REST.match(text, ends)
                    ends = rest.end() if rest else ends
                yield Span(begins, ends, span.kind)


def _long_tokens(text: str) -> Iterator[Span]:
    """Yield JSON web tokens that are longer than `MARGIN`, because no window may contain one as a whole."""
    (rule,) = (rule for rule in _rules() if rule.rest is _JWT_REST)
    at = 0
    while (at := text.find(rule.hint, at)) >= 0:
        token = _JWT.match(text, at)
        if token and len(token[0]) > MARGIN:
            head = rule.pattern.match(token[0])
            if head and rule.accept(head[0]):
                yield Span(*token.span(), rule.kind)
        at = token.end() if token else at + len(rule.hint)


def _spans_of(text: str, pace: Pace) -> Iterator[Span]:
    """Yield the secrets that all rules find in `text`, a short text or a window of a long one. Example keys and names
    of programs are left out."""
    for span in (*_their_spans(text, pace), *secret_rules.spans(text, pace)):
        value = text[span.start : span.end]
        if "EXAMPLE" not in value and not secret_rules.is_product(text, span.end):
            yield span


def _by_place(span: Span) -> tuple[int, int]:
    return span.start, -span.end


def _joined(spans: list[Span]) -> Iterator[Span]:
    """Yield the spans, overlapping ones joined to one with the kind of the first. `spans`: sorted by `_by_place`."""
    current: Span | None = None
    for span in spans:
        if current is not None and span.start < current.end:
            current = Span(current.start, max(current.end, span.end), current.kind)
            continue
        if current is not None:
            yield current
        current = span
    if current is not None:
        yield current


def _their_spans(text: str, pace: Pace) -> Iterator[Span]:
    has_long_key = _LONG_KEY.search(text) is not None
    for rule in pace(_rules()):
        if rule.hint not in text or (rule.of_a_long_key and not has_long_key):
            continue
        reach = 0
        for found in rule.pattern.finditer(text):
            start, end = found.span(0 if rule.whole else found.lastindex or 0)
            if start < reach or not rule.accept(found[0]):
                continue
            while text[start].isspace() or text[start] in '=:"':
                start += 1
            while text[end - 1].isspace() or text[end - 1] == '"':
                end -= 1
            # A pattern of fixed length does not match the end of a longer token, which is secret too.
            rest = rule.rest.match(text, end)
            reach = rest.end() if rest else end
            yield Span(start, reach, rule.kind)


@cache
def _rules() -> tuple[_Rule, ...]:
    rules = []
    for module, name in (*_TOKEN_PLUGINS.items(), *_CONTEXT_PLUGINS.items()):
        plugin = getattr(importlib.import_module(f"detect_secrets.plugins.{module}"), name)
        start = _WORD_START if module in _TOKEN_PLUGINS else ""
        for pattern in plugin.denylist:
            bounded = pattern.pattern.replace("(?: *)", "(?: {0,8})").replace(" +|", " {1,8}|")
            rules.append(
                _Rule(
                    plugin.secret_type,
                    re.compile(f"{start}(?:{bounded})", pattern.flags),
                    module in _TOKEN_PLUGINS,
                    _HINTS.get(module, ""),
                    module in _OF_A_LONG_KEY,
                    _JWT_REST if module == "jwt" else _WORD_REST,
                    _ACCEPT.get(module, lambda _match: True) if module != "jwt" else plugin.is_formally_valid,
                )
            )
    return tuple(rules)


def _password_of_a_url(match: str) -> bool:
    return not secret_rules.stands_in(match.rsplit(":", 1)[1].removesuffix("@"))


_ACCEPT: dict[str, Callable[[str], bool]] = {
    # Many words begin with `AP` and capitals. A credential has digits and small letters too.
    "artifactory": lambda match: any(c.isdigit() for c in match) and any(c.islower() for c in match),
    "basic_auth": _password_of_a_url,
}
