"""The fields and edges of a note as YAML: how they are written, which forms are read, and warnings for invalid values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from ormahd.errors import InvalidNote
from ormahd.model.node import (
    MAX_SPACE,
    MAX_TAG,
    MAX_TITLE,
    EdgeType,
    NodeType,
    NoteGuard,
    NoteStanding,
    Tier,
    evidence_fault,
    glob_fault,
    is_node_id,
)
from ormahd.note.frontmatter import Frontmatter, is_null, scalar
from ormahd.note.markdown import conflict_line, link_target, wikilinks
from ormahd.note.values import SAID_IN, Note, NoteLink, Problem, edge_key

_TIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[Tt]|[ \t]+)(\d{1,2}:\d{2}(?::\d{2}(?:\.\d*)?)?)[ \t]*(Z|z|[-+]\d{1,2}(?::?\d{2})?)?"
)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_DIGITS = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
"""Number of digits -> format of a time that is written in digits only, as Zettelkasten plug-ins name notes."""
_NAMED = re.compile(r"(\d{4})[-._](\d{2})[-._](\d{2})(?![\d])|(\d{14}|\d{12}|\d{8})(?!\d)")


def read_time(text: str) -> datetime:
    """Return a date or time as UTC; a text without a zone is taken as UTC. It is read as ISO 8601, or in close variants
    (`2026-11-21 8:00`, `20261121`).

    Raises ValueError for other texts.
    """
    text = text.strip().removeprefix("[[").removesuffix("]]")
    if _DAY.fullmatch(text):
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    if text.isascii() and text.isdigit() and len(text) in _DIGITS:
        return datetime.strptime(text, _DIGITS[len(text)]).replace(tzinfo=UTC)
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(text)
    day, clock, zone = found.groups()
    if clock[1] == ":":
        clock = f"0{clock}"
    if zone is None or zone in "Zz":
        zone = "+00:00"
    elif len(zone) < 5:
        zone = f"{zone[0]}{zone[1:].zfill(2)}:00"
    try:
        return datetime.fromisoformat(f"{day}T{clock.removesuffix('.')}{zone}").astimezone(UTC)
    except OverflowError as exc:
        raise ValueError(text) from exc


def named_time(name: str) -> datetime | None:
    """Return the date that a file's name begins with (`2024-05-01 Standup`, `202405011230`), or None."""
    found = _NAMED.match(name)
    if found is None:
        return None
    try:
        year, month, day, digits = found.groups()
        when = read_time(digits) if digits else datetime(int(year), int(month), int(day), tzinfo=UTC)
    except ValueError:
        return None
    return when if 1900 <= when.year < 2100 else None


def one_line(text: str) -> str:
    """Return the text on one line, with single spaces between its words."""
    return " ".join(text.split())


def as_utc(value: datetime) -> datetime:
    """Return the time in UTC. A time without a zone is taken as UTC."""
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def clean_tag(text: str) -> str:
    """Return a tag on one line and without leading `#`."""
    return one_line(text).lstrip("# ")


# Values as YAML on one line


def prose(value: str, *, flow: bool = False) -> str:
    """Return a text as a YAML value. `flow`: whether it is placed inside `[...]` or `{...}`. Raises InvalidNote for a
    NUL character."""
    if "\0" in value:
        raise unfit_error(value)
    return scalar(value, flow=flow)


def moment(value: datetime) -> str:
    """Return the time in UTC as text, such as `2026-11-21T20:00:00Z`; with microseconds only if they are not zero."""
    return as_utc(value).replace(tzinfo=None).isoformat() + "Z"


def flow_list(values: Iterable[str]) -> str:
    """Return the texts as a YAML list in brackets."""
    return f"[{', '.join(scalar(value, flow=True) for value in values)}]"


def unfit_error(text: str) -> InvalidNote:
    """Return the error that says why a note cannot contain this text."""
    if "\0" in text:
        return InvalidNote("the text holds a NUL character", hint="remove it")
    if conflict_line(text):
        hint = "put the example into a fenced code block (```)"
        return InvalidNote("the text holds git's conflict markers, which a note cannot", hint=hint)
    return InvalidNote("the text holds half of a character (a lone surrogate)", hint="send it as valid Unicode")


class Field(NamedTuple):
    """How a field of `Note` is written."""

    key: str
    clean: Callable[[Any], Any]
    """Returns a value of a caller as `parse` would return it. Raises ValueError."""
    render: Callable[[Any], str]
    """Returns the YAML of a clean value."""


def _clean_text(value: str) -> str | None:
    """Return the text; None if it is blank."""
    return value if value.strip() else None


def _clean_list(clean: Callable[[str], str], values: Iterable[str]) -> tuple[str, ...]:
    """Return the values, each cleaned by `clean`, without empty ones and duplicates."""
    return tuple(dict.fromkeys(filter(None, map(clean, values))))


FIELDS: Mapping[str, Field] = {
    "id": Field("id", str, str),
    "type": Field("type", NodeType, str),
    "tier": Field("tier", Tier, str),
    "space": Field("space", one_line, prose),
    "everywhere": Field("global", bool, lambda _: "true"),
    "title": Field("title", one_line, prose),
    "tags": Field("tags", partial(_clean_list, clean_tag), flow_list),
    "source": Field("source", one_line, prose),
    "said_in": Field("from", one_line, prose),
    "confidence": Field("confidence", float, repr),
    "created": Field("created", as_utc, moment),
    "updated": Field("updated", as_utc, moment),
    "valid_until": Field("valid_until", as_utc, moment),
    "outdated_reason": Field("outdated_reason", _clean_text, prose),
    "standing": Field("standing", NoteStanding, str),
    "because": Field("because", _clean_text, prose),
    "paths": Field("paths", partial(_clean_list, one_line), flow_list),
    "commands": Field("commands", partial(_clean_list, one_line), flow_list),
    "guard": Field("guard", NoteGuard, str),
    "evidence": Field("evidence", partial(_clean_list, one_line), flow_list),
    "aliases": Field("aliases", partial(_clean_list, one_line), flow_list),
}
"""Field of `Note` -> how it is written, in the order in which the keys stand."""
LISTS = tuple(name for name, field in FIELDS.items() if field.render is flow_list)
SINGLE = tuple(name for name in FIELDS if name not in {"id", "everywhere", "said_in", *LISTS})
"""Fields with one value that merge, and that a diff shows."""

Choice = TypeVar("Choice", bound=StrEnum)
T = TypeVar("T")

OWN = "ormah_"
"""Prefix of Ormah's key, used if the key without it holds an unrelated value: `type: meeting`, `ormah_type:
decision`."""
OTHER_NAMES = {
    "created": ("created_at", "date created", "creation date", "date"),
    "updated": ("updated_at", "date modified", "date updated", "last modified", "modified"),
}
"""Field -> keys that other programs use for it, most common first. Case, spaces, `-` and `_` are ignored."""

_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
_FRACTION = re.compile(r"(\d+(?:\.\d+)?)[ ]?(?:%|/[ ]?(\d+))")
_SEPARATORS = re.compile(r"[,\s]+")
_COMMA = re.compile(",")
QUOTE_CHARACTERS = 40
_YES = frozenset({"true", "yes", "on"})
EDGES: dict[str, EdgeType] = {str(edge): edge for edge in EdgeType}
ORDER = (*(own + field.key for field in FIELDS.values() for own in ("", OWN)), *EDGES, "edges")
"""Order of the keys. A new key is inserted after the nearest preceding one that the note has."""
KNOWN = frozenset(ORDER) - {"from", OWN + "from"}
"""All frontmatter keys that Ormah uses, apart from `from`, which it writes only once."""


class InvalidValue(Exception):
    """Raised for a value that is invalid for its key. `what`: what is wrong; `node`: where; `mend`: how to repair
    it."""

    def __init__(self, what: str, node: Node, mend: str) -> None:
        super().__init__(what)
        self.what, self.node, self.mend = what, node, mend


class Item(NamedTuple):
    """One item of a list property, such as a tag or the target of an edge."""

    value: str
    text: str
    """The text from which the value was parsed."""
    node: Node
    alone: bool
    """Whether the node contains only this item."""


def _number(value: str) -> float | None:
    """Return the number that a text means in an unambiguous form, such as `0.9`, `0,9`, `90%` or `9/10`; None for other
    texts."""
    value = value.replace(",", ".", 1)
    if _NUMBER.fullmatch(value):
        return float(value)
    found = _FRACTION.fullmatch(value)
    if found is None:
        return None
    whole = 100.0 if found[2] is None else float(found[2])
    return float(found[1]) / whole if whole else None


def _plain_key(key: str) -> str:
    """Return a key in the form in which keys of other programs are compared: in lower case, without spaces, `-` and
    `_`."""
    return re.sub(r"[\s_-]+", "", key).casefold()


class NoteReader:
    """Reads the fields and edges of one frontmatter block. For an invalid value it adds a warning to `problems` and
    returns the default."""

    def __init__(self, block: Frontmatter) -> None:
        self.block = block
        self.problems: list[Problem] = []
        self.taken: list[str] = []
        """Keys of Ormah that hold an unrelated value, which is the person's."""

    def warn(self, what: str, node: Node, mend: str) -> None:
        """Add a warning to `problems`. `what`: what is wrong at `node`; `mend`: how to repair it."""
        line = self.block.text.count("\n", 0, self.block.from_(node)) + 1
        self.problems.append(Problem("warning", what, line, mend))

    def must_be_error(self, key: str, what: str, node: Node, mend: str) -> InvalidValue:
        """Return the error that says that the value of a key must be `what`. `node`: the value; `mend`: how to repair
        it."""
        return InvalidValue(f"{key} must be {what}, it says {self.quote(node)}", node, mend)

    def quote(self, node: Node) -> str:
        """Return the text of a node on one line, cut to `QUOTE_CHARACTERS`, for a message."""
        raw = one_line(node.value if isinstance(node, ScalarNode) else self.block.raw(node))
        return raw if len(raw) <= QUOTE_CHARACTERS else f"{raw[:QUOTE_CHARACTERS]}…"

    def fields(self, otherwise: Note) -> dict[str, Any]:
        """Return the values of all fields that `Note` has, apart from id, links and text. `otherwise`: a note with
        the values that count where the frontmatter has none."""
        return {
            "type": self.field("type", partial(self.word, NodeType), otherwise.type, quiet=True),
            "tier": self.field("tier", partial(self.word, Tier), otherwise.tier),
            "space": self.space(otherwise.space),
            "everywhere": self.everywhere(),
            "title": self.field("title", self.title, otherwise.title),
            "tags": tuple(dict.fromkeys(item.value for item in self.tags())),
            "source": one_line(self.field("source", self.text, None) or otherwise.source),
            "confidence": self.field("confidence", self.share, otherwise.confidence),
            "created": self.moment("created") or otherwise.created,
            "updated": self.moment("updated"),
            "valid_until": self.field("valid_until", self.time, None),
            "outdated_reason": self.field("outdated_reason", self.text, None),
            "standing": self.field("standing", partial(self.word, NoteStanding), None, quiet=True),
            "because": self.field("because", self.text, None),
            "paths": tuple(dict.fromkeys(item.value for item in self.globs("paths"))),
            "commands": tuple(dict.fromkeys(item.value for item in self.globs("commands"))),
            "guard": self.field("guard", partial(self.word, NoteGuard), None),
            "evidence": tuple(dict.fromkeys(item.value for item in self.globs("evidence"))),
            "aliases": tuple(dict.fromkeys(item.value for item in self.aliases())),
            "said_in": self.said_in(),
        }

    def field(self, key: str, read: Callable[[str, Node], T | None], otherwise: T, *, quiet: bool = False) -> T:
        """Return the value of the key with the prefix `ormah_`, else that of the key itself, else `otherwise`.

        If `read` raises InvalidValue for one of the two keys, the value is taken for the person's own: the key is added
        to `taken`, with a warning. There is no warning for the key itself if `quiet` is set, or if the prefixed key has
        a value.
        """
        value: T | None = None
        for name in (OWN + key, key):
            if name not in self.block.pairs or is_null(node := self.block.pairs[name][1]):
                continue
            try:
                found = read(name, node)
                value = found if value is None else value
            except InvalidValue as wrong:
                self.taken.append(name)
                if name != key or (value is None and not quiet):
                    self.warn(wrong.what, wrong.node, wrong.mend)
        return otherwise if value is None else value

    # Single values. Each returns None for an empty value, and raises InvalidValue; `key` is for the error.

    def text(self, key: str, node: Node) -> str | None:
        """Return a value as text, whatever its YAML type."""
        if is_null(node):
            return None
        if isinstance(node, SequenceNode):
            link = self.unquoted_link(node)
            if link is not None:
                return f"[[{link}]]"
            if node.value and all(isinstance(item, ScalarNode) for item in node.value):
                return ", ".join(filter(None, (self.text(key, item) for item in node.value))) or None
        if not isinstance(node, ScalarNode):
            raise self.must_be_error(key, "one text", node, "write a single text, in quotes")
        value: str = node.value
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise InvalidValue(f"{key} holds half of a character", node, "remove the \\ud… escape") from None
        if "\0" in value:
            raise InvalidValue(f"{key} holds a NUL character", node, "remove it")
        return value if value.strip() else None

    def single(self, key: str, what: str, node: Node, mend: str) -> str | None:
        """Return a value as text on one line; None if it is empty. `what`: what the value must be, for the error about
        a list of several."""
        if isinstance(node, SequenceNode) and len(node.value) > 1:
            raise self.must_be_error(key, what, node, mend)
        return one_line(self.text(key, node) or "") or None

    def node_id(self, key: str, node: Node) -> str | None:
        """Return an id; None if the value is empty. Raises InvalidValue for anything else, such as the number of a
        Zettelkasten."""
        value = (self.text(key, node) or "").strip().lower()
        if value and not is_node_id(value):
            raise self.must_be_error(key, "a UUID", node, "remove the line")
        return value or None

    def title(self, key: str, node: Node) -> str | None:
        """Return a title on one line, cut to `MAX_TITLE` characters with a warning; None if it is empty."""
        value = one_line(self.text(key, node) or "")
        if len(value) > MAX_TITLE:
            self.warn(f"title has {len(value)} characters, only the first {MAX_TITLE} are used", node, "shorten it")
        return value[:MAX_TITLE].rstrip() or None

    def word(self, kinds: type[Choice], key: str, node: Node) -> Choice | None:
        """Return the member of `kinds` that the value names, in any case; None if the value is empty."""
        value = self.text(key, node)
        try:
            return None if value is None else kinds(value.strip().lower())
        except ValueError:
            mend = "write one of these words, or remove the line"
            raise self.must_be_error(key, f"one of {', '.join(kinds)}", node, mend) from None

    def share(self, key: str, node: Node) -> float | None:
        """Return a number between 0 and 1; also accepts `90%`, `9/10` or `0,9`."""
        value = self.text(key, node)
        if value is None:
            return None
        number = _number(value.strip())
        if number is None or not 0.0 <= number <= 1.0:
            raise self.must_be_error(key, "between 0 and 1", node, "write a number such as 0.8, or remove the line")
        return number + 0.0  # -0 is 0

    def time(self, key: str, node: Node) -> datetime | None:
        """Return a time; None if the value is empty."""
        value = self.single(key, "one time", node, "write one, as 2026-11-21")
        try:
            return None if value is None else read_time(value)
        except (ValueError, OverflowError):
            mend = "write it as 2026-11-21 or 2026-11-21T20:00:00Z, or remove the line"
            raise self.must_be_error(key, "a date or a time", node, mend) from None

    # Fields that depend on more than their own key

    def moment(self, key: str) -> datetime | None:
        """Return the time under a key; if there is none, the time under a key that other programs use for the same
        field (`OTHER_NAMES`)."""
        found = self.field(key, self.time, None)
        if found is not None:
            return found
        plain = {_plain_key(name): node for name, (_, node) in self.block.pairs.items() if name != key}
        for name in (key, *OTHER_NAMES[key]):
            node = plain.get(_plain_key(name))
            try:
                found = None if node is None else self.time(name, node)
            except InvalidValue:
                continue  # another program's key: an invalid value is no error
            if found is not None:
                return found
        return None

    def space(self, otherwise: str | None) -> str | None:
        """Return the note's space. If the key `space` is absent: `otherwise`, the folder's space. If it is empty or
        `global`: None."""
        value = self.field("space", self._space, None)
        if value is None:
            emptied = any(key in self.block.pairs and key not in self.taken for key in (OWN + "space", "space"))
            return None if emptied else otherwise
        return None if value.casefold() == "global" else value

    def _space(self, key: str, node: Node) -> str | None:
        """Return the name of a space, as it is written; None if the value is empty."""
        value = self.single(key, "one project", node, "name one project")
        if value in {".", ".."}:
            raise InvalidValue(f"{key} cannot be {value!r}", node, "name a project, or remove the line")
        if value and len(value) > MAX_SPACE:
            what = f"{key} has {len(value)} characters, at most {MAX_SPACE} are allowed"
            raise InvalidValue(what, node, "shorten it")
        return value

    def everywhere(self) -> bool:
        """Return whether the key `global` has the value yes, true or on. Any other value is the person's."""
        node = self.block.get("global")
        return isinstance(node, ScalarNode) and node.value.strip().lower() in _YES

    def said_in(self) -> str | None:
        """Return the turn that the note was extracted from, as `<session>#<turn>`; None if `from` is absent or holds
        anything else."""
        value = self.field("from", self.text, None)
        return value if value is not None and SAID_IN.fullmatch(value) else None

    # Lists and edges

    def unquoted_link(self, node: Node) -> str | None:
        """Return the text in `[[x]]` without quotes, which YAML parses as a nested list; None for other nodes."""
        if not isinstance(node, SequenceNode) or not node.flow_style or len(node.value) != 1:
            return None
        if not isinstance(node.value[0], SequenceNode):
            return None
        raw = self.block.raw(node)
        inside = raw[2:-2] if raw.startswith("[[") and raw.endswith("]]") else "["
        return None if "[" in inside or "]" in inside else inside.strip()

    def items(self, key: str, node: Node | None, split: re.Pattern[str] | None = None) -> list[Item]:
        """Return the values of a list property: the items of a list, or the parts of one text (split at `split`, if
        given). Raises InvalidValue."""
        if node is None or is_null(node):
            return []
        if isinstance(node, SequenceNode) and self.unquoted_link(node) is None:
            texts = [(self.text(key, item), item) for item in node.value]
            return [Item(text, text, item, True) for text, item in texts if text is not None]
        text = self.text(key, node)
        parts = [] if text is None else [part for part in split.split(text) if part.strip()] if split else [text]
        return [Item(part, part, node, len(parts) == 1) for part in parts]

    def tags(self) -> list[Item]:
        """Return the tags of the note as items. Those that are too long are cut, with a warning."""
        out: list[Item] = []
        for item in self.field("tags", lambda key, node: self.items(key, node, _SEPARATORS), list[Item]()):
            tag = clean_tag(item.value)
            if len(tag) > MAX_TAG:
                what = f"a tag has {len(tag)} characters, only the first {MAX_TAG} are used"
                self.warn(what, item.node, "shorten it")
                tag = clean_tag(tag[:MAX_TAG])
            if tag:
                out.append(item._replace(value=tag))
        return out

    def aliases(self) -> list[Item]:
        """Return the aliases of the note as items, each on one line."""
        found = self.field("aliases", lambda key, node: self.items(key, node, _COMMA), list[Item]())
        return [item._replace(value=one_line(item.value)) for item in found]

    def globs(self, key: str) -> list[Item]:
        """Return the valid items of `paths`, `commands` or `evidence` (`key`). Invalid items are left out, with a
        warning."""
        out: list[Item] = []
        find_fault = evidence_fault if key == "evidence" else glob_fault
        for item in self.field(key, self.items, list[Item]()):
            value = one_line(item.value)
            if fault := find_fault(value):
                what = f"{value[:QUOTE_CHARACTERS]!r} under {key} {fault}"
                self.warn(what, item.node, "correct it, or remove it")
            elif value:
                out.append(item._replace(value=value))
        return out

    def targets(self, edge: str) -> list[Item]:
        """Return the targets of a property for edges, written as wikilinks or as plain names. `edge`: the property's
        key. Raises InvalidValue."""
        out: list[Item] = []
        for item in self.items(edge, self.block.get(edge)):
            found = wikilinks(item.text) if "[[" in item.text else [(link_target(item.text), item.text)]
            alone = item.alone and len(found) == 1
            out.extend(Item(name, text, item.node, alone) for name, text in found if name)
        return out

    def links(self) -> list[NoteLink]:
        """Return the edges that the properties contain, without duplicates, with their details."""
        targets: dict[str, NoteLink] = {}
        for key in [key for key in self.block.pairs if key in EDGES]:
            try:
                for item in self.targets(key):
                    targets.setdefault(edge_key(EDGES[key], item.value), NoteLink(EDGES[key], item.value))
            except InvalidValue as wrong:
                self.warn(wrong.what, wrong.node, 'write a wikilink in quotes: ["[[name of the note]]"]')
        return [replace(self.details.get(key, link), target=link.target) for key, link in targets.items()]

    @cached_property
    def details(self) -> dict[str, NoteLink]:
        """{edge key: the edge with its details}, as written under the key `edges`."""
        out: dict[str, NoteLink] = {}
        node = self.block.get("edges")
        if node is not None and not is_null(node) and not isinstance(node, MappingNode):
            mend = 'write lines such as  "supports:1a2b3c4d": {weight: 0.8}'
            self.warn(f'edges must be lines of "edge:short id", it says {self.quote(node)}', node, mend)
        for key, name, value in self.detail_nodes():
            try:
                if not key:
                    mend = 'write "edge:short id", for example "supports:1a2b3c4d"'
                    raise InvalidValue(f"{self.quote(name)} under edges is no edge", name, mend)
                if key in out:
                    raise InvalidValue(f"{key} stands twice under edges", name, "keep one of the two")
                out[key] = self.detail(key, value)
            except InvalidValue as wrong:
                self.warn(wrong.what, wrong.node, wrong.mend)
        return out

    def detail_nodes(self) -> Iterator[tuple[str, Node, Node]]:
        """Yield `(edge key, key node, value node)` of each line under `edges`; the edge key is empty if the line
        names no edge."""
        node = self.block.get("edges")
        for name, value in node.value if isinstance(node, MappingNode) else ():
            edge, _, target = (name.value if isinstance(name, ScalarNode) else "").partition(":")
            yield edge_key(EDGES[edge], target) if edge in EDGES and target else "", name, value

    def detail(self, key: str, node: Node) -> NoteLink:
        """Return an edge with the details that `node` holds. Raises InvalidValue."""
        if isinstance(node, MappingNode):
            pairs = [(name.value if isinstance(name, ScalarNode) else "", name, value) for name, value in node.value]
        elif isinstance(node, ScalarNode):
            pairs = [] if is_null(node) else [("weight", node, node)]
        else:
            mend = "write weight, created or reason, or remove the line"
            raise self.must_be_error(f"{key} under edges", "a line such as {weight: 0.8}", node, mend)
        readers = {"weight": self.share, "created": self.time, "reason": self.text}
        parts: dict[str, Any] = {}
        for part, name, value in pairs:
            if part in parts:
                raise InvalidValue(f"{part} stands twice under {key}", name, "keep one of the two")
            if part in readers:
                parts[part] = readers[part](f"the weight of {key}" if part == "weight" else f"{part} of {key}", value)
        edge, _, target = key.partition(":")
        return NoteLink(EDGES[edge], target, **{part: value for part, value in parts.items() if value is not None})
