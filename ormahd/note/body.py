"""A new text for a note: the lines that stay keep their line ends, the blank lines around it stay too."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from ormahd.note.markdown import core_span, dominant_eol

_LINE = re.compile(r"([^\r\n]*)(\r\n|\n|\r|\Z)")
_COMPARED = 5000
"""Lines between the first and last difference; beyond that, finding what moved is not worth its time."""


def body_change(text: str, body: int, content: str) -> tuple[int, int, str]:
    """`(start, end, new)` that gives a file whose body begins at `body` a new (normalised) content."""
    eol = dominant_eol(text)
    start, end = (body + at for at in core_span(text[body:]))
    if start == end:
        gap = "" if text.endswith(("\n", "\r")) else eol
        return len(text), len(text), gap + content.replace("\n", eol) + eol
    if not content:
        return start, len(text), ""
    old = _LINE.findall(text, start, end)
    lines = content.split("\n")
    ends = [eol] * len(lines)
    if any(mark not in {eol, ""} for _, mark in old):
        for at, mark in _kept_ends([line for line, _ in old], lines, [mark for _, mark in old]).items():
            ends[at] = mark or eol
    ends[-1] = ""
    return start, end, "".join(line + mark for line, mark in zip(lines, ends, strict=True))


def _kept_ends(old: list[str], new: list[str], marks: list[str]) -> dict[int, str]:
    """The line ends of the new lines that were there before."""
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    tail = 0
    while tail < min(len(old), len(new)) - same and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    kept = {at: marks[at] for at in range(same)}
    kept.update({len(new) - 1 - at: marks[len(old) - 1 - at] for at in range(tail)})
    before, after = old[same : len(old) - tail], new[same : len(new) - tail]
    if max(len(before), len(after)) <= _COMPARED:
        for there, here, size in SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks():
            kept.update({same + here + at: marks[same + there + at] for at in range(size)})
    return kept
