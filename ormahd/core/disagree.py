"""Whether two memories cannot both hold, by their texts alone. Pure, and made to be silent rather than wrong.

The rule: two claims that say the same thing word for word except for one place, and what stands there excludes the other: another
number of the same unit, another date, time or name where there can be only one, an opposite, a negation, or two things
in the other order. Whatever else differs (a subject, a condition, a qualifier) means that they speak of two things.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from msgspec import Struct

from ormahd.core.claim_words import (
    ANCHORS,
    AS_THE,
    CLASSES,
    COPULAS,
    COUNTRIES,
    IS_THE,
    ONE_PLACE,
    OPPOSITE_VERBS,
    OPPOSITES,
    PLATFORMS,
    PREFERRING,
    QUALIFIERS,
    THE_IS,
    VALUED,
    VERBS,
)
from ormahd.core.claims import Claim, Read, Sort, Token

ENOUGH = 2
"""Tokens that two claims share at least; for the place of a name that only one thing can have, one is enough."""
ALIKE = 4
"""The same where the titles name different things."""
MOST = 4
"""Tokens in the place where they differ, at most."""
LONG = 6
"""Characters of two names from which small differences are spelling: npm and pnpm are two."""
NEARLY = 0.2
"""Two measurements that differ by less than this share are one."""


class Disagreement(Struct, frozen=True):
    """`what`: number, date, time, value, opposite, negation, order. `one`, `other`: the two claims as written; `ends`: what
    stands in the place where they differ. `shared`: tokens that they have in common."""

    what: str
    one: str
    other: str
    ends: tuple[str, str]
    shared: int


def disagree(one: Read, other: Read, *, measured: bool = False) -> Disagreement | None:
    """The clearest disagreement of two memories, or None. `measured`: their numbers are observations, and may scatter."""
    best: Disagreement | None = None
    for a in one.claims:
        for b in other.claims:
            least = min(len(a.tokens), len(b.tokens))
            if 2 * len(a.keys & b.keys) < least - 1 or a.past or b.past:
                continue
            found = _claims(a, b, one, other, measured)
            if found is not None and (best is None or found.shared > best.shared):
                best = found
    return best


def _claims(a: Claim, b: Claim, one: Read, other: Read, measured: bool) -> Disagreement | None:
    start = 0
    ours, theirs = a.tokens, b.tokens
    while start < min(len(ours), len(theirs)) and ours[start].key == theirs[start].key:
        start += 1
    end = 0
    while end < min(len(ours), len(theirs)) - start and ours[-1 - end].key == theirs[-1 - end].key:
        end += 1
    left, right = ours[start : len(ours) - end], theirs[start : len(theirs) - end]
    head, tail = ours[:start], ours[len(ours) - end :]
    if a.negated != b.negated:
        what = "negation" if not left and not right else None
    else:
        what = _differ(left, right, head, tail, a, b, measured)
    if what is None or not _one_matter(a, b, one, other, left, right, start + end, what):
        return None
    ends = (" ".join(token.text for token in left), " ".join(token.text for token in right))
    return Disagreement(what, a.text, b.text, ends, start + end)


def _differ(
    left: Sequence[Token],
    right: Sequence[Token],
    head: Sequence[Token],
    tail: Sequence[Token],
    a: Claim,
    b: Claim,
    measured: bool,
) -> str | None:
    """What kind of values stand in the one place where two claims differ; None: they need not exclude each other."""
    if not left or not right or len(left) > MOST or len(right) > MOST:
        return None
    if _turned(left, right):
        return "order"
    sorts = [token.sort for token in left]
    if sorts == [token.sort for token in right] and set(sorts) <= {Sort.NUMBER, Sort.DATE, Sort.TIME, Sort.JOIN}:
        return _values(left, right, head, tail, measured)
    if len(left) == 1 and len(right) == 1 and frozenset((left[0].key, right[0].key)) in OPPOSITES:
        verbs = left[0].key in OPPOSITE_VERBS
        return "opposite" if verbs or _predicate(head, left[0]) else None
    if _same_class(left, right) and _predicate(head, left[0]):
        return "value"
    if _akin(left, right):
        return None
    if all(AS_THE.match(claim.text.partition(place[-1].text)[2]) for claim, place in ((a, left), (b, right))):
        return "value"
    if _names(left, not head) and _names(right, not head) and _only_one(head, tail, left[0], right[0], a, b):
        return "value"
    return None


def _turned(left: Sequence[Token], right: Sequence[Token]) -> bool:
    """A over B, and B over A."""
    keys, others = [token.key for token in left], [token.key for token in right]
    return (
        len(keys) == len(others) == 3 and keys[1] == others[1] and keys[1] in PREFERRING
        and (keys[0], keys[2]) == (others[2], others[0])
    )  # fmt: skip


def _values(
    left: Sequence[Token], right: Sequence[Token], head: Sequence[Token], tail: Sequence[Token], measured: bool
) -> str | None:
    if [token.unit for token in left] != [token.unit for token in right]:
        return None
    if any(token.sort is Sort.JOIN and token.key != mate.key for token, mate in zip(left, right, strict=True)):
        return None
    if len(left) > 1 and all(token.sort is not Sort.JOIN for token in left):
        return None  # 29 a month, 249 a year
    first = left[0]
    if not head and not (first.sort is Sort.NUMBER and tail and tail[0].sort is Sort.WORD):
        return None
    follows = tail[0] if tail and not tail[0].lead and tail[0].sort is Sort.WORD else None
    if head and follows is not None and head[-1].sort is Sort.NAME and not first.lead and not first.unit:
        return None  # Postgres 14 ends in May: the number belongs to the name
    if (
        head
        and not (first.lead or first.unit or follows)
        and head[-1].key not in VALUED | VERBS
        and head[-1].sort is Sort.WORD
    ):
        return None  # the deployment 864: a label, whatever the thing is
    counted = first.sort is Sort.NUMBER and follows is not None and len(head) >= ENOUGH
    if head and not (counted or _predicate(head, first)):
        return None
    if first.sort is Sort.NUMBER:
        if measured and all(
            abs(x.amount - y.amount) <= NEARLY * max(abs(x.amount), abs(y.amount))
            for x, y in zip(left, right, strict=True)
        ):
            return None
        return "number"
    return "date" if first.sort is Sort.DATE else "time"


def _predicate(head: Sequence[Token], place: Token) -> bool:
    """Whether the place is what is said, and not what it is said of: a verb or a preposition stands before it."""
    leads = " ".join(token.lead for token in (*head, place)).split()
    return bool(ANCHORS & set(leads)) or any(token.key in VERBS for token in head)


def _same_class(left: Sequence[Token], right: Sequence[Token]) -> bool:
    keys, others = {token.key for token in left}, {token.key for token in right}
    return any(keys <= values and others <= values for values in CLASSES)


def _names(tokens: Sequence[Token], first: bool) -> bool:
    """Only names (a number may follow one). At the beginning of a sentence everything has a capital."""
    if first:
        return all(token.text[:1].isupper() or token.sort in (Sort.NAME, Sort.LABEL) for token in tokens)
    return any(token.sort is Sort.NAME for token in tokens) and all(
        token.sort in (Sort.NAME, Sort.LABEL, Sort.NUMBER) for token in tokens
    )


def _only_one(head: Sequence[Token], tail: Sequence[Token], left: Token, right: Token, a: Claim, b: Claim) -> bool:
    """Whether only one name can stand in the place: where one lives, what the editor is, who owns it."""
    if not head:
        said = {" ".join(claim.text.split()[:8]) for claim in (a, b)}
        return bool(tail) and all(IS_THE.match(text) for text in said)
    if left.key in PLATFORMS or right.key in PLATFORMS:
        return False
    if (left.key in COUNTRIES) != (right.key in COUNTRIES):
        return False
    for claim, place in ((a, left), (b, right)):
        before = claim.text[: claim.text.find(place.text)]
        if not (ONE_PLACE.search(before) or THE_IS.match(before)):
            return False
    return True


def _akin(left: Sequence[Token], right: Sequence[Token]) -> bool:
    """One name in two spellings, or a part of the other."""
    one, other = "".join(token.key for token in left), "".join(token.key for token in right)
    if one.startswith(other) or other.startswith(one):
        return True
    return min(len(one), len(other)) >= LONG and SequenceMatcher(None, one, other).ratio() > 0.8


def _one_matter(
    a: Claim, b: Claim, one: Read, other: Read, left: Sequence[Token], right: Sequence[Token], shared: int, what: str
) -> bool:
    """Whether both claims speak of the same thing under the same conditions, as far as their surroundings tell."""
    mine, others = ({token.key for token in place if token.sort is not Sort.JOIN} for place in (left, right))
    named = bool(one.title and other.title) and (one.title - mine <= other.title or other.title - others <= one.title)
    plain = bool(left) and bool(COPULAS & set(left[0].lead.split())) and (named or what == "opposite")
    if shared < (1 if plain or what in ("value", "order") else ENOUGH):
        return False
    if what not in ("negation", "order", "opposite") and (mine & other.said or others & one.said):
        return False  # each knows of the other's value, so it is about both
    around, about = a.around | one.title, b.around | other.title
    if (around - mine) & QUALIFIERS != (about - others) & QUALIFIERS:
        return False
    apart, over = one.title - other.said - mine, other.title - one.said - others
    if apart and over:
        if a.vague or b.vague or shared < ALIKE:
            return False
        return not (apart & one.marked and over & other.marked)
    return True
