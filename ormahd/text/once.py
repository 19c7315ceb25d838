"""Of several texts that say the same, in an answer, one has the place; the others are counted there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from ormahd.text.sameness import gist, same

T = TypeVar("T")
LONGEST: Final = 4_000
"""Characters of a text that are compared word by word; longer ones have to be equal letter by letter."""

Said = tuple[str | None, str]
"""Title and content."""


def once(items: Iterable[T], said: Callable[[T], Said]) -> list[tuple[T, list[T]]]:
    """Return the first of each group that says the same, in order, with the others of its group."""
    groups: list[tuple[T, list[T]]] = []
    for item in items:
        mine = said(item)
        group = next((others for first, others in groups if says_the_same(said(first), mine)), None)
        if group is None:
            groups.append((item, []))
        else:
            group.append(item)
    return groups


def says_the_same(one: Said, other: Said) -> bool:
    """Whether two memories say the same in the same words, but for articles, spelling, case and punctuation."""
    if one == other:
        return True
    shorter, longer = sorted((len(one[1]), len(other[1])))
    if longer > LONGEST or longer > 2 * shorter + 40 or gist(one[1]) != gist(other[1]):
        return False
    return same(*one, *other) is not None
