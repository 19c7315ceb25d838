"""Turn values of the daemon into text and HTML for the templates: times, names, markdown, differences of texts.

A memory may hold any text. Everything that a template prints is escaped, with control characters shown as escapes
(`render.safe`); the filters that return HTML escape what they put into it.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup, escape
from rapidfuzz.distance import Indel

from ormahctl.commands.sessions import project
from ormahctl.commands.whisper import SILENCES
from ormahctl.gateway.readable import named
from ormahctl.render import count, is_past, lasting, line, safe, size
from ormahd.api import GraphResult, OpResult

TEXT_CHARACTERS: Final = 60_000
"""Largest number of characters of one text on a page; longer ones are cut, and the page says so."""
DIFF_LINES: Final = 400
COMPARED: Final = 100_000_000
"""Largest product of two numbers of words that are compared: a tenth of a second."""
_CHANGED: Final = re.compile("<(?:ins|del)>(.*?)</", re.DOTALL)
WORDS: Final = re.compile(r"\s+|\w+|[^\w\s]")
COMMON: Final = re.compile(
    "the|and|for|are|was|how|what|who|why|when|where|with|that|this|from|our|you|does|did|has|have|not"
)
"""Matches words of a query that are not marked in its results."""
_PHRASES: Final = tomllib.loads(resources.files(__package__).joinpath("words.toml").read_text("utf-8"))
VERBS: Final[dict[str, str]] = _PHRASES["verbs"]
EVIDENCE: Final[dict[str, str]] = _PHRASES["evidence"]
GIVEN: Final[dict[str, str]] = _PHRASES["given"]
LEARNED: Final = {"ingest", "remember", "import"}


class EvidenceBar(msgspec.Struct, frozen=True):
    """One part of a relevance. `start`, `value`: where it begins and what it adds, from 0 to 1; a negative one takes away."""

    name: str
    start: float
    value: float


class DiffLine(msgspec.Struct, frozen=True):
    """Lines of a difference. `how`: `added`, `removed`, `same`, `where` (a position) or `field`. `html`: their text.
    `words`: number of words that were added or removed."""

    how: str
    html: Markup
    words: int = 0


def environment() -> Environment:
    """Return the environment of all templates, with the filters of this module."""
    found = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=PackageLoader("ormahctl.gateway.page"),
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: safe(value) if type(value) is str else value,
    )
    filters = (when, who, diff, changed_words, marked, named, did, bars, tally, line, count, sentence, size, lasting)
    found.filters |= {function.__name__: function for function in (*filters, project, day)}
    found.filters |= {
        "md": markdown,
        "raw": escape,
        "group": lambda op: "learned" if op.kind in LEARNED else "changed",
        "silence": lambda code: SILENCES.get(code, code),
        "as_shown": lambda how: GIVEN.get(how, how),
        "address": lambda given: urlencode({name: value for name, value in given.items() if value}),
        "twice": lambda text: (text, line(text)),
        "month": lambda text: f"{datetime.fromisoformat(f'{text}-01'):%B %Y}",
        "prompts": lambda day_counts: day_counts.whispers + day_counts.silences,
    }
    found.tests |= {"past": is_past, "editable": editable, "day": re.compile(r"\d{4}-\d\d-\d\d").fullmatch}
    return found


# ---------------------------------------------------------------- times and names


def _local_time(text: str) -> datetime:
    """Return an ISO time in the local time zone. Without an offset it counts as UTC."""
    found = datetime.fromisoformat(text)
    return (found.replace(tzinfo=UTC) if found.tzinfo is None else found).astimezone()


def day(text: str | None) -> str:
    """Return the day of an ISO time for a heading: Today, Yesterday, or `Thursday 26 November`."""
    if not text:
        return "Without a time"
    time, now = _local_time(text), datetime.now().astimezone()
    if time.date() in (now.date(), now.date() - timedelta(days=1)):
        return "Today" if time.date() == now.date() else "Yesterday"
    return f"{time:%A} {time.day} {time:%B}" + (f" {time.year}" if time.year != now.year else "")


def when(text: str | None, style: str = "") -> Markup:
    """Return a `<time>` element: the clock of today, else the day. `style`: `clock` (only the clock), `ago` (its age)."""
    if not text:
        return Markup("–")
    try:
        time, now = _local_time(text), datetime.now().astimezone()
    except ValueError:
        return escape(line(text))
    if style == "ago":
        seconds = (now - time).total_seconds()
        clock = "just now" if seconds < 60 else f"{lasting(seconds)} ago"
    elif style == "clock" or time.date() == now.date():
        clock = f"{time:%H:%M}"
    else:
        clock = f"{time.day} {time:%b}" + (f" {time.year}" if time.year != now.year else f" {time:%H:%M}")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(text, f"{time:%Y-%m-%d %H:%M:%S}", clock)


def who(source: str) -> str:
    """Return a source in words: `You` for `person`, `Claude Code` for `agent:claude-code`, `The job x` for `job:x`."""
    kind, _, name = source.partition(":")
    if source == "person":
        return "You"
    if kind == "job":
        return f"The job {line(name)}"
    return line(name or source).replace("-", " ").title()


def did(op: OpResult) -> tuple[str, str]:
    """Return (the verb, the title) of what an op did, from its subject. For `Update: How we deploy` the title is
    `How we deploy`. A subject of another form is the title, and the verb is a colon."""
    before, _, title = line(op.subject).partition(": ")
    return (f" {VERBS[before]}", title) if before in VERBS else (":", line(op.subject))


def sentence(op: OpResult) -> Markup:
    """Return what an op did as a sentence, with a link to its memory, or to the op if it changed several."""
    single = len(op.nodes) == 1 or (op.kind == "remember" and op.nodes)
    href = f"/m/{op.nodes[0]}" if single else f"/changes/{op.commit[:12]}"
    return Markup('<b>{}</b>{} <a href="{}"><bdi>{}</bdi></a>').format(who(op.source), did(op)[0], href, did(op)[1])


# ---------------------------------------------------------------- texts


def markdown(text: str) -> Markup:
    """Return `text`, which is markdown, as HTML. HTML in it is shown as text, and images become links, so that the
    page loads nothing from elsewhere."""
    return Markup(_MARKDOWN.render(safe(text[:TEXT_CHARACTERS])))  # noqa: S704 - made without raw HTML


def _markdown_renderer() -> MarkdownIt:
    """Return the renderer of markdown: without raw HTML, with images as links, and with links only to the web and to
    mail addresses."""
    found = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": 20}).enable(
        ["table", "strikethrough"]
    )

    def image(tokens: Any, at: int, *_: Any) -> str:
        """Return an image of a text as a link to it."""
        address = str(tokens[at].attrGet("src") or "")
        return str(
            Markup('<a href="{}" rel="noreferrer">picture: {}</a>').format(address, tokens[at].content or address)
        )

    found.renderer.rules["image"] = image  # type: ignore[attr-defined]
    found.validateLink = lambda url: _OUTSIDE.match(url) is not None  # type: ignore[method-assign]
    return found


_OUTSIDE: Final = re.compile("(?:https?|mailto):", re.IGNORECASE)
_MARKDOWN: Final = _markdown_renderer()


def editable(text: str) -> bool:
    """Whether a browser's text field keeps a text as it is: it has no control characters, and is not very long."""
    return len(text) <= TEXT_CHARACTERS * 4 and safe(text) == text


def marked(text: str, query: str) -> Markup:
    """Return a text with the words of `query` in `<mark>`, by the beginnings of words."""
    searched = [word for word in re.findall(r"\w{3,}", query) if not COMMON.fullmatch(word)][:20]
    words = [re.escape(word[: max(4, len(word) - 2)]) for word in searched]
    pieces = re.split(rf"\b((?:{'|'.join(words)})\w*)", safe(text), flags=re.IGNORECASE) if words else [safe(text)]
    return Markup().join(
        Markup("<mark>{}</mark>").format(piece) if at % 2 else escape(piece) for at, piece in enumerate(pieces)
    )


def changed_words(before: str, after: str, least: float = 0.0) -> tuple[Markup, Markup]:
    """Return (the text `before` with removed words in `<del>`, the text `after` with added words in `<ins>`).
    `least`: the part of their words that both must share; with less, or if they are very long, nothing is marked."""
    old, new = (WORDS.findall(safe(text)[:TEXT_CHARACTERS]) for text in (before, after))
    kinds = [{word.casefold() for word in text if word.isalnum()} for text in (old, new)]
    if len(old) * len(new) > COMPARED or len(kinds[0] & kinds[1]) < least * max(map(len, kinds)):
        return escape("".join(old)), escape("".join(new))
    deletes, inserts = [], []
    for step in Indel.opcodes(old, new):
        removed, added = "".join(old[step.src_start : step.src_end]), "".join(new[step.dest_start : step.dest_end])
        marked_removed = Markup("<del>{}</del>").format(removed) if removed else ""
        deletes.append(escape(removed) if step.tag == "equal" else marked_removed)
        inserts.append(escape(added) if step.tag == "equal" else Markup("<ins>{}</ins>").format(added) if added else "")
    return Markup().join(deletes), Markup().join(inserts)


def diff(text: str) -> Iterator[DiffLine]:
    """Yield the lines of a `NoteChange.diff`. Where added lines follow removed lines, the words that differ are
    marked."""
    lines = safe(text).split("\n")[:DIFF_LINES]
    # the fields come first, then the text: after "content:" if there are fields, else from the first line on
    headless = 0 if lines[0].startswith("@@") else len(lines)
    body: int = lines.index("content:") if "content:" in lines else headless
    for field in lines[:body]:
        how = {"+": "added", "-": "removed"}.get(field[:1], "field")
        yield DiffLine(how, escape(field[2:] if how != "field" else field))
    # then one step is a line that is no difference, or all removed lines with the added lines that follow them
    at = body + (lines[body : body + 1] == ["content:"])
    while at < len(lines):
        removed = _lines_with_sign(lines, at, "-")
        added = _lines_with_sign(lines, at + len(removed), "+")
        if not removed and not added:
            how = "where" if lines[at].startswith("@@") else "same"
            yield DiffLine(how, escape("" if how == "where" else lines[at][1:]))
            at += 1
            continue
        pair = changed_words("\n".join(removed), "\n".join(added))
        for how, run, html in (("removed", removed, pair[0]), ("added", added, pair[1])):
            if run:
                changed = _CHANGED.findall(html)
                alone = not (removed and added)
                number = sum(len(phrase.split()) for phrase in changed)
                yield DiffLine(how, escape("\n".join(run)) if alone else html, number)
        at += len(removed) + len(added)


def _lines_with_sign(lines: list[str], at: int, sign: str) -> list[str]:
    """Return the lines from `at` on that begin with `sign`, without it."""
    found = []
    while at < len(lines) and lines[at].startswith(sign):
        found.append(lines[at][1:])
        at += 1
    return found


def bars(parts: Sequence[Mapping[str, Any]]) -> list[EvidenceBar]:
    """Return the parts of a candidate's relevance that change it, in the order in which a whisper computes it. Their
    values add up to the relevance. `parts`: those of the candidate in the trace of `agent.whisper`."""
    levels = [0.0, *(part["relevance"] for part in parts)]
    found = [
        EvidenceBar(EVIDENCE[part["name"]], level, part["relevance"] - level)
        for part, level in zip(parts, levels, strict=False)
    ]
    return [bar for bar in found if round(bar.value, 4)]


def tally(text: str) -> str:
    """Return how many words a `NoteChange.diff` adds and removes, as `+12 −3 words`; "" if it changes none."""
    lines = list(diff(text))
    parts = []
    for sign, how in (("+", "added"), ("−", "removed")):
        number = sum(changed.words for changed in lines if changed.how == how)
        parts += [f"{sign}{number:,}"] if number else []
    return " ".join([*parts, "words"]) if parts else ""


# ---------------------------------------------------------------- maps


def places(node_id: str, nearby: GraphResult) -> dict[str, tuple[float, float]]:
    """Return `{id: (x, y)}` for a small map. The memory `node_id` is in the middle, the memories connected to it are
    in a ring around it, and all others in a second ring. Each has the same direction as on the large map."""
    at = {node.id: (node.x, node.y) for node in nearby.nodes}
    middle = at.pop(node_id, (0.0, 0.0))
    ends = [(edge.source_id, edge.target_id) for edge in nearby.edges]
    beside = {end for pair in ends if node_id in pair for end in pair}
    found = {node_id: (0.0, 0.0)}
    wide, high = 140, min(104, 24 + 10 * len(at))
    rings = [ring for ring in (at.keys() & beside, at.keys() - beside) if ring]
    for number, ring in enumerate(rings, 1):
        towards = sorted((math.atan2(at[node][1] - middle[1], at[node][0] - middle[0]), node) for node in ring)
        for step, (_, node) in enumerate(towards):
            angle = towards[0][0] + 2 * math.pi * step / len(towards)
            part = number / len(rings)
            found[node] = (round(part * wide * math.cos(angle), 1), round(part * high * math.sin(angle), 1))
    return found
