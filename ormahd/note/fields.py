"""From YAML nodes to a note's fields: what a person may write for each, and what is said when it is none of that."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple, TypeVar

from ormahd.model.node import MAX_SPACE, MAX_TAG, MAX_TITLE, is_node_id
from ormahd.note.frontmatter import Frontmatter, Node, ScalarNode, SequenceNode, is_null
from ormahd.note.times import read_time
from ormahd.note.values import Problem

Choice = TypeVar("Choice", bound=StrEnum)
T = TypeVar("T")

OWN = "ormah_"
"""In front of a key of ours where the key itself holds something else: `type: meeting`, `ormah_type: decision`."""
FIELD_KEYS = ("id", "type", "tier", "space", "global", "title", "tags", "source", "confidence", "created", "updated", "valid_until",
              "outdated_reason")  # fmt: skip
"""The keys of the fields, in the order in which we write them."""
OTHER_NAMES = {
    "created": ("created_at", "date created", "creation date", "date"),
    "updated": ("updated_at", "date modified", "date updated", "last modified", "modified"),
}
"""Under which keys other programs keep a field, the likelier first. Compared without case, spaces, `-` and `_`."""

_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
_OF_A_WHOLE = re.compile(r"(\d+(?:\.\d+)?)[ ]?(?:%|/[ ]?(\d+))")
_SEPARATORS = re.compile(r"[,\s]+")
_SHOWN = 40
_YES = frozenset({"true", "yes", "on"})


class Wrong(Exception):
    """A value that its key cannot have, found at the character `index` of the block."""

    def __init__(self, what: str, node: Node, mend: str) -> None:
        super().__init__(what)
        self.what = what
        self.index = node.start_mark.index
        self.mend = mend


class Written(NamedTuple):
    """One item of a list property."""

    value: str
    node: Node
    alone: bool
    """True when the node says nothing else."""
    said: str
    """The text that the value was read from."""


def one_line(text: str) -> str:
    return " ".join(text.split())


def as_utc(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def clean_tag(text: str) -> str:
    """A tag as it is kept: on one line and without the `#` that people type in front."""
    return one_line(text).lstrip("# ")


def _share(value: str) -> float | None:
    """A number between 0 and 1 in the forms in which it has one meaning; None for others."""
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
    """Reads one block. A value that its key cannot have is left to the person: it becomes a warning and the field's default."""

    def __init__(self, block: Frontmatter) -> None:
        self.block = block
        self.problems: list[Problem] = []
        self.taken: list[str] = []
        """Keys of ours that hold something else."""

    def warn(self, what: str, node: Node, mend: str) -> None:
        self.problems.append(Problem("warning", what, self.line(node.start_mark.index), mend))

    def report(self, wrong: Wrong) -> None:
        self.problems.append(Problem("warning", wrong.what, self.line(wrong.index), wrong.mend))

    def line(self, index: int) -> int:
        return self.block.text.count("\n", 0, self.block.start + index) + 1

    def shown(self, node: Node) -> str:
        raw = one_line(node.value if isinstance(node, ScalarNode) else self.block.raw(node))
        return raw if len(raw) <= _SHOWN else f"{raw[:_SHOWN]}…"

    def field(self, key: str, read: Callable[[str, Node], T | None], otherwise: T, *, quiet: bool = False) -> T:
        """What a key of ours says, else what the same key behind `ormah_` says, else `otherwise`.

        A value that `read` refuses (Wrong) makes the key somebody else's; that is no fault where `quiet`, and none
        where ours stands beside it.
        """
        value: T | None = None
        node, own = self.block.get(key), self.block.get(OWN + key)
        if own is not None and not is_null(own):
            try:
                value = read(OWN + key, own)
            except Wrong as wrong:
                self.taken.append(OWN + key)
                self.report(wrong)
        if node is not None and not is_null(node):
            try:
                there = read(key, node)
                value = there if value is None else value
            except Wrong as wrong:
                self.taken.append(key)
                if value is None and not quiet:
                    self.report(wrong)
        return otherwise if value is None else value

    def text(self, key: str, node: Node | None) -> str | None:
        """The characters of a value, whatever YAML would make of them; None for an empty one. Raises Wrong."""
        if node is None or is_null(node):
            return None
        if isinstance(node, SequenceNode):
            link = self.unquoted_link(node)
            if link is not None:
                return f"[[{link}]]"
            if node.value and all(isinstance(item, ScalarNode) for item in node.value):
                return ", ".join(filter(None, (self.text(key, item) for item in node.value))) or None
        if not isinstance(node, ScalarNode):
            raise Wrong(f"{key} must be one text, it says {self.shown(node)}", node, "write a single text, in quotes")
        value: str = node.value
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise Wrong(f"{key} holds half of a character", node, "remove the \\ud… escape") from None
        if "\0" in value:
            raise Wrong(f"{key} holds a NUL character", node, "remove it")
        return value if value.strip() else None

    def node_id(self, key: str, node: Node) -> str | None:
        """An id of ours. Raises Wrong for anybody else's (a Zettelkasten's number)."""
        value = (self.text(key, node) or "").strip().lower()
        if value and not is_node_id(value):
            raise Wrong(f"{key} must be a UUID, it says {value[:_SHOWN]}", node, "remove the line")
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
        """Absent: what the folders say. Empty or `global`: no space, whatever the folders say."""
        said = self.field("space", self._space, None)
        if said is None:
            emptied = any(key in self.block.pairs and key not in self.taken for key in (OWN + "space", "space"))
            return None if emptied else otherwise
        return None if said.casefold() == "global" else said

    def _space(self, key: str, node: Node) -> str | None:
        if isinstance(node, SequenceNode) and len(node.value) > 1:
            raise Wrong(f"{key} must be one project, it says {self.shown(node)}", node, "name one project")
        value = one_line(self.text(key, node) or "")
        if value in {".", ".."}:
            raise Wrong(f"{key} cannot be {value!r}", node, "name a project, or remove the line")
        if len(value) > MAX_SPACE:
            raise Wrong(f"{key} has {len(value)} characters, at most {MAX_SPACE} are allowed", node, "shorten it")
        return value or None

    def flag(self, key: str) -> bool:
        """Whether a key says yes. Anything else is the person's own use of the word, and no mistake."""
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
                raise Wrong(f"{name} must be one of {', '.join(kinds)}, it says {one_line(value)[:_SHOWN]}", node,
                            "write one of these words, or remove the line") from None  # fmt: skip

        return self.field(key, one_of, otherwise, quiet=quiet)

    def share(self, key: str, otherwise: float, node: Node | None) -> float:
        """A number between 0 and 1, also written as `90%`, `9/10` or `0,9`. Raises Wrong."""
        value = self.text(key, node)
        if value is None or node is None:
            return otherwise
        number = _share(value.strip())
        if number is None or not 0.0 <= number <= 1.0:
            raise Wrong(f"{key} must be between 0 and 1, it says {value.strip()[:_SHOWN]}", node,
                        "write a number such as 0.8, or remove the line")  # fmt: skip
        return number + 0.0  # -0 is 0

    def confidence(self) -> float:
        return self.field("confidence", lambda key, node: self.share(key, 1.0, node), 1.0)

    def time(self, key: str, node: Node | None) -> datetime | None:
        if isinstance(node, SequenceNode) and len(node.value) > 1:
            raise Wrong(f"{key} must be one time, it says {self.shown(node)}", node, "write one, as 2026-11-21")
        value = self.text(key, node)
        if value is None or node is None:
            return None
        try:
            return read_time(value)
        except (ValueError, OverflowError):
            raise Wrong(f"{key} must be a date or a time, it says {one_line(value)[:_SHOWN]}", node,
                        "write it as 2026-11-21 or 2026-11-21T20:00:00Z, or remove the line") from None  # fmt: skip

    def moment(self, key: str) -> datetime | None:
        """A time, also under the names that other programs have for it."""
        found = self.field(key, self.time, None)
        if found is not None or key not in OTHER_NAMES:
            return found
        plain = {_plain_key(name): node for name, (_, node) in self.block.pairs.items() if name != key}
        for name in (key, *OTHER_NAMES[key]):
            try:
                found = self.time(name, plain.get(_plain_key(name)))
            except Wrong:
                continue  # not our key: the person may write there what they like
            if found is not None:
                return found
        return None

    def unquoted_link(self, node: Node) -> str | None:
        """What stands in `[[x]]` without quotes, which YAML takes for a list in a list."""
        if not isinstance(node, SequenceNode) or not node.flow_style or len(node.value) != 1:
            return None
        if not isinstance(node.value[0], SequenceNode):
            return None
        raw = self.block.raw(node)
        inside = raw[2:-2] if raw.startswith("[[") and raw.endswith("]]") else "["
        return None if "[" in inside or "]" in inside else inside.strip()

    def items(self, key: str, *, split: re.Pattern[str] | None = None) -> list[Written]:
        """A property as a list of texts: a list, or one text (divided at `split`). Raises Wrong."""
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
        except Wrong as wrong:
            self.report(wrong)
            return ()
        return tuple(dict.fromkeys(one_line(value) for value, *_ in found))
