"""Where a note is kept and what its file is called, and what those names say in return."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from datetime import UTC, datetime
from pathlib import PurePosixPath
from uuid import NAMESPACE_URL, UUID, uuid5

from ormahd.model.node import MAX_TITLE, NodeType, is_node_id, short_id
from ormahd.text.prose import beginning

GLOBAL_FOLDER = "global"
SLUG_CHARACTERS = 50
SLUG_BYTES = 100
"""With the type, the short id and `.md` well below the 255 bytes of every file system, and readable in a sidebar."""

_TYPES = {str(kind): kind for kind in NodeType}
_MONTH = re.compile(r"\d{4}-\d{2}")
_SHORT = re.compile(r"(?:^|_)([0-9a-f]{8})$")
_ASCII_BREAK = re.compile(r"[^a-z0-9]+")
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", "conin", "conout"]
    + [f"{port}{digit}" for port in ("com", "lpt") for digit in "0123456789¹²³"]
)
_RESERVED = _DEVICES | {GLOBAL_FOLDER, "template", "templates"}
"""Windows opens a device under the first; the second means no space; editors keep their templates in the others."""


_SUFFIX = re.compile(r"(?<=\S) \([^()]+\)$")


def slug(text: str, *, otherwise: str = "note") -> str:
    """Letters and digits of any script in lower case, joined by `-`: safe in every file system, URL and wikilink."""
    if text.isascii():
        joined = _ASCII_BREAK.sub("-", text[: 4 * SLUG_CHARACTERS].lower().replace("'", "")).strip("-")
    else:
        head = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text[: 4 * SLUG_CHARACTERS]).casefold())
        # Marks belong to the letter before them: without them Devanagari falls apart into consonants.
        kept = "".join(c if unicodedata.category(c)[0] in "LNM" else "" if c in "'’" else "-" for c in head)
        joined = "-".join(part for part in kept.split("-") if part)
    cut = _cut(joined)
    return cut or otherwise


def _cut(joined: str) -> str:
    cut = joined[:SLUG_CHARACTERS]
    while len(cut.encode()) > SLUG_BYTES:
        cut = cut[:-1]
    if len(cut) < len(joined) and joined[len(cut)] != "-":
        head, dash, _ = cut.rpartition("-")
        if dash and len(head) >= len(cut) // 2:
            cut = head
    return cut.strip("-")


def short_name(space: str) -> str:
    """The space's name without the suffix that tells it from another project of that name: `api` of `api (globex)`."""
    return _SUFFIX.sub("", space)


def space_folder(space: str | None) -> str:
    """The folder of a space. Two spaces may share one: the frontmatter says which is meant."""
    if space is None:
        return GLOBAL_FOLDER
    name = slug(space, otherwise="space")
    return f"{name}-space" if name in _RESERVED else name


def path_for(*, id: str, type: NodeType, space: str | None, title: str | None, content: str, created: datetime) -> str:  # noqa: A002
    """`<space>/<type>/<YYYY-MM>/<type>_<slug>_<short id>.md`, relative to the vault's home, with `/`.

    Without a title the first line of the text that holds a letter or digit names the file.
    """
    words = slug(title, otherwise="") if title else ""
    if not words:
        words = next(filter(None, (slug(line, otherwise="") for line in beginning(content, 2000).splitlines())), "note")
    when = created.astimezone(UTC) if created.tzinfo else created
    return f"{space_folder(space)}/{type}/{when.year:04d}-{when.month:02d}/{type}_{words}_{short_id(id)}.md"


def folder_says(path: str) -> tuple[NodeType | None, str | None]:
    """Type and space that a file's folders give it: only in our layout, where a folder is named for a type.

    Under `<space>/<type>/<YYYY-MM>/` at any depth (the vault's home may lie deeper), or under `<space>/<type>/`,
    which a person may make by hand.
    """
    folders = path.split("/")[:-1]
    for at in range(len(folders) - 1, 1, -1):
        if folders[at - 1] in _TYPES and _MONTH.fullmatch(folders[at]):
            return _TYPES[folders[at - 1]], _space_of(folders[at - 2])
    for at in (1, 2):
        if len(folders) > at and folders[at] in _TYPES:
            return _TYPES[folders[at]], _space_of(folders[at - 1])
    return None, None


def _space_of(folder: str) -> str | None:
    return None if folder.casefold() == GLOBAL_FOLDER else unicodedata.normalize("NFC", folder)


def file_title(path: str) -> str | None:
    """The file's name, which is a note's title as in Obsidian; None for a name that we gave (it ends in the short id)."""
    stem = PurePosixPath(path).name
    stem = stem[:-3] if stem[-3:].lower() == ".md" else stem
    name = " ".join(unicodedata.normalize("NFC", stem).split())
    return None if not name or stem_short_id(name.casefold()) else name[:MAX_TITLE]


def stem_short_id(target: str) -> str | None:
    """The short id that a wikilink's target ends in (`fact_layout_9f8e7d6c`), is, or begins with (a full id).

    A hint, not a proof: `[[20261121]]` may be somebody's daily note, so the index tries the name as well.
    """
    stem = target.rsplit("/", 1)[-1].strip().removesuffix(".md")
    if is_node_id(stem):
        return short_id(stem)
    found = _SHORT.search(stem)
    return found.group(1) if found else None


def adopted_id(vault_id: str, path: str, text: bytes, *, attempt: int = 0, exact: bool = False) -> str:
    """The id of a note that came without one: the same on every machine that adopts this text at this path.

    `attempt` counts up while the short id is taken. `exact`: the path as it is spelled, for one that another file has in NFC.
    """
    try:
        namespace = UUID(vault_id)
    except ValueError:
        namespace = uuid5(NAMESPACE_URL, vault_id)
    again = f"\n{attempt}" if attempt else ""
    name = path if exact else unicodedata.normalize("NFC", path)
    return str(uuid5(namespace, f"{name}\n{hashlib.sha256(text).hexdigest()}{again}"))
