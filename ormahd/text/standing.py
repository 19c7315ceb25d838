"""How two memories relate: the newer replaced the older, they say the same, or both hold. Pure.

`text.statement.read_statement` reads each memory, `compute_evidence` computes the features of the pair, and `compare`
computes from these the probability of each relation, by a multinomial logistic regression. `python -m
tests.quality.standing --fit` fits its weights and thresholds (`standing_weights.json`).

In this module *the other side* is the other memory of the pair. A key is *matched* if the other side has it, or
another form of the same word; `matched_old` and `matched_new` are those of the older and the newer memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from enum import StrEnum
from functools import cache
from importlib import resources
from itertools import product
from operator import mul

from msgspec import Struct
from msgspec.structs import astuple

from ormahd.model.node import NodeType
from ormahd.text.facts import VALUES, Sort
from ormahd.text.quoting import shortened
from ormahd.text.statement import OPPOSITES, Sentence, Statement, Token
from ormahd.text.words import are_alike

HAPPENINGS = frozenset({NodeType.EVENT, NodeType.OBSERVATION})
"""Types of memories about a moment. Two such memories rarely contradict each other."""
COMPARED = 4
"""Number of pairs of sentences that are aligned word by word: those that have most words in common."""


class Mismatch(Struct, frozen=True):
    """A place where two aligned sentences have different tokens."""

    old: tuple[Token, ...]
    """The tokens of the older memory's sentence there."""
    new: tuple[Token, ...]
    """The tokens of the newer memory's sentence there."""
    head: bool
    """Whether the place is in the subject of both sentences."""


class Aligned(Struct, frozen=True):
    """A sentence of the older memory (`older`) and one of the newer (`newer`), aligned word by word."""

    older: Sentence
    newer: Sentence
    shared: float
    """Sum of the weights of the common tokens."""
    share: float
    """`shared` / the sum of the weights of all tokens of the lighter sentence."""
    places: tuple[Mismatch, ...]
    """The places where each sentence has at least one token that the other has not."""
    more: float
    less: float
    """Sum of the weights of the tokens that were inserted (`more`) or removed (`less`) elsewhere in the newer
    sentence."""


class Features(Struct, frozen=True):
    """What the relation of two memories is computed from. Shares are of the words' weights, from 0 to 1."""

    cosine: float
    """The cosine of their vectors."""
    cover_least: float
    cover_most: float
    """The share of a memory's words that the other one has: of the memory with the smaller and the larger share."""
    subject: float
    """The share of a memory's subjects and title that the other one has: the larger of both shares."""
    predicate_old: float
    predicate_new: float
    """The share of the words behind the subjects of the older and the newer memory that the other one has."""
    slot: float
    """The largest share of common words around two different values of one sort and unit."""
    swap: float
    """The share of common words of two sentences that have different values or names at one place."""
    only: float
    """The same share, but only of two sentences that differ at one place, whatever its words."""
    change: float
    """What a sentence of the newer memory that asserts a change has in common with the older memory."""
    former: float
    """The weight of a memory's values that the other one names as former: "instead of", "from … to", "is gone"."""
    apart: float
    """Number of signs that they are about different cases: places, numbered things, conditions, moments."""
    own: float
    """Whether both are about the user's home, or both about the user's work."""
    talk: float
    """The larger share of sentences that ask, exclaim or address somebody."""
    equal: float
    """The smaller share of common words, cubed, without what differs in values or negation."""


class StandingEvidence(Struct, frozen=True):
    """The features of two memories, and the words in which they differ."""

    features: Features
    related: bool
    """Whether the newer one asserts something, they have a subject, a slot or a value in common, or both are about the
    user's home or work, and each has words that the other lacks, or one denies or changes what the other says. Without
    it neither replaced the other."""
    best: Aligned | None
    """The pair of sentences with most in common; None if no two can be aligned."""
    rivals: tuple[tuple[Token, Token], ...]
    """(value in the older memory, other value of the same sort and unit in the newer one)."""


def compute_evidence(older: Statement, newer: Statement, cosine: float) -> StandingEvidence:
    """Return the features of a pair of memories, and the words in which they differ. `cosine`: between their
    vectors."""
    old, new = older.keys, newer.keys
    matched_old, matched_new = _matched(old, new), _matched(new, old)
    covers = sorted((_share(old, matched_old), _share(new, matched_new)))
    subject = max(
        len(keys & matched) / len(keys) if keys else 0.0
        for keys, matched in ((older.head, matched_old), (newer.head, matched_new))
    )
    tail_old, tail_new = _tail(older), _tail(newer)
    aligned = _aligned(older, newer)
    rivals, slot = _rivals(older, newer, matched_old, matched_new)
    asserted = [sentence for sentence in newer.sentences if sentence.asserted]

    # The places in which two sentences differ, behind their subjects.
    places = [(two, place) for two in aligned for place in two.places if not place.head]
    swap = 0.0  # both sides of a place have a value, or both have a name
    for two, place in places:
        sorts_old, sorts_new = {token.sort for token in place.old}, {token.sort for token in place.new}
        if (sorts_old & VALUES and sorts_new & VALUES) or Sort.NAME in sorts_old & sorts_new:
            swap = max(swap, two.share / len(two.places))
    only = max((two.share / (1.0 + two.more + two.less) for two, _ in places if len(two.places) == 1), default=0.0)

    # A change counts more, the more its sentence has in common with the older memory.
    changes = [sentence.tokens for sentence in asserted if sentence.changed]
    common = [sum(token.weight for token in tokens if token.key in matched_new) for tokens in changes]
    change = max((min(1.0, 0.25 + 0.25 * weight) for weight in common), default=0.0)

    former = _former_weight(older, newer)
    sides = [(pair & older.plain, pair & newer.plain) for pair in OPPOSITES]
    opposite = any(len(old_side) == len(new_side) == 1 and old_side != new_side for old_side, new_side in sides)
    denied = opposite or older.negated != any(sentence.negated for sentence in asserted)
    labels_old, labels_new = older.labels & old.keys(), newer.labels & new.keys()
    elsewhere = older.places - newer.plain and newer.places - older.plain
    numbered = labels_old - labels_new and labels_new - labels_old
    conditional = older.conditions - newer.plain and newer.conditions - older.plain
    apart = bool(elsewhere or numbered) + bool(conditional) + ({older.type, newer.type} <= HAPPENINGS)
    own = older.about_self and newer.about_self and bool(older.domains & newer.domains)
    features = Features(
        cosine=cosine,
        cover_least=covers[0],
        cover_most=covers[1],
        subject=subject,
        predicate_old=_share(tail_old, tail_old.keys() & matched_old),
        predicate_new=_share(tail_new, tail_new.keys() & matched_new),
        slot=slot,
        swap=swap,
        only=only,
        change=change,
        former=min(1.5, former),
        apart=apart,
        own=own,
        talk=max(older.talk, newer.talk),
        equal=covers[0] ** 3 * (1.0 - max(min(1.0, slot), swap, denied)),
    )
    differs = bool(old.keys() - matched_old and new.keys() - matched_new) or denied or change > 0.0 or former > 0.0
    about_one_thing = bool(slot or swap or subject or former or own)
    asserts = any(sentence.asserted for sentence in _content(newer))
    related = differs and features.equal < WHOLE and asserts and about_one_thing
    best = aligned[0] if aligned else None
    return StandingEvidence(features=features, related=related, best=best, rivals=rivals)


def _matched(keys: Mapping[str, float], others: Mapping[str, float]) -> frozenset[str]:
    """Return those of `keys` that are in `others`, or are another form of a word in `others`."""
    found = {key for key in keys if key in others}
    starts: dict[str, list[str]] = {}
    for other in others:
        if len(other) >= 3:
            starts.setdefault(other[:3], []).append(other)
    for key in keys:
        if key not in found and any(are_alike(key, other) for other in starts.get(key[:3], ())):
            found.add(key)
    return frozenset(found)


def _share(keys: Mapping[str, float], matched: Iterable[str]) -> float:
    """Return the sum of the weights of `matched` as a share of the sum of all weights in `keys`; 0 if `keys` is
    empty."""
    total = sum(keys.values())
    return sum(keys[key] for key in matched) / total if total else 0.0


def _rivals(
    older: Statement, newer: Statement, matched_old: frozenset[str], matched_new: frozenset[str]
) -> tuple[tuple[tuple[Token, Token], ...], float]:
    """Return (pairs of values that may exclude each other, the largest share of a common slot). The best pair comes
    first.

    Two values are rivals if they have one sort and unit, neither is in the other memory, and the words around them have
    a key in common. These words, of the sentence and the title, are the *slot*; its share is the share of common words.
    A pair has the older memory's value first.
    """
    found: list[tuple[float, tuple[Token, Token]]] = []
    news = [place for place in _slots(newer) if place[0].key not in matched_new]
    for value, around in _slots(older):
        for other, beside in news if value.key not in matched_old else ():
            if value.sort is other.sort and value.unit == other.unit:
                shared = sum(around[key] for key in _matched(around, beside))
                least = max(2.0, min(sum(around.values()), sum(beside.values())))
                if shared:
                    found.append((shared / least, (value, other)))
    found.sort(key=lambda match: -match[0])
    return tuple(pair for _, pair in found), found[0][0] if found else 0.0


def _slots(statement: Statement) -> list[tuple[Token, dict[str, float]]]:
    """Return (value, words around it: those of its sentence and of the title) for each value of a memory."""
    title = statement.sentences[0].tokens if statement.titled else ()
    found = []
    for sentence in statement.sentences:
        values = [token for token in sentence.tokens if token.sort in VALUES and sentence.asserted]
        around = [other for other in (*title, *sentence.tokens) if other.sort not in VALUES] if values else []
        found += [(token, {other.key: other.weight for other in around}) for token in values]
    return found


def _former_weight(statement: Statement, other: Statement) -> float:
    """Return the sum of the weights of values in `statement` that `other` names as former."""
    values: dict[str, float] = {}
    for sentence in statement.sentences:
        named = [token for token in sentence.tokens[: sentence.head] if token.sort in {*VALUES, Sort.NAME}]
        values |= {token.key: token.weight for token in (*named, *sentence.tokens[sentence.head :])}
    return sum(values[key] for key in _matched(values, dict.fromkeys(other.former, 1.0)))


def _content(statement: Statement) -> tuple[Sentence, ...]:
    """Return the sentences of a memory without its title."""
    return statement.sentences[statement.titled and len(statement.sentences) > 1 :]


def _tail(statement: Statement) -> dict[str, float]:
    """Return {key: weight} of the tokens after the subject of each sentence of the content."""
    return {token.key: token.weight for sentence in _content(statement) for token in sentence.tokens[sentence.head :]}


def _aligned(older: Statement, newer: Statement) -> list[Aligned]:
    """Return the pairs of sentences with most words in common, at most `COMPARED`, each aligned; the closest first.

    The newer memory must assert its sentence of the pair. A title is aligned with a title only.
    """
    pairs = [*product(_content(older), _content(newer))]
    if older.titled and newer.titled:
        pairs.append((older.sentences[0], newer.sentences[0]))
    rough = []
    for at, (old, new) in enumerate(pairs):
        keys = {token.key for token in new.tokens}
        shared = sum(token.weight for token in old.tokens if token.key in keys)
        if old.tokens and new.tokens and new.asserted:
            rough.append((shared, -at, old, new))
    rough.sort(key=lambda row: row[:2], reverse=True)
    found = [_align(old, new) for _, _, old, new in rough[:COMPARED]]
    return sorted(found, key=lambda aligned: (-aligned.share * min(aligned.shared, 2.0), len(aligned.places)))


def _align(older: Sentence, newer: Sentence) -> Aligned:
    """Return two sentences aligned word by word."""
    ours = [token.key for token in older.tokens]
    theirs = [_same_word(token.key, ours) for token in newer.tokens]
    places: list[Mismatch] = []
    more = less = shared = 0.0
    for what, a, b, c, d in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if what == "equal":
            shared += sum(token.weight for token in older.tokens[a:b])
        elif what == "replace":
            old, new = older.tokens[a:b], newer.tokens[c:d]
            # "Node 18 is required": 18 is a value, although it is before the verb
            valued = any(token.sort in VALUES for token in (*old, *new))
            places.append(Mismatch(old, new, b <= older.head and d <= newer.head and not valued))
        elif what == "insert":
            more += sum(token.weight for token in newer.tokens[c:d])
        else:
            less += sum(token.weight for token in older.tokens[a:b])
    whole = min(sum(token.weight for token in side.tokens) for side in (older, newer))
    return Aligned(older, newer, shared, shared / whole if whole else 0.0, tuple(places), more, less)


def _same_word(key: str, keys: Sequence[str]) -> str:
    """Return the key in `keys` that is another form of the word `key`; `key` itself if there is none."""
    if key in keys:
        return key
    begins = key[:3]  # forms of one word begin alike
    return next((known for known in keys if known[:3] == begins and are_alike(key, known)), key)


RULES = frozenset({NodeType.PREFERENCE, NodeType.DECISION, NodeType.PROCEDURE, NodeType.GOAL})
"""Types of memories that are rules. A rule of one space need not hold elsewhere, so it is not compared with a global
memory, nor a global rule with a memory of a space."""
REPLACED_AT = 0.95
"""Minimum probability at which a memory counts as replaced. Below it both are shown, and nothing is suggested."""
NEWER_AT = 0.2
"""Minimum probability at which the newer memory is placed directly before the older one."""
WHOLE = 0.85
"""Minimum of the feature `equal` (the share of common words, cubed, without differences in values) from which two
memories say the same, whatever the fitted probability."""
VALUE = 60
"""Maximum number of characters of a subject or value that are shown."""


class Relation(StrEnum):
    """How a newer memory relates to an older one."""

    REPLACED = "replaced"
    """The newer memory makes the older one false."""
    BOTH = "both"
    """Both hold. They need not be about the same thing."""
    SAME = "same"
    """They say the same."""


class Compared(Struct, frozen=True):
    """The result of comparing two memories: how they relate.

    `replaced`, `same`: the probabilities of these relations.
    """

    replaced: float
    same: float
    verdict: Relation
    """The relation that is assumed; by thresholds, so not always the most probable one."""
    subject: str = ""
    old: str = ""
    new: str = ""
    """The difference, as shown to people: the common `subject`, and the words for its `old` and `new` value."""


class Weights(Struct, frozen=True):
    """The weights and thresholds of the fitted logistic regression."""

    constants: dict[str, float]
    """`{relation: constant}`."""
    weights: dict[str, tuple[float, ...]]
    """`{relation: weights, in the order of `Features` and of their products}`."""
    same_at: float
    """Minimum probability for the verdict SAME."""


def comparable(kind: NodeType, space: str | None, other_kind: NodeType, other_space: str | None) -> bool:
    """Return whether two memories may contradict each other. `kind`, `other_kind`: their types.

    They may if both are in one space, or if one is global and neither has a type in `RULES`.
    """
    if space == other_space:
        return True
    return (space is None or other_space is None) and not RULES & {kind, other_kind}


def compare(older: Statement, newer: Statement, cosine: float) -> Compared:
    """Return how `newer` relates to `older`. `cosine`: between their vectors."""
    # the probability of each relation (softmax of the logits)
    evidence = compute_evidence(older, newer, cosine)
    fitted = weights()
    values = with_products(astuple(evidence.features))
    logits = {
        relation: fitted.constants[relation] + sum(map(mul, fitted.weights[relation], values)) for relation in Relation
    }
    largest = max(logits.values())
    powers = {relation: math.exp(logit - largest) for relation, logit in logits.items()}
    total = sum(powers.values())
    chance = {relation: power / total for relation, power in powers.items()}
    if not evidence.related:
        chance[Relation.REPLACED] = 0.0

    # the verdict
    subject, old, new = _difference(evidence)
    if chance[Relation.REPLACED] >= REPLACED_AT:
        verdict = Relation.REPLACED
    elif chance[Relation.SAME] >= fitted.same_at or evidence.features.equal >= WHOLE:
        verdict = Relation.SAME
    else:
        verdict = Relation.BOTH
    return Compared(chance[Relation.REPLACED], chance[Relation.SAME], verdict, subject, old, new)


def with_products(values: Sequence[float]) -> list[float]:
    """Return the features of a pair, followed by the product of each two of them, also of each with itself.

    So a change can count more where the subject is common.
    """
    return [*values, *(value * other for at, value in enumerate(values) for other in values[at:])]


@cache
def weights() -> Weights:
    """Return the fitted logistic regression. Its file is read once."""
    row = json.loads(resources.files(__package__).joinpath("standing_weights.json").read_bytes())
    fitted = {name: tuple(listed) for name, listed in row["weights"].items()}
    return Weights(constants=row["constants"], weights=fitted, same_at=row["same_at"])


def _difference(evidence: StandingEvidence) -> tuple[str, str, str]:
    """Return (common subject, old value, new value) as texts for people; empty strings if unknown."""
    best = evidence.best
    if best is None:
        return "", "", ""
    known = {token.key for token in best.newer.tokens}
    subject = _joined(tuple(token for token in best.older.tokens if token.key in known))
    if evidence.rivals:
        old, new = evidence.rivals[0]
        return subject, _joined((old,)), _joined((new,))
    places = [place for place in best.places if not place.head] or list(best.places)
    if places:
        return subject, _joined(places[0].old), _joined(places[0].new)
    return subject, "", ""


def _joined(tokens: tuple[Token, ...]) -> str:
    """Return tokens as one text for people: at most `VALUE` characters, Chinese characters without spaces between
    them."""
    gap = "" if tokens and all(token.sort is Sort.HAN for token in tokens) else " "
    text = gap.join(token.text for token in tokens)
    return shortened(text, VALUE)
