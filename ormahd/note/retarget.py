"""Links that lead to one note made to lead to another: when two notes became one."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from urllib.parse import quote

from ormahd.errors import InvalidNote
from ormahd.note.edit import edit
from ormahd.note.markdown import LINK, body_links, link_target, linked_note
from ormahd.note.naming import stem_short_id
from ormahd.note.read import parse
from ormahd.note.values import NoteKind, NoteLink

_WIKILINK = re.compile(r"(?<!\\)\[\[([^\[\]\n]{1,500})\]\]")
_NAME = re.compile(r"[^|#^]*")


def retarget(data: bytes, path: str, short: str, stem: str) -> bytes:
    """A note whose links to the note with the short id `short` lead to the note named `stem`, in its properties and in
    its text (heading, block and alias of a link are kept). What is no readable note comes back as it is."""
    if short.encode() not in data:
        return data
    note = parse(data, path)
    if note.kind is not NoteKind.NOTE:
        return data
    old = [link for link in note.links if not link.body and stem_short_id(link.target) == short]
    new = [NoteLink(link.edge, stem, link.weight, link.created, link.reason) for link in old]
    try:
        return edit(
            data, path, unlink=[(link.edge, link.target) for link in old], link=new,
            content=_text(note.content, short, stem),
        )  # fmt: skip
    except InvalidNote:
        return data  # written in a way that cannot be edited safely: the link leads nowhere, and nothing is lost


def _text(content: str, short: str, stem: str) -> str:
    names = {target for target in body_links(content) if stem_short_id(target) == short}
    return _led(content, names, lambda inside: _NAME.sub(stem, inside, count=1))


def lead(content: str, names: Collection[str], stem: str) -> str:
    """A text whose wikilinks to one of `names` (as `body_links` gives them) lead to the note named `stem`. What a reader
    saw stays: a link by title gets it as its alias; heading, block and alias of a link are kept."""

    def led(inside: str) -> str:
        led_to = _NAME.sub(stem, inside, count=1)
        return led_to if "|" in inside or stem_short_id(link_target(inside)) else f"{led_to}|{link_target(inside)}"

    return _led(content, names, led)


def unlink(content: str, names: Collection[str], word: str) -> str:
    """A text whose wikilinks to one of `names` are words: their alias, or `word` where they show a file's name."""

    def said(inside: str) -> str:
        alias = inside.partition("|")[2].strip()
        return alias or (word if stem_short_id(link_target(inside)) else link_target(inside))

    return _led(content, names, said, ends=("", ""))


def _led(
    content: str, names: Collection[str], led: Callable[[str], str], ends: tuple[str, str] = ("[[", "]]")
) -> str:  # fmt: skip
    def changed(found: re.Match[str]) -> str:
        return f"{ends[0]}{led(found[1])}{ends[1]}" if link_target(found[1]) in names else found[0]

    def changed_path(found: re.Match[str]) -> str:
        """A markdown link keeps its text; where it led to a heading, the other note has none of that name."""
        name = linked_note(found)
        if name not in names:
            return found[0]
        return f"[{found['text']}]({quote(link_target(led(name)))}.md)" if ends[0] else found["text"]

    return LINK.sub(changed_path, _WIKILINK.sub(changed, content)) if names else content
