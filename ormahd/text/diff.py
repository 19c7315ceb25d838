"""Two texts line by line, for people to read: hunks with a little context, long lines cut around what differs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

LINES = 80
"""Lines of a diff that are shown: two screens. `git show` in the vault has all of them."""
CONTEXT = 2
COMPARED = 2_000
"""Lines between the first and the last difference; beyond that both sides are taken for wholly different: difflib
needs minutes for some texts."""
WIDE = 240
"""Characters of one line. A paragraph is one line in a note, and often a single word of it changed."""
AROUND = 60
"""Characters of a long line that stay on either side of what differs in it."""

Opcode = tuple[str, int, int, int, int]


def text_diff(before: str | None, after: str | None, lines: int = LINES) -> tuple[list[str], bool]:
    """The differing lines as in a unified diff, and whether some were left out (then the last one says how many).

    None: there was no text, or is none; then every line is new, or gone.
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
    left = len(out) - lines
    return [*out[:lines], f"… {left:,} more {'line' if left == 1 else 'lines'}"], True


def clip(text: str, wide: int = WIDE) -> str:
    """A text as one line of at most `wide` characters."""
    flat = " ".join(text.splitlines())
    return flat if len(flat) <= wide else f"{flat[: wide - 1].rstrip()}…"


def _lines(hunk: Sequence[Opcode], old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    for tag, a, b, c, d in hunk:
        if tag == "equal":
            yield from (f" {clip(line)}" for line in old[a:b])
            continue
        gone, come = list(old[a:b]), list(new[c:d])
        if len(gone) == len(come):
            pairs = [_around(one, other) for one, other in zip(gone, come, strict=True)]
            gone, come = [one for one, _ in pairs], [other for _, other in pairs]
        yield from (f"-{clip(line)}" for line in gone)
        yield from (f"+{clip(line)}" for line in come)


def _around(one: str, other: str) -> tuple[str, str]:
    """Two versions of a long line, cut to what differs and some words around it."""
    if max(len(one), len(other)) <= WIDE:
        return one, other
    head, tail = _same(one, other)
    start = max(0, head - AROUND)
    cut = max(0, tail - AROUND)
    return tuple(  # type: ignore[return-value]
        ("…" if start else "") + line[start : len(line) - cut] + ("…" if cut else "") for line in (one, other)
    )


def _same(one: Sequence[object], other: Sequence[object]) -> tuple[int, int]:
    """How much two sequences have in common at their beginning, and behind that at their end."""
    shorter = min(len(one), len(other))
    head = next((at for at in range(shorter) if one[at] != other[at]), shorter)
    rest = shorter - head
    tail = next((at for at in range(rest) if one[-1 - at] != other[-1 - at]), rest)
    return head, tail


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[list[Opcode]]:
    head, tail = _same(old, new)
    left, right = old[head : len(old) - tail], new[head : len(new) - tail]
    if not left and not right:
        return
    middle: list[Opcode] = []
    if max(len(left), len(right)) > COMPARED or not left or not right:
        tag = "replace" if left and right else "delete" if left else "insert"
        middle.append((tag, head, head + len(left), head, head + len(right)))
    else:
        for tag, a, b, c, d in SequenceMatcher(None, left, right).get_opcodes():
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
    """Lines as a unified diff counts them: from 1; of none, the one before."""
    count = end - start
    return f"{start if count == 0 else start + 1}" + ("" if count == 1 else f",{count}")
