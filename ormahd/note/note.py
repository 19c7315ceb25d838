"""The public functions and types of this package, re-exported from its modules.

`values` (types), `read` (parse), `write` (compose, adopt), `edit`, `naming` (paths, ids), `markdown`, `fields`.
"""

from __future__ import annotations

from ormahd.note.edit import edit
from ormahd.note.fields import clean_tag
from ormahd.note.markdown import conflict_line, normalise
from ormahd.note.read import MAX_NOTE, digest, parse
from ormahd.note.values import (
    DEFAULT_SOURCE,
    DEFAULT_WEIGHT,
    Note,
    NoteKind,
    NoteLink,
    Problem,
    adopted_id,
    edge_key,
    folder_says,
    path_for,
    slug,
    space_folder,
    stem_short_id,
)
from ormahd.note.write import adopt, compose, unadopted

__all__ = [
    "DEFAULT_SOURCE", "DEFAULT_WEIGHT", "MAX_NOTE", "Note", "NoteKind", "NoteLink", "Problem",
    "adopt", "adopted_id", "clean_tag", "compose", "conflict_line", "digest", "edge_key", "edit", "folder_says",
    "normalise", "parse", "path_for", "slug", "space_folder", "stem_short_id", "unadopted",
]  # fmt: skip
