"""The words of memories, as the index has them: remembered, because the same dozens are compared with one prompt after another."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import Final

from ormahd.index.rows import NodeRow
from ormahd.text.prose import beginning
from ormahd.text.words import stems, words

OVERLAP: Final = 20_000
"""Characters of a memory whose words are compared with a prompt's."""
KEPT: Final = 2000
"""Memories whose words are remembered: 5 MB of short ones."""

_known: dict[str, frozenset[str]] = {}
_lock = threading.Lock()


def stemmed(rows: Sequence[NodeRow]) -> dict[str, frozenset[str]]:
    """The words of memories by their digest; of a huge one those of its beginning."""
    found = {row.digest: known for row in rows if (known := _known.get(row.digest)) is not None}
    new = {
        row.digest: list(words(f"{row.title or ''} {beginning(row.content, OVERLAP)}"))
        for row in rows
        if row.digest not in found
    }
    stems(itertools.chain.from_iterable(new.values()))  # all at once: asking SQLite is what takes time
    learned = {digest: stems(some) for digest, some in new.items()}
    with _lock:
        _known.update(learned)
        while len(_known) > KEPT:
            del _known[next(iter(_known))]
    return found | learned
