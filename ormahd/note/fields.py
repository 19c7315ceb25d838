"""Read the fields and edges of a note from YAML nodes: accepted forms, dates, and warnings for invalid values."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple, TypeVar

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from ormahd.model.node import MAX_SPACE, MAX_TAG, MAX_TITLE, EdgeType, is_node_id
from ormahd.note.frontmatter import Frontmatter, is_null
from ormahd.note.markdown import link_target, wikilinks
from ormahd.note.values import DEFAULT_WEIGHT, NoteLink, Problem, edge_key

_TIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[Tt]|[ \t]+)(\d{1,2}:\d{2}(?::\d{2}(?:\.\d*)?)?)[ \t]*(Z|z|[-+]\d{1,2}(?::?\d{2})?)?"
)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_DIGITS = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
"""Number of digits -> format of a time that is written in digits only, as Zettelkasten plug-ins name notes."""
_NAMED = re.compile(r"(\d{4})[-._](\d{2})[-._](\d{2})(?![\d])|(\d{14}|\d{12}|\d{8})(?!\d)")


def read_time(text: str) -> datetime:
    """Parse a date or time as ISO 8601 has it, and close variants (`2026-11-21 8:00`, `20261121`). Returns it in UTC;
    without a zone it is taken as UTC.

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


Choice = TypeVar("Choice", bound=StrEnum)
T = TypeVar("T")

OWN = "ormah_"
"""Prefix of Ormah's key, used if the key without it holds an unrelated value: `type: meeting`, `ormah_type:
decision`."""
FIELD_KEYS = ("id", "type", "tier", "space", "global", "title", "tags", "source", "confidence", "created", "updated", "valid_until",
              "outdated_reason")  # fmt: skip
"""Keys of the fields, in the order in which they are written."""
OTHER_NAMES = {
    "created": ("created_at", "date created", "creation date", "date"),
    "updated": ("updated_at", "date modified", "date updated", "last modified", "modified"),
}
"""Field -> keys that other programs use for it, most common first. Case, spaces, `-` and `_` are ignored."""

_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
_OF_A_WHOLE = re.compile(r"(\d+(?:\.\d+)?)[ ]?(?:%|/[ ]?(\d+))")
_SEPARATORS = re.compile(r"[,\s]+")
_SHOWN = 40
_YES = frozenset({"true", "yes", "on"})


class InvalidValue(Exception):
    """Raised for a value that is invalid for its key. `what`: what is wrong; `index`: the value's position in the
    frontmatter block, in characters; `mend`: how to repair it."""

    def __init__(self, what: str, node: Node, mend: str) -> None:
        super().__init__(what)
        self.what = what
        self.index = node.start_mark.index
        self.mend = mend


class Written(NamedTuple):
    """One item of a list property, as it is written in the frontmatter."""

    value: str
    node: Node
    alone: bool
    """Whether the node contains only this item."""
    said: str
    """The text from which the value was parsed."""


def one_line(text: str) -> str:
    return " ".join(text.split())


def as_utc(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def clean_tag(text: str) -> str:
    """Return a tag on one line and without leading `#`."""
    return one_line(text).lstrip("# ")


def _share(value: str) -> float | None:
    """Parse a number from unambiguous forms such as `0.9`, `0,9`, `90%` or `9/10`; None for other texts."""
    value = value.replace(",", ".", 1)
    if _NUMBER.fullmatch(value):
        return float(value)
    found = _OF_A_WHOLE.fullmatch(value)
    if found is None:
        return None
    whole = 100.0 if found[2] is None else float(found[2])
    return float(found[1]) / whole if whole else None


def _plain_key(key: str) -> str:
    return re.sub(r"[\s_-]+", "", key).casefold()


class FieldReader:
    """Reads the fields of one frontmatter block. For an invalid value it adds a warning to `problems` and returns the
    field's default."""

    def __init__(self, block: Frontmatter) -> None:
        self.block = block
        self.problems: list[Problem] = []
        self.taken: list[str] = []
        """Keys of Ormah that hold an unrelated value, which is the person's."""

    def warn(self, what: str, node: Node, mend: str) -> None:
        self.problems.append(Problem("warning", what, self.line(node.start_mark.index), mend))

    def report(self, wrong: InvalidValue) -> None:
        self.problems.append(Problem("warning", wrong.what, self.line(wrong.index), wrong.mend))

    def line(self, index: int) -> int:
        return self.block.text.count("\n", 0, self.block.start + index) + 1

    def shown(self, node: Node) -> str:
        raw = one_line(node.value if isinstance(node, ScalarNode) else self.block.raw(node))
        return raw if len(raw) <= _SHOWN else f"{raw[:_SHOWN]}…"

    def field(self, key: str, read: Callable[[str, Node], T | None], otherwise: T, *, quiet: bool = False) -> T:
        """Return the value of the key prefixed `ormah_`, else of the key itself, else `otherwise`.

        If `read` raises InvalidValue for one of the two keys, that key is taken for one of the person's own: it is
        added to `taken`, with a warning. There is no warning for the key itself if `quiet` is set or the prefixed key
        has a value.
        """
        value: T | None = None
        node, own = self.block.get(key), self.block.get(OWN + key)
        if own is not None and not is_null(own):
            try:
                value = read(OWN + key, own)
            except InvalidValue as wrong:
                self.taken.append(OWN + key)
                self.report(wrong)
        if node is not None and not is_null(node):
            try:
                there = read(key, node)
                value = there if value is None else value
            except InvalidValue as wrong:
                self.taken.append(key)
                if value is None and not quiet:
                    self.report(wrong)
        return otherwise if value is None else value

    def text(self, key: str, node: Node | None) -> str | None:
        """Return a value as text, whatever its YAML type; None for an empty one. `key`: its key, for the error.
        Raises InvalidValue if the value is no text."""
        if node is None or is_null(node):
            return None
        if isinstance(node, SequenceNode):
            link = self.unquoted_link(node)
            if link is not None:
                return f"[[{link}]]"
            if node.value and all(isinstance(item, ScalarNode) for item in node.value):
                return ", ".join(filter(None, (self.text(key, item) for item in node.value))) or None
        if not isinstance(node, ScalarNode):
            raise InvalidValue(
                f"{key} must be one text, it says {self.shown(node)}", node, "write a single text, in quotes"
            )
        value: str = node.value
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise InvalidValue(f"{key} holds half of a character", node, "remove the \\ud… escape") from None
        if "\0" in value:
            raise InvalidValue(f"{key} holds a NUL character", node, "remove it")
        return value if value.strip() else None

    def node_id(self, key: str, node: Node) -> str | None:
        """Return the id in `node`. Raises InvalidValue if it is no id of Ormah but, for example, the number of a
        Zettelkasten. `key`: the id's key, for the error."""
        value = (self.text(key, node) or "").strip().lower()
        if value and not is_node_id(value):
            raise InvalidValue(f"{key} must be a UUID, it says {value[:_SHOWN]}", node, "remove the line")
        return value or None

    def prose(self, key: str) -> str | None:
        return self.field(key, self.text, None)

    def title(self) -> str | None:
        value = self.prose("title")
        if value is None:
            return None
        value = one_line(value)
        if len(value) > MAX_TITLE:
            node = next(node for key in (OWN + "title", "title") if (node := self.block.get(key)) is not None)
            self.warn(f"title has {len(value)} characters, only the first {MAX_TITLE} are used", node, "shorten it")
            value = value[:MAX_TITLE].rstrip()
        return value

    def space(self, otherwise: str | None) -> str | None:
        """Return the note's space. If the key `space` is absent: `otherwise`, the folder's space. If it is empty or
        `global`: None."""
        said = self.field("space", self._space, None)
        if said is None:
            emptied = any(key in self.block.pairs and key not in self.taken for key in (OWN + "space", "space"))
            return None if emptied else otherwise
        return None if said.casefold() == "global" else said

    def _space(self, key: str, node: Node) -> str | None:
        if isinstance(node, SequenceNode) and len(node.value) > 1:
            raise InvalidValue(f"{key} must be one project, it says {self.shown(node)}", node, "name one project")
        value = one_line(self.text(key, node) or "")
        if value in {".", ".."}:
            raise InvalidValue(f"{key} cannot be {value!r}", node, "name a project, or remove the line")
        if len(value) > MAX_SPACE:
            raise InvalidValue(
                f"{key} has {len(value)} characters, at most {MAX_SPACE} are allowed", node, "shorten it"
            )
        return value or None

    def flag(self, key: str) -> bool:
        """Whether a key has the value yes, true or on."""
        node = self.block.get(key)
        return isinstance(node, ScalarNode) and node.value.strip().lower() in _YES

    def choice(self, key: str, kinds: type[Choice], otherwise: Choice, *, quiet: bool = False) -> Choice:
        def one_of(name: str, node: Node) -> Choice | None:
            value = self.text(name, node)
            if value is None:
                return None
            try:
                return kinds(value.strip().lower())
            except ValueError:
                raise InvalidValue(f"{name} must be one of {', '.join(kinds)}, it says {one_line(value)[:_SHOWN]}", node,
                            "write one of these words, or remove the line") from None  # fmt: skip

        return self.field(key, one_of, otherwise, quiet=quiet)

    def share(self, key: str, otherwise: float, node: Node | None) -> float:
        """Return a number between 0 and 1; also accepts `90%`, `9/10` or `0,9`. `otherwise`: the result if the value
        is empty. Raises InvalidValue."""
        value = self.text(key, node)
        if value is None or node is None:
            return otherwise
        number = _share(value.strip())
        if number is None or not 0.0 <= number <= 1.0:
            raise InvalidValue(f"{key} must be between 0 and 1, it says {value.strip()[:_SHOWN]}", node,
                        "write a number such as 0.8, or remove the line")  # fmt: skip
        return number + 0.0  # -0 is 0

    def confidence(self) -> float:
        return self.field("confidence", lambda key, node: self.share(key, 1.0, node), 1.0)

    def time(self, key: str, node: Node | None) -> datetime | None:
        if isinstance(node, SequenceNode) and len(node.value) > 1:
            raise InvalidValue(f"{key} must be one time, it says {self.shown(node)}", node, "write one, as 2026-11-21")
        value = self.text(key, node)
        if value is None or node is None:
            return None
        try:
            return read_time(value)
        except (ValueError, OverflowError):
            raise InvalidValue(f"{key} must be a date or a time, it says {one_line(value)[:_SHOWN]}", node,
                        "write it as 2026-11-21 or 2026-11-21T20:00:00Z, or remove the line") from None  # fmt: skip

    def moment(self, key: str) -> datetime | None:
        """Return the time under a key; if there is none, the time under a key that other programs use for the same
        field (`OTHER_NAMES`)."""
        found = self.field(key, self.time, None)
        if found is not None or key not in OTHER_NAMES:
            return found
        plain = {_plain_key(name): node for name, (_, node) in self.block.pairs.items() if name != key}
        for name in (key, *OTHER_NAMES[key]):
            try:
                found = self.time(name, plain.get(_plain_key(name)))
            except InvalidValue:
                continue  # another program's key: an invalid value is no error
            if found is not None:
                return found
        return None

    def unquoted_link(self, node: Node) -> str | None:
        """Return the text in `[[x]]` without quotes, which YAML parses as a nested list; None for other nodes."""
        if not isinstance(node, SequenceNode) or not node.flow_style or len(node.value) != 1:
            return None
        if not isinstance(node.value[0], SequenceNode):
            return None
        raw = self.block.raw(node)
        inside = raw[2:-2] if raw.startswith("[[") and raw.endswith("]]") else "["
        return None if "[" in inside or "]" in inside else inside.strip()

    def items(self, key: str, *, split: re.Pattern[str] | None = None) -> list[Written]:
        """Return the values of a list property as written: the items of a list, or the parts of one text (split at
        `split`, if given). Raises InvalidValue."""
        node = self.block.get(key)
        if node is None or is_null(node):
            return []
        if isinstance(node, SequenceNode) and self.unquoted_link(node) is None:
            texts = [(self.text(key, item), item) for item in node.value]
            return [Written(text, item, True, text) for text, item in texts if text is not None]
        text = self.text(key, node)
        if text is None:
            return []
        parts = [part for part in split.split(text) if part.strip()] if split else [text]
        return [Written(part, node, len(parts) == 1, part) for part in parts]

    def tags(self) -> list[Written]:
        found = self.field("tags", lambda key, _: self.items(key, split=_SEPARATORS), list[Written]())
        out: list[Written] = []
        for value, node, alone, _ in found:
            tag = clean_tag(value)
            if len(tag) > MAX_TAG:
                self.warn(f"a tag has {len(tag)} characters, only the first {MAX_TAG} are used", node, "shorten it")
                tag = clean_tag(tag[:MAX_TAG])
            if tag:
                out.append(Written(tag, node, alone, tag))
        return out

    def aliases(self) -> tuple[str, ...]:
        try:
            found = self.items("aliases", split=re.compile(","))
        except InvalidValue as wrong:
            self.report(wrong)
            return ()
        return tuple(dict.fromkeys(one_line(value) for value, *_ in found))


EDGES: dict[str, EdgeType] = {str(edge): edge for edge in EdgeType}


class EdgeDetail(NamedTuple):
    """The details of one edge, as written under the key `edges`."""

    weight: float
    created: datetime | None
    reason: str | None


NO_DETAIL = EdgeDetail(DEFAULT_WEIGHT, None, None)


class NoteReader(FieldReader):
    """Reads the edges of a frontmatter block, and like `FieldReader` its fields."""

    def targets(self, edge: str) -> list[Written]:
        """Return the targets that a property for edges names, as wikilinks or as plain names. `edge`: the property's
        key."""
        out: list[Written] = []
        for value, node, alone, _ in self.items(edge):
            said = wikilinks(value) if "[[" in value else [(link_target(value), value)]
            out.extend(Written(name, node, alone and len(said) == 1, text) for name, text in said if name)
        return out

    def links(self) -> list[NoteLink]:
        """Return the edges that the properties contain, without duplicates, with their details."""
        pairs = self.block.pairs
        present = [key for key in pairs if key in EDGES]
        found: dict[str, tuple[EdgeType, str]] = {}
        for key in present:
            try:
                for target, *_ in self.targets(key):
                    found.setdefault(edge_key(EDGES[key], target), (EDGES[key], target))
            except InvalidValue as wrong:
                wrong.mend = 'write a wikilink in quotes: ["[[name of the note]]"]'
                self.report(wrong)
        details = self.details
        return [NoteLink(edge, target, *details.get(key, NO_DETAIL)) for key, (edge, target) in found.items()]

    @cached_property
    def details(self) -> dict[str, EdgeDetail]:
        """Edge key -> details of the edge, as written under the key `edges`."""
        out: dict[str, EdgeDetail] = {}
        node = self.block.get("edges")
        if node is not None and not is_null(node) and not isinstance(node, MappingNode):
            self.report(InvalidValue(f'edges must be lines of "edge:short id", it says {self.shown(node)}', node,
                              'write lines such as  "supports:1a2b3c4d": {weight: 0.8}'))  # fmt: skip
        for key, name, value in self.detail_nodes():
            try:
                if not key:
                    self.warn(f"{self.shown(name)} under edges is no edge", name,
                              'write "edge:short id", for example "supports:1a2b3c4d"')  # fmt: skip
                    continue
                if key in out:
                    raise InvalidValue(f"{key} stands twice under edges", name, "keep one of the two")
                out[key] = self.detail(key, value)
            except InvalidValue as wrong:
                self.report(wrong)
        return out

    def warn_of_unused(self, keys: Collection[str]) -> None:
        for key, name, _ in self.detail_nodes() if keys else ():
            if key and key in keys:
                self.warn(f"{key} stands under edges, but the note has no such link", name,
                          f"add the link to {key.partition(':')[0]}, or remove the line")  # fmt: skip

    def detail_nodes(self) -> Iterator[tuple[str, Node, Node]]:
        """Yield `(edge key, key node, value node)` of each line under `edges`; the edge key is empty if the line
        names no edge."""
        node = self.block.get("edges")
        for name, value in node.value if isinstance(node, MappingNode) else ():
            edge, _, target = (name.value if isinstance(name, ScalarNode) else "").partition(":")
            yield edge_key(EDGES[edge], target) if edge in EDGES and target else "", name, value

    def detail(self, key: str, node: Node) -> EdgeDetail:
        if is_null(node):
            return NO_DETAIL
        if isinstance(node, ScalarNode):
            return EdgeDetail(self.share(f"the weight of {key}", DEFAULT_WEIGHT, node), None, None)
        if not isinstance(node, MappingNode):
            raise InvalidValue(f"{key} under edges must be a line such as {{weight: 0.8}}, it says {self.shown(node)}", node,
                        "write weight, created or reason, or remove the line")  # fmt: skip
        parts: dict[str, Node] = {}
        for name, value in node.value:
            part = name.value if isinstance(name, ScalarNode) else ""
            if part in parts and part in {"weight", "created", "reason"}:
                raise InvalidValue(f"{part} stands twice under {key}", name, "keep one of the two")
            parts[part] = value
        return EdgeDetail(
            self.share(f"the weight of {key}", DEFAULT_WEIGHT, parts.get("weight")),
            self.time(f"created of {key}", parts.get("created")),
            self.text(f"reason of {key}", parts.get("reason")),
        )
