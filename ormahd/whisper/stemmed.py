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
KEPT: Final = 60_000
"""Words that are remembered, of all memories together (5 MB): of 2,000 short ones."""

_known: dict[str, frozenset[str]] = {}
_counted = 0
_lock = threading.Lock()


def stemmed(rows: Sequence[NodeRow]) -> dict[str, frozenset[str]]:
    """Returns the words of memories by their digest; of a huge one those of its beginning."""
    global _counted  # noqa: PLW0603 - of the process, as `_known` is
    found = {row.digest: known for row in rows if (known := _known.get(row.digest)) is not None}
    new = {
        row.digest: list(words(f"{row.title or ''} {beginning(row.content, OVERLAP)}"))
        for row in rows
        if row.digest not in found
    }
    stems(itertools.chain.from_iterable(new.values()))  # all at once: asking SQLite is what takes time
    learned = {digest: stems(some) for digest, some in new.items()}
    with _lock:
        for digest, some in learned.items():
            _counted += len(some) + 1 if digest not in _known else 0
            _known[digest] = some
        while _counted > KEPT:
            _counted -= len(_known.pop(next(iter(_known)))) + 1
    return found | learned
