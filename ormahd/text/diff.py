"""The differences between two texts, shown for people, and the three-way merge of lines. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, TypeVar

import merge3

LINES = 80
"""Number of lines of a diff that are shown; `git show` has all of them."""
CONTEXT = 2
COMPARED = 2_000
"""Maximum number of lines between the first and the last difference that a diff compares. For more lines difflib may
take minutes, so they are shown as wholly different."""
MERGED = 5_000
"""Maximum number of lines between the first and the last difference that a merge compares."""
WIDE = 240
"""Maximum number of characters of a line that are shown. In a note, a paragraph is one line."""
AROUND = 60
"""Number of characters kept before and after the difference in a long line."""

Opcode = tuple[str, int, int, int, int]
Line = TypeVar("Line", str, bytes)


def text_diff(before: str | None, after: str | None, lines: int = LINES) -> tuple[list[str], bool]:
    """Return (lines of the unified diff from `before` to `after`, whether some were left out).

    At most `lines` lines are returned. If there are more, a last line says how many were left out. A text of None
    does not exist: all lines of the other text are shown as added or removed.
    """
    old, new = ([] if text is None else text.splitlines() for text in (before, after))
    out: list[str] = []
    if before is None or after is None:
        out += [f"{'+' if before is None else '-'}{clip(line)}" for line in new or old]
    else:
        for hunk in _hunks(old, new):
            first, last = hunk[0], hunk[-1]
            out.append(f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@")
            out += _lines(hunk, old, new)
    if len(out) <= lines:
        return out, False
    more = len(out) - lines
    return [*out[:lines], f"… {more:,} more {'line' if more == 1 else 'lines'}"], True


def clip(text: str, wide: int = WIDE) -> str:
    """Return a text as one line of at most `wide` characters."""
    flat = " ".join(text.splitlines())
    return flat if len(flat) <= wide else f"{flat[: wide - 1].rstrip()}…"


def _lines(hunk: Sequence[Opcode], old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """Yield the lines of one hunk of a unified diff, without its header. `old`, `new`: all lines of both texts.

    If as many lines were removed as added, each pair of long lines is cut to its difference (`_around`).
    """
    for tag, a, b, c, d in hunk:
        if tag == "equal":
            yield from (f" {clip(line)}" for line in old[a:b])
            continue
        removed, added = list(old[a:b]), list(new[c:d])
        if len(removed) == len(added):
            pairs = [_around(before, after) for before, after in zip(removed, added, strict=True)]
            removed, added = [before for before, _ in pairs], [after for _, after in pairs]
        yield from (f"-{clip(line)}" for line in removed)
        yield from (f"+{clip(line)}" for line in added)


def _around(old: str, new: str) -> tuple[str, str]:
    """Return two versions of a line, (`old`, `new`), cut to what fits into a diff.

    If one is longer than `WIDE`, both are cut to the part in which they differ, with `AROUND` characters before and
    after.
    """
    if max(len(old), len(new)) <= WIDE:
        return old, new
    head, tail = common_ends(old, new)
    start = max(0, head - AROUND)
    cut = max(0, tail - AROUND)
    return tuple(  # type: ignore[return-value]
        ("…" if start else "") + line[start : len(line) - cut] + ("…" if cut else "") for line in (old, new)
    )


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[list[Opcode]]:
    """Yield the hunks of the diff from `old` to `new`: runs of opcodes, as difflib has them, with `CONTEXT` equal lines
    around."""
    head, tail = common_ends(old, new)
    old_middle, new_middle = old[head : len(old) - tail], new[head : len(new) - tail]
    if not old_middle and not new_middle:
        return
    middle: list[Opcode] = []
    if max(len(old_middle), len(new_middle)) > COMPARED or not old_middle or not new_middle:
        tag = "replace" if old_middle and new_middle else "delete" if old_middle else "insert"
        middle.append((tag, head, head + len(old_middle), head, head + len(new_middle)))
    else:
        for tag, a, b, c, d in SequenceMatcher(None, old_middle, new_middle).get_opcodes():
            middle.append((tag, head + a, head + b, head + c, head + d))
    before = min(CONTEXT, head)
    after = min(CONTEXT, tail)
    hunk: list[Opcode] = [("equal", head - before, head, head - before, head)] if before else []
    for tag, a, b, c, d in middle:
        if tag == "equal" and b - a > 2 * CONTEXT:
            hunk.append((tag, a, a + CONTEXT, c, c + CONTEXT))
            yield hunk
            hunk = [(tag, b - CONTEXT, b, d - CONTEXT, d)]
        else:
            hunk.append((tag, a, b, c, d))
    if after:
        a, c = len(old) - tail, len(new) - tail
        hunk.append(("equal", a, a + after, c, c + after))
    yield hunk


def _range(start: int, end: int) -> str:
    """Return lines `start` to `end` (from 0, `end` exclusive) in the notation of unified diffs, such as `5,3`."""
    count = end - start
    return f"{start if count == 0 else start + 1}" + ("" if count == 1 else f",{count}")


def common_ends(first: Sequence[object], second: Sequence[object]) -> tuple[int, int]:
    """Return (length of the common beginning of both sequences, length of the common end of what remains)."""
    shorter = min(len(first), len(second))
    head = next((at for at in range(shorter) if first[at] != second[at]), shorter)
    rest = shorter - head
    tail = next((at for at in range(rest) if first[-1 - at] != second[-1 - at]), rest)
    return head, tail


def matching_blocks(first: Sequence[Any], second: Sequence[Any]) -> list[tuple[int, int, int]]:
    """Return `(start in first, start in second, length)` of each run of equal items, and an empty run at the end.

    That is the format of difflib. The common beginning and the common end are matched first. If more than `MERGED`
    items lie between them, these items count as wholly different.
    """
    head, tail = common_ends(first, second)
    blocks = [(0, 0, head)] if head else []
    first_middle, second_middle = first[head : len(first) - tail], second[head : len(second) - tail]
    if max(len(first_middle), len(second_middle)) <= MERGED:
        found = SequenceMatcher(None, first_middle, second_middle).get_matching_blocks()[:-1]
        blocks += [(head + at, head + start, size) for at, start, size in found]
    if tail:
        blocks.append((len(first) - tail, len(second) - tail, tail))
    return [*blocks, (len(first), len(second), 0)]


class _Matcher:
    """Replaces difflib's `SequenceMatcher` in merge3: it finds the matches with `matching_blocks`."""

    def __init__(self, _junk: Any, first: Sequence[Any], second: Sequence[Any]) -> None:
        self._blocks = matching_blocks(first, second)

    def get_matching_blocks(self) -> list[tuple[int, int, int]]:
        """Return the matches of both sequences, as difflib's method of this name does."""
        return self._blocks


def three_ways(base: list[Line], ours: list[Line], theirs: list[Line], *, keep_ours: bool = False) -> list[Line] | None:
    """Return `base` with the changes of both `ours` and `theirs`, as lines.

    If both changed the same lines differently, return None, or with `keep_ours` take these lines from `ours`.
    """
    out: list[Line] = []
    for group in merge3.Merge3(base, ours, theirs, sequence_matcher=_Matcher).merge_groups():
        if group[0] != "conflict":
            out.extend(group[1])
            continue
        lines = _side_by_side(list(group[1]), list(group[2]), list(group[3]))
        if lines is None and not keep_ours:
            return None
        out.extend(group[2] if lines is None else lines)
    return out


def _side_by_side(base: list[Line], ours: list[Line], theirs: list[Line]) -> list[Line] | None:
    """Return `base` with the changes of `ours` and `theirs`, if these are to adjacent lines; None if they contradict
    each other.

    Adjacent means that one side changes the last line, and the other adds a line after it. Git treats such changes as a
    conflict. Notes of one line could then hardly ever be merged, so they are merged here. Changes contradict each other
    if both sides changed the same line differently, or inserted different lines at the same place.
    """
    alike = common_ends(ours[::-1], theirs[::-1])[0]
    agreed = ours[len(ours) - alike :]  # both added the same at the end
    our_changes: dict[tuple[int, int], list[Line]] = _changes(base, ours[: len(ours) - alike])
    their_changes: dict[tuple[int, int], list[Line]] = _changes(base, theirs[: len(theirs) - alike])
    out: list[Line] = []
    done = 0
    for place in sorted({*our_changes, *their_changes}):
        if place[0] < done or (
            place in our_changes and place in their_changes and our_changes[place] != their_changes[place]
        ):
            return None
        out.extend(base[done : place[0]])
        out.extend(our_changes[place] if place in our_changes else their_changes[place])
        done = place[1]
    return out + base[done:] + agreed


def _changes(base: list[Line], side: list[Line]) -> dict[tuple[int, int], list[Line]]:
    """Return `{(first line, line after the last) in base: new lines}` for each change of `side` against `base`."""
    found: dict[tuple[int, int], list[Line]] = {}
    was = now = 0
    for at, start, size in matching_blocks(base, side):
        if (was, now) != (at, start):
            found[was, at] = side[now:start]
        was, now = at + size, start + size
    return found
