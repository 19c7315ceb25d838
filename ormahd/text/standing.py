"""How two memories relate: the newer replaced the older, both hold, they say the same, or they are unrelated. Pure.

`text.statement.read` reads each memory, `weigh` computes the features of the pair, and `compare` computes from these
the probability of each relation, by a multinomial logistic regression. `python -m tests.quality.standing --fit` fits
its weights and thresholds (`standing_weights.json`).

In this module *the other side* is the other memory of the pair. A key is *matched* if the other side has it, or
another form of the same word; `met_old` and `met_new` are the matched keys of the older and the newer memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from enum import StrEnum
from functools import cache
from importlib import resources
from operator import mul

from msgspec import Struct

from ormahd.model.node import NodeType
from ormahd.text.facts import VALUES, Sort
from ormahd.text.quoting import shortened
from ormahd.text.statement import HAN_WEIGHT, Sentence, Statement, Token
from ormahd.text.statement_words import BOUNDS, OPPOSITES
from ormahd.text.words import alike

HAPPENINGS = frozenset({NodeType.EVENT, NodeType.OBSERVATION})
"""Types of memories about a moment. Two such memories rarely contradict each other."""
ALIKE = 0.45
"""Minimum cosine at which two texts may be about the same thing, if they have no word in common."""
NEARLY = 0.25
"""The same, if they have a word in common."""
SCRIPT = 0.85
"""The same, if one of the texts is Chinese."""
MOSTLY = 0.4
"""Minimum share of common words at which two texts may be about the same thing despite a low cosine, if one is
Chinese."""
COMPARED = 3
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
    """A sentence of the older memory (`one`) and one of the newer (`other`), aligned word by word."""

    one: Sentence
    other: Sentence
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


class StandingEvidence(Struct, frozen=True):
    """What the relation of two memories is computed from, and the words in which they differ."""

    related: bool
    """Whether they may be about the same thing."""
    numbers: dict[str, float]
    """`{name of a feature: value}`."""
    best: Aligned | None
    """The pair of sentences with most in common; None if no two can be aligned."""
    rivals: tuple[tuple[Token, Token], ...]
    """(value in the older memory, other value of the same sort and unit in the newer one)."""


def weigh(older: Statement, newer: Statement, cosine: float) -> StandingEvidence:
    """Return the features of a pair of memories, and how they differ. `cosine`: that of their vectors."""
    old, new = older.keys, newer.keys
    met_old, met_new = _met(old, new), _met(new, old)
    cover_old, cover_new = _share(old, met_old), _share(new, met_new)
    aligned = _aligned(older, newer)
    best = aligned[0] if aligned else None
    rivals = _rivals(older, newer, met_old, met_new)
    numbers = {
        "cosine": cosine, "near": max(0.0, cosine - 0.75) * 4, "far": max(0.0, 0.5 - cosine) * 2,
        "cover_old": cover_old, "cover_new": cover_new, "cover_least": min(cover_old, cover_new),
        "cover_most": max(cover_old, cover_new),
        "length": min(1.5, (len(old) + len(new)) / 40), "longer": min(1.0, abs(len(old) - len(new)) / 20),
        "chinese": float("zh" in (older.language, newer.language)),
    }  # fmt: skip
    numbers |= _subject(older, newer, met_old, met_new)
    numbers |= _valued(older, newer, rivals)
    numbers |= _where(best)
    numbers |= _done(older, newer)
    numbers |= _scope(older, newer)
    numbers |= _general(older, newer)
    numbers |= _said_last(older, newer)
    numbers |= _spoken(older, newer)
    numbers |= _combined(numbers)
    return StandingEvidence(
        _related(older, newer, cosine, sum(old[key] for key in met_old), numbers), numbers, best, rivals
    )


def _combined(numbers: Mapping[str, float]) -> dict[str, float]:
    """Return features that are products of others, such as a different value × the same subject."""
    about = max(numbers["subject"], numbers["cover_least"])
    changed = max(numbers["changed"], numbers["now"], numbers["turned"])
    return {
        "rivals_about": numbers["rival"] * about,
        "changed_about": changed * about,
        "changed_rival": changed * numbers["rival"],
        "changed_last_names": changed * numbers["last_names"], "changed_last_apart": changed * numbers["last_apart"],
        "changed_last_values": changed * numbers["last_values"], "changed_last_words": changed * numbers["last_words"],
        "last_names_about": numbers["last_names"] * about, "last_turned_about": numbers["last_turned"] * about,
        "changed_other_names": changed * numbers["other_names"],
        "changed_apart": changed * (1.0 - about),
        "changed_scope": changed * numbers["scope_apart"],
        "denied_about": numbers["denied"] * about,
        "owner_changed": numbers["owning"] * numbers["name_place"],
        "self_domain": numbers["self_both"] * numbers["domain_own"],
        "self_changed": numbers["self_both"] * numbers["domain_own"] * changed,
        "state_about": numbers["state_rival"] * about,
        "state_changed": numbers["state_rival"] * changed,
        "domain_rival": numbers["domain_share"] * numbers["rival"],
        "domain_changed": numbers["domain_share"] * changed,
        "dates_happened": numbers["happenings"] * max(numbers["rival_date"], numbers["rival_when"]) * (1.0 - numbers["changed"]),
        "turned_other_names": numbers["turned"] * numbers["other_names"] * numbers["heads_apart"],
        "rival_now": numbers["rival"] * max(numbers["now"], numbers["changed_alone"]),
        "rival_titles_apart": numbers["rival"] * numbers["titles_apart"],
        "changed_titles_apart": changed * numbers["titles_apart"],
        "own_changed": numbers["domain_own"] * changed * numbers["subject"],
        "rival_now_about": numbers["rival"] * max(numbers["now"], numbers["changed_alone"]) * about * (1.0 - numbers["scope_apart"]),
        "rival_far": numbers["rival"] * numbers["far"],
        "changed_far": changed * numbers["far"],
        "denied_far": numbers["denied"] * numbers["far"],
        "rival_aligned": numbers["rival"] * min(1.0, numbers["aligned"]),
        "changed_aligned": changed * min(1.0, numbers["aligned"]),
        "rival_long": numbers["rival"] * numbers["length"],
        "changed_long": changed * numbers["length"],
        "loose": float(numbers["rival"] > 0 and not numbers["rival_slot"] and not numbers["next_same"]),
        "only_value": numbers["one_place"] * numbers["value_place"] * (1.0 - max(numbers["scope_apart"], numbers["value_and_more"], numbers["bounds_apart"])),
        "only_value_slot": numbers["one_place"] * numbers["value_place"] * max(numbers["rival_slot"], numbers["next_same"]),
        "only_name": numbers["one_place_tail"] * numbers["name_place"] * numbers["aligned"],
        "only_word": numbers["one_place_tail"] * numbers["word_place"] * numbers["aligned"],
        "only_value_titled": numbers["one_place"] * numbers["value_place"] * numbers["titles_apart"],
        "only_head": numbers["one_place_head"] * numbers["aligned"],
        "only_owner": numbers["one_place"] * numbers["owning"] * numbers["name_place"],
        "only_living": numbers["one_place_tail"] * numbers["living"],
        "agree": about * (1.0 - numbers["rival"]) * (1.0 - changed) * (1.0 - numbers["denied"]),
        "agree_whole": numbers["cover_least"] ** 3 * (1.0 - numbers["rival"]) * (1.0 - numbers["denied"]) * (1.0 - max(numbers["opposite"], numbers["opposite_place"])),
        "near_agree": numbers["near"] * (1.0 - numbers["rival"]) * (1.0 - changed) * (1.0 - numbers["denied"]),
        "near_rival": numbers["near"] * numbers["rival"],
        "talk_rival": numbers["talk_most"] * numbers["rival"],
        "talk_changed": numbers["talk_most"] * changed,
        "talk_cosine": numbers["talk_most"] * numbers["cosine"],
        "talk_self": numbers["talk_most"] * numbers["self_both"],
        "sentences_rival": numbers["sentences"] * numbers["rival"],
        "sentences_changed": numbers["sentences"] * changed,
        "sentences_self": numbers["sentences"] * numbers["self_both"],
    }  # fmt: skip


def _related(older: Statement, newer: Statement, cosine: float, shared: float, numbers: Mapping[str, float]) -> bool:
    """Return whether two memories may be about the same thing.

    They are if their cosine is high enough (lower suffices with a shared word), or both are about the user's home or
    work. For Chinese texts more is needed, because the embedding model reads Chinese poorly and finds such texts
    similar. `shared`: sum of the weights of those keys of the older memory that the newer one has too.
    """
    if numbers["self_domain"]:
        return True
    if "zh" in (older.language, newer.language):
        return cosine >= SCRIPT or (shared >= 3 * HAN_WEIGHT and numbers["cover_most"] >= MOSTLY)
    if older.language != "en" or newer.language != "en":  # the model reads these less well: a cosine alone says little
        return cosine >= NEARLY and shared >= 1.0
    return cosine >= ALIKE or (cosine >= NEARLY and shared >= 1.0)


def _met(keys: Mapping[str, float], others: Mapping[str, float]) -> frozenset[str]:
    """Return those of `keys` that are in `others`, or are another form of a word in `others`."""
    found = {key for key in keys if key in others}
    starts: dict[str, list[str]] = {}
    for other in others:
        if len(other) >= 3:
            starts.setdefault(other[:3], []).append(other)
    for key in keys:
        if key not in found and any(alike(key, other) for other in starts.get(key[:3], ())):
            found.add(key)
    return frozenset(found)


def _share(keys: Mapping[str, float], met: Iterable[str]) -> float:
    total = sum(keys.values())
    return sum(keys[key] for key in met) / total if total else 0.0


def _subject(older: Statement, newer: Statement, met_old: frozenset[str], met_new: frozenset[str]) -> dict[str, float]:
    """Return features on a common subject: shares of words in titles and before verbs that both memories have."""
    found_old = len(older.head & met_old) / len(older.head) if older.head else 0.0
    found_new = len(newer.head & met_new) / len(newer.head) if newer.head else 0.0
    titles = bool(older.titled and newer.titled)
    same_title = titles and older.title == newer.title and bool(older.title)
    apart = titles and bool(older.title - met_old) and bool(newer.title - met_new)
    heads = bool(older.head - met_old) and bool(newer.head - met_new)
    return {
        "subject": max(found_old, found_new), "subject_both": min(found_old, found_new), "subject_none": float(not max(found_old, found_new)),
        "one_title": float(same_title), "titles_apart": float(apart), "heads_apart": float(heads),
    }  # fmt: skip


def _tokens(one: Statement) -> list[Token]:
    return [token for sentence in one.sentences for token in sentence.tokens]


def _rivals(
    older: Statement, newer: Statement, met_old: frozenset[str], met_new: frozenset[str]
) -> tuple[tuple[Token, Token], ...]:
    """Return (value in `older`, value in `newer`): same sort and unit, and neither is in the other memory."""
    old = [token for token in _tokens(older) if token.sort in VALUES and token.key not in met_old]
    new = [token for token in _tokens(newer) if token.sort in VALUES and token.key not in met_new]
    found = []
    for a in old:
        for b in new:
            if a.sort is b.sort and a.unit == b.unit:
                found.append((a, b))
                break
    return tuple(found)


def _valued(older: Statement, newer: Statement, rivals: Sequence[tuple[Token, Token]]) -> dict[str, float]:
    sorts = {a.sort for a, _ in rivals}
    old_values = {token.key for token in _tokens(older) if token.sort in VALUES}
    new_values = {token.key for token in _tokens(newer) if token.sort in VALUES}
    names_old = {token.key for token in _tokens(older) if token.sort is Sort.NAME}
    names_new = {token.key for token in _tokens(newer) if token.sort is Sort.NAME}
    labels_old = {token.key for token in _tokens(older) if token.sort is Sort.LABEL}
    labels_new = {token.key for token in _tokens(newer) if token.sort is Sort.LABEL}
    slot = any(a.lead == b.lead and a.lead for a, b in rivals)
    lone = len(rivals) == 1 and len(old_values) <= 2 and len(new_values) <= 2
    return {
        "rival": float(bool(rivals)), "rivals_many": float(len(rivals) > 1),
        "rival_slot": float(slot), "rival_lone": float(lone),
        "rival_number": float(Sort.NUMBER in sorts and any(not a.unit for a, _ in rivals)),
        "rival_unit": float(any(a.unit for a, _ in rivals)),
        "rival_when": float(bool(sorts & {Sort.TIME, Sort.WEEKDAY})), "rival_date": float(Sort.DATE in sorts),
        "rival_code": float(bool(sorts & {Sort.VERSION, Sort.ADDRESS})),
        "values_same": float(bool(old_values & new_values)),
        "values_kept": float(bool(old_values) and old_values == new_values),
        "bounds_apart": float(any(a.lead != b.lead and {a.lead, b.lead} <= BOUNDS for a, b in rivals)),
        "bounds_turned": float(any(
            a.key == b.key and a.lead != b.lead and {a.lead, b.lead} & BOUNDS
            for a in _tokens(older) if a.sort in VALUES for b in _tokens(newer) if b.sort in VALUES
        )),
        "next_same": float(any(a.next == b.next and a.next for a, b in rivals)),
        "next_apart": float(any(a.next != b.next and a.next and b.next for a, b in rivals)),
        "value_added": float(any(
            x.sort is y.sort and x.unit == y.unit
            for x in _tokens(newer) if x.sort in VALUES and x.key not in old_values
            for y in _tokens(newer) if y.sort in VALUES and y.key in old_values
        )),
        "value_one_sided": float(bool(old_values) != bool(new_values)),
        "other_names": float(bool(names_old - newer.keys.keys()) and bool(names_new - older.keys.keys())),
        "names_same": float(bool(names_old & names_new)),
        "labels_apart": float(bool(labels_old - labels_new) and bool(labels_new - labels_old)),
    }  # fmt: skip


def _aligned(older: Statement, newer: Statement) -> list[Aligned]:
    """Return the `COMPARED` pairs of sentences with most words in common, aligned, closest first. Titles are left
    out."""
    rough = []
    for at, one in enumerate(older.sentences):
        for place, other in enumerate(newer.sentences):
            titles = (older.titled and at == 0 and len(older.sentences) > 1) + (
                newer.titled and place == 0 and len(newer.sentences) > 1
            )
            if titles:
                continue
            keys = {token.key for token in other.tokens}
            shared = sum(token.weight for token in one.tokens if token.key in keys)
            if one.tokens and other.tokens:
                rough.append((shared, -at, -place, one, other))
    rough.sort(key=lambda row: row[:3], reverse=True)
    found = [_align(one, other) for _, _, _, one, other in rough[:COMPARED]]
    return sorted(found, key=lambda one: (-one.share * min(one.shared, 2.0), len(one.places)))


def _align(one: Sentence, other: Sentence) -> Aligned:
    ours = [token.key for token in one.tokens]
    theirs = [_like(token.key, ours) for token in other.tokens]
    places: list[Mismatch] = []
    more = less = shared = 0.0
    for what, a, b, c, d in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if what == "equal":
            shared += sum(token.weight for token in one.tokens[a:b])
        elif what == "replace":
            old, new = one.tokens[a:b], other.tokens[c:d]
            valued = any(
                token.sort in VALUES for token in (*old, *new)
            )  # "Node 18 is required": 18 is a value, although it is before the verb
            places.append(Mismatch(old, new, b <= one.head and d <= other.head and not valued))
        elif what == "insert":
            more += sum(token.weight for token in other.tokens[c:d])
        else:
            less += sum(token.weight for token in one.tokens[a:b])
    whole = min(sum(token.weight for token in side.tokens) for side in (one, other))
    return Aligned(one, other, shared, shared / whole if whole else 0.0, tuple(places), more, less)


def _like(key: str, keys: Sequence[str]) -> str:
    if key in keys:
        return key
    begins = key[:3]  # forms of one word begin alike
    return next((known for known in keys if known[:3] == begins and alike(key, known)), key)


def _where(best: Aligned | None) -> dict[str, float]:
    """Return features on how the closest sentences differ. `best`: these sentences, None if there are none."""
    if best is None:
        return dict.fromkeys(
            ("aligned", "one_place", "one_place_head", "one_place_tail", "name_place", "word_place", "value_place", "long_place",
             "only_more", "more", "less", "head_names", "opposite_place", "value_and_more", "more_values", "apart_twice", "names_twice", "equal"), 0.0,
        )  # fmt: skip
    one = len(best.places) == 1 and best.more + best.less < 0.5
    place = best.places[0] if best.places else None
    head = any(place.head for place in best.places)
    sorts = [({token.sort for token in place.old}, {token.sort for token in place.new}) for place in best.places]
    named = any(Sort.NAME in old and Sort.NAME in new for old, new in sorts)
    return {
        "aligned": best.share,
        "one_place": float(one) * best.share,
        "one_place_head": float(one and head), "one_place_tail": float(one and not head),
        "name_place": float(named),
        "word_place": float(best.share >= 0.5 and any(old <= {Sort.WORD} and new <= {Sort.WORD} for old, new in sorts)),
        "value_place": float(any(old & VALUES and new & VALUES for old, new in sorts)),
        "long_place": float(place is not None and len(place.old) + len(place.new) > 5),
        "only_more": float(not best.places and best.more > 0 and best.less == 0),
        "more": min(1.0, best.more / 3), "less": min(1.0, best.less / 3),
        "head_names": float(any(place.head and any(token.sort is Sort.NAME for token in place.old)
                                and any(token.sort is Sort.NAME for token in place.new) for place in best.places)),
        "opposite_place": float(any(
            frozenset((a.text.casefold(), b.text.casefold())) in OPPOSITES for place in best.places for a in place.old for b in place.new
        )),
        "value_and_more": float(any(
            old & VALUES and new & VALUES and old - VALUES and new - VALUES for old, new in sorts
        )),
        "more_values": float(any(
            sum(t.sort in VALUES for t in place.old) > 1 and sum(t.sort in VALUES for t in place.new) > 1 for place in best.places
        )),
        "apart_twice": float(best.share >= 0.3 and head and any(not place.head for place in best.places)),
        "names_twice": float(sum(Sort.NAME in old and Sort.NAME in new for old, new in sorts) > 1),
        "equal": float(not best.places and best.more + best.less == 0),
    }  # fmt: skip


def _done(older: Statement, newer: Statement) -> dict[str, float]:
    """Return features on whether the memories say that something changed, is not so, was added or happened."""
    turned = [
        token for sentence in newer.sentences for token in sentence.tokens
        if token.turned and any(token.key == key or alike(token.key, key) for key in older.keys)
    ]  # fmt: skip
    back = any(
        token.turned and any(token.key == key or alike(token.key, key) for key in newer.keys)
        for sentence in older.sentences for token in sentence.tokens
    )  # fmt: skip
    opposite = any(
        len(pair & older.plain) == 1 and len(pair & newer.plain) == 1 and pair & older.plain != pair & newer.plain
        and not pair <= older.plain | frozenset() and not pair <= newer.plain
        for pair in OPPOSITES
    )  # fmt: skip
    return {
        "changed": float(newer.changed), "changed_before": float(older.changed), "changed_alone": float(newer.changed and not older.changed),
        "now": float(newer.now and not older.now), "now_before": float(older.now),
        "turned": min(1.0, sum(token.weight for token in turned)), "turned_back": float(back),
        "gone": float(newer.gone), "denied": float(newer.negated != older.negated),
        "opposite": float(opposite), "added": float(newer.added and not older.added), "former": float(newer.former),
        "owning": float(older.owning or newer.owning), "living": float(older.living and newer.living),
        "preferring": float(older.preferring and newer.preferring),
        "past": float(newer.past and not newer.changed), "past_both": float(older.past and newer.past),
        "happenings": float(older.type in HAPPENINGS and newer.type in HAPPENINGS),
        "happened_before": float(older.type in HAPPENINGS), "types_differ": float(older.type is not newer.type),
        "turned_round": float(_turned_round(older, newer)),
    }  # fmt: skip


def _turned_round(older: Statement, newer: Statement) -> bool:
    """Return whether both state a preference, with the same words in another order: A rather than B, B rather than
    A."""
    if not (older.preferring and newer.preferring):
        return False
    for one in older.sentences:
        for other in newer.sentences:
            ours, theirs = [t.key for t in one.tokens], [t.key for t in other.tokens]
            if len(ours) >= 2 and ours != theirs and sorted(ours) == sorted(theirs):
                return True
            common = [key for key in ours if key in theirs]
            if len(common) >= 3 and common != [key for key in theirs if key in ours]:
                return True
    return False


def _scope(older: Statement, newer: Statement) -> dict[str, float]:
    """Return features on where, when and for whom the memories hold. If these differ, both may hold."""
    ours, theirs = older.places - newer.plain, newer.places - older.plain
    conditions = bool(older.conditions - newer.plain) and bool(newer.conditions - older.plain)
    return {
        "scope_apart": float(bool(ours) and bool(theirs)), "scope_one_sided": float(bool(ours) != bool(theirs)),
        "scope_same": float(bool(older.places & newer.places)),
        "conditions_apart": float(conditions or bool(older.conditions) != bool(newer.conditions)),
    }  # fmt: skip


def _said_last(older: Statement, newer: Statement) -> dict[str, float]:
    """Return features on the last tokens of the first sentences, which are usually the values."""
    old, new = _last(older), _last(newer)
    if old is None or new is None:
        return dict.fromkeys(("last_names", "last_values", "last_words", "last_apart", "last_turned", "last_kept"), 0.0)
    differ = not alike(old.key, new.key) and old.key != new.key
    turned = any(
        token.turned and (token.key == old.key or alike(token.key, old.key))
        for sentence in newer.sentences for token in sentence.tokens
    )  # fmt: skip
    same = old.sort is new.sort and old.unit == new.unit
    return {
        "last_names": float(differ and same and old.sort is Sort.NAME),
        "last_values": float(differ and same and old.sort in VALUES),
        "last_words": float(differ and same and old.sort is Sort.WORD),
        "last_apart": float(differ and not same), "last_turned": float(turned),
        "last_kept": float(any(old.key == key or alike(old.key, key) for key in newer.keys)),
    }  # fmt: skip


def _spoken(older: Statement, newer: Statement) -> dict[str, float]:
    """Return features on the share of talk (`Statement.talk`) and the number of sentences.

    People who talk rarely state that something changed.
    """
    return {
        "talk_old": older.talk, "talk_new": newer.talk, "talk_least": min(older.talk, newer.talk),
        "talk_most": max(older.talk, newer.talk),
        "sentences": min(1.0, max(0, older.count + newer.count - 2) / 8),
        "sentences_most": min(1.0, max(0, older.count - 1, newer.count - 1) / 4),
    }  # fmt: skip


def _last(one: Statement) -> Token | None:
    sentences = one.sentences[1:] if one.titled and len(one.sentences) > 1 else one.sentences
    return next((sentence.tokens[-1] for sentence in sentences if sentence.tokens), None)


def _general(older: Statement, newer: Statement) -> dict[str, float]:
    """Return features on the general topics of the memories, and on whether they are about the user."""
    both, either = older.domains & newer.domains, older.domains | newer.domains
    closed = {"home", "work", "price", "when", "owner"}
    return {
        "domain_share": len(both) / len(either) if either else 0.0,
        "domain_own": float(bool(both & {"home", "work"})),
        "domain_closed": float(bool(both & closed)), "domain_apart": float(not both),
        "state_rival": float(bool(older.states) and bool(newer.states) and not older.states & newer.states),
        "state_same": float(bool(older.states & newer.states)),
        "self_both": float(older.about_self and newer.about_self), "self_one": float(older.about_self != newer.about_self),
    }  # fmt: skip


RULES = frozenset({NodeType.PREFERENCE, NodeType.DECISION, NodeType.PROCEDURE, NodeType.GOAL})
"""Types of memories that are rules. A rule of one space need not hold elsewhere, so it is not compared with a global
memory, nor a global rule with a memory of a space."""
WHOLE = 0.85
"""Minimum of the feature `agree_whole` (the share of common words, cubed, without differences in values) from which two
memories say the same, whatever the fitted probability."""
VALUE = 60
"""Maximum number of characters of a subject or value that are shown."""


class Relation(StrEnum):
    REPLACED = "replaced"
    """The newer memory makes the older one false."""
    BOTH = "both"
    """They are about the same thing, and both hold."""
    SAME = "same"
    """They say the same."""
    UNRELATED = "unrelated"


class Compared(Struct, frozen=True):
    """The result of comparing two memories: how they relate.

    `replaced`, `both`, `same`, `unrelated`: the probabilities of the relations; their sum is 1.
    """

    replaced: float
    both: float
    same: float
    unrelated: float
    verdict: Relation
    """The relation that is assumed; by thresholds, so not always the most probable one."""
    subject: str = ""
    old: str = ""
    new: str = ""
    """The difference, as shown to people: the common `subject`, and the words for its `old` and `new` value."""


class Weights(Struct, frozen=True):
    """The weights and thresholds of the fitted logistic regression."""

    names: tuple[str, ...]
    """The names of the features."""
    constants: dict[str, float]
    """`{relation: constant}`."""
    weights: dict[str, tuple[float, ...]]
    """`{relation: weights, in the order of the features}`."""
    replaced_at: float
    same_at: float
    """Minimum probabilities for the verdicts REPLACED (`replaced_at`) and SAME (`same_at`)."""


def comparable(one: NodeType, space: str | None, other: NodeType, other_space: str | None) -> bool:
    """Return whether two memories may contradict each other: both are in one space, or one is global and the type of
    neither is in `RULES`. `one`, `other`: their types."""
    if space == other_space:
        return True
    return (space is None or other_space is None) and not RULES & {one, other}


def compare(older: Statement, newer: Statement, cosine: float) -> Compared:
    """Return how `newer` relates to `older`. `cosine`: between their vectors."""
    evidence = weigh(older, newer, cosine)
    told = weights()
    values = [evidence.numbers[name] for name in told.names]
    logits = {
        standing: told.constants[standing] + sum(map(mul, told.weights[standing], values)) for standing in Relation
    }
    most = max(logits.values())
    powers = {standing: math.exp(logit - most) for standing, logit in logits.items()}
    total = sum(powers.values())
    chance = {standing: power / total for standing, power in powers.items()}
    subject, old, new = _difference(evidence)
    return Compared(
        chance[Relation.REPLACED], chance[Relation.BOTH], chance[Relation.SAME], chance[Relation.UNRELATED],
        _verdict(evidence, chance, told), subject, old, new,
    )  # fmt: skip


def _verdict(evidence: StandingEvidence, chance: dict[Relation, float], told: Weights) -> Relation:
    if not evidence.related:
        return Relation.UNRELATED
    if chance[Relation.REPLACED] >= told.replaced_at:
        return Relation.REPLACED
    if chance[Relation.SAME] >= told.same_at or evidence.numbers["agree_whole"] >= WHOLE:
        return Relation.SAME
    return Relation.UNRELATED if chance[Relation.UNRELATED] > chance[Relation.BOTH] else Relation.BOTH


@cache
def weights() -> Weights:
    """Return the fitted logistic regression. Its file is read once."""
    row = json.loads(resources.files(__package__).joinpath("standing_weights.json").read_bytes())
    return Weights(
        tuple(row["names"]), row["constants"], {name: tuple(some) for name, some in row["weights"].items()},
        row["replaced_at"], row["same_at"],
    )  # fmt: skip


def _difference(evidence: StandingEvidence) -> tuple[str, str, str]:
    """Return (common subject, old value, new value) as texts for people; empty strings if unknown."""
    best = evidence.best
    if best is None:
        return "", "", ""
    subject = _said(_shared(best))
    if evidence.rivals:
        old, new = evidence.rivals[0]
        return subject, _said((old,)), _said((new,))
    places = [place for place in best.places if not place.head] or list(best.places)
    if places:
        return subject, _said(places[0].old), _said(places[0].new)
    return subject, "", ""


def _shared(best: Aligned) -> tuple[Token, ...]:
    known = {token.key for token in best.other.tokens}
    return tuple(token for token in best.one.tokens if token.key in known)


def _said(tokens: tuple[Token, ...]) -> str:
    gap = "" if tokens and all(token.sort is Sort.HAN for token in tokens) else " "
    said = gap.join(token.text for token in tokens)
    return shortened(said, VALUE)
