"""From YAML nodes to a note's fields: what a person may write for each, and what is said when it is none of that."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple, TypeVar

from ormahd.core.frontmatter import Frontmatter, Node, ScalarNode, SequenceNode, is_null
from ormahd.core.node import MAX_SPACE, MAX_TAG, MAX_TITLE
from ormahd.core.note_values import Problem

Choice = TypeVar("Choice", bound=StrEnum)

_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
_TIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[Tt]|[ \t]+)(\d{1,2}:\d{2}(?::\d{2}(?:\.\d*)?)?)[ \t]*(Z|z|[-+]\d{1,2}(?::?\d{2})?)?"
)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
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


def read_time(text: str) -> datetime:
    """A date or time as people and editors write it; without a zone it is UTC. Raises ValueError."""
    text = text.strip()
    if _DAY.fullmatch(text):
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(text)
    day, clock, zone = found.groups()
    if clock[1] == ":":
        clock = f"0{clock}"
    clock = clock.removesuffix(".")
    if zone is None or zone in "Zz":
        zone = "+00:00"
    elif len(zone) < 5:
        zone = f"{zone[0]}{zone[1:].zfill(2)}:00"
    try:
        return datetime.fromisoformat(f"{day}T{clock}{zone}").astimezone(UTC)
    except OverflowError as exc:
        raise ValueError(text) from exc


class FieldReader:
    """Reads one block; a wrong value becomes a problem and the field's default."""

    def __init__(self, block: Frontmatter) -> None:
        self.block = block
        self.problems: list[Problem] = []

    def report(self, wrong: Wrong) -> None:
        self.problems.append(Problem("error", wrong.what, self.line(wrong.index), wrong.mend))

    def warn(self, what: str, node: Node, mend: str) -> None:
        self.problems.append(Problem("warning", what, self.line(node.start_mark.index), mend))

    def line(self, index: int) -> int:
        return self.block.text.count("\n", 0, self.block.start + index) + 1

    def shown(self, node: Node) -> str:
        raw = one_line(node.value if isinstance(node, ScalarNode) else self.block.raw(node))
        return raw if len(raw) <= _SHOWN else f"{raw[:_SHOWN]}…"

    def text(self, key: str, node: Node | None) -> str | None:
        """The characters of a value, whatever YAML would make of them; None for an empty one."""
        if node is None or is_null(node):
            return None
        if isinstance(node, SequenceNode):
            link = self.unquoted_link(node)
            if link is not None:
                return f"[[{link}]]"
            if len(node.value) == 1 and isinstance(node.value[0], ScalarNode):
                node = node.value[0]
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

    def prose(self, key: str) -> str | None:
        try:
            return self.text(key, self.block.get(key))
        except Wrong as wrong:
            self.report(wrong)
            return None

    def title(self) -> str | None:
        value = self.prose("title")
        if value is None:
            return None
        value = one_line(value)
        if len(value) > MAX_TITLE:
            self.warn(f"title has {len(value)} characters, only the first {MAX_TITLE} are used",
                      self.block.pairs["title"][1], "shorten it")  # fmt: skip
            value = value[:MAX_TITLE].rstrip()
        return value

    def space(self, otherwise: str | None) -> str | None:
        """Absent: what the folders say. Empty or `global`: no space, whatever the folders say."""
        node = self.block.get("space")
        if node is None:
            return otherwise
        value = one_line(self.prose("space") or "")
        if value in {".", ".."}:
            self.report(Wrong(f"space cannot be {value!r}", node, "name a project, or remove the line"))
            return None
        if len(value) > MAX_SPACE:
            self.report(
                Wrong(f"space has {len(value)} characters, at most {MAX_SPACE} are allowed", node, "shorten it")
            )
            return None
        return None if not value or value.casefold() == "global" else value

    def flag(self, key: str) -> bool:
        """Whether a key says yes. Anything else is the person's own use of the word, and no mistake."""
        node = self.block.get(key)
        return isinstance(node, ScalarNode) and node.value.strip().lower() in _YES

    def choice(self, key: str, kinds: type[Choice], otherwise: Choice) -> Choice:
        value = self.prose(key)
        if value is None:
            return otherwise
        try:
            return kinds(value.strip().lower())
        except ValueError:
            names = ", ".join(kinds)
            self.report(Wrong(f"{key} must be one of {names}, it says {one_line(value)[:_SHOWN]}",
                              self.block.pairs[key][1], "write one of these words, or remove the line"))  # fmt: skip
            return otherwise

    def share(self, key: str, otherwise: float, node: Node | None) -> float:
        """A number between 0 and 1. Raises Wrong."""
        value = self.text(key, node)
        if value is None or node is None:
            return otherwise
        value = value.strip()
        number = float(value) if _NUMBER.fullmatch(value) else None
        if number is None or not 0.0 <= number <= 1.0:
            raise Wrong(f"{key} must be between 0 and 1, it says {value[:_SHOWN]}", node,
                        "write a number such as 0.8, or remove the line")  # fmt: skip
        return number + 0.0  # -0 is 0

    def confidence(self) -> float:
        try:
            return self.share("confidence", 1.0, self.block.get("confidence"))
        except Wrong as wrong:
            self.report(wrong)
            return 1.0

    def time(self, key: str, node: Node | None) -> datetime | None:
        value = self.text(key, node)
        if value is None or node is None:
            return None
        try:
            return read_time(value)
        except ValueError:
            raise Wrong(f"{key} must be a date or a time, it says {one_line(value)[:_SHOWN]}", node,
                        "write it as 2026-11-21 or 2026-11-21T20:00:00Z, or remove the line") from None  # fmt: skip

    def moment(self, key: str) -> datetime | None:
        node = self.block.get(key)
        if node is None:
            return None
        try:
            return self.time(key, node)
        except Wrong as wrong:
            self.report(wrong)
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
        try:
            found = self.items("tags", split=_SEPARATORS)
        except Wrong as wrong:
            self.report(wrong)
            return []
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
        except Wrong as wrong:  # Obsidian's own key: no reason to lose the note
            self.problems.append(Problem("warning", wrong.what, self.line(wrong.index), wrong.mend))
            return ()
        return tuple(dict.fromkeys(one_line(value) for value, *_ in found))
