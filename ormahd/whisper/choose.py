"""Choose the few candidates that are whispered. Each step drops some of them and records the reason in `dropped`.

Steps in order: `judge`, `heed`, `floor`, `boost`, `timely`, `identity`, `unknown`, `gate`, `choose`, `standing`,
`explore`, `arrange`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from ormahd.index.rows import NodeRow
from ormahd.model.chance import after_feedback, log_odds
from ormahd.search.gather import kinds
from ormahd.search.shape import certainty
from ormahd.settings import WhisperSettings
from ormahd.text.sameness import says_the_same
from ormahd.whisper.affinity import Verdict
from ormahd.whisper.gather import Pool
from ormahd.whisper.types import Asked, Before, Candidate, Heard, Intent, Shown, context_key

LEAST_RELEVANCE: Final = 0.10
"""Relevance below which a candidate is dropped early, unless `whisper.injection_gate` is lower."""
LOG_RELEVANCE: Final = 0.07
"""Relevance (after feedback) from which a candidate is logged, so that feedback can refer to it; never above the
gate."""
TEMPORAL_RELEVANCE = 0.03
"""The same for a prompt that asks for a time. It is lower, because a memory of that time is evidence in itself."""
ONE_TRAIT = 1.25
"""For a prompt about one trait of the user: largest difference of log odds to the most relevant memory."""
PREFERENCES = 2
"""Largest number of standing preferences in one whisper: they are added, the answer is the rest."""
PREFERENCE_GATE = 0.3
"""Gate for standing preferences. It is lower, because a preference applies to a task without sharing its words."""
SOURCE_GATE = 0.5
"""Gate for sections of files in the person's folders, as high as that for archived memories."""
FULL_NODES = 2
"""Number of memories that are quoted in full; the others are shown by title."""
BELOW_GATE = "gate: relevance"
"""Beginning of the `dropped` reason of candidates below the gate. Exploration picks one of these."""


def alive(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates that no stage has dropped."""
    return [one for one in candidates if one.dropped is None]


def judge(pool: Pool, heard: Heard, settings: WhisperSettings) -> None:
    """Compute the relevance of each candidate and preference from its text, its confidence and its space; and its gate,
    the relevance from which it is told.

    For a prompt about the user, memories linked to the self node are relevant even if they share no word with it.
    Memories of another space get a low relevance (`OTHER_SPACES`), unless the prompt names that space. For a prompt that
    asks for a time, all that `floor` keeps pass the gate, except archived ones and sections of files.
    """
    about_user = heard.scores.get(Intent.IDENTITY.value, 0.0) if Intent.IDENTITY in heard.intents else 0.0
    standing = {id(one) for one in pool.preferences}  # these must match by their text
    for one in (*pool.candidates, *pool.preferences):
        one.numbers["text"] = one.relevance
        linked = about_user if one.id in pool.identity and id(one) not in standing else 0.0
        one.numbers["identity"] = linked
        one.numbers["certain"] = certain = certainty(one.row.confidence)
        one.relevance = max(one.relevance, linked) * certain * one.numbers["place"]
        one.order = one.score
        if one.source in ("activated", "conflict") and not linked:
            one.dropped = "gather: it came by an edge; its own text was not found"
        usual = PREFERENCE_GATE if id(one) in standing else 0.0 if heard.temporal else settings.injection_gate
        one.numbers["gate"] = max(usual, SOURCE_GATE * one.row.from_source, settings.archive_gate * one.archived)


def heed(candidates: Iterable[Candidate], verdicts: Mapping[str, Verdict], asked: Asked) -> None:
    """Record each explicit judgement in the candidate's `numbers`. `verdicts`: `{node id: verdict}` for this prompt.

    A positive verdict on a memory of another project is ignored if it was given in another project than the caller's:
    there the same words may have asked for something else.
    """
    for one in candidates:
        said = verdicts.get(one.id)
        if said is not None and (said.signal < 0 or useful(said, one.row, asked)):
            one.numbers["verdict"] = float(said.signal)
            one.numbers["verdict_cosine"] = said.cosine


def useful(verdict: Verdict, row: NodeRow, asked: Asked) -> bool:
    """Return whether a verdict says that a memory is useful for this prompt of this caller, see `heed`."""
    return verdict.signal > 0 and (asked.at_home(row.space) or verdict.judgement.space == asked.space)


def log_relevance(settings: WhisperSettings) -> float:
    """Return the minimum relevance of a candidate that is written to the whisper log."""
    return min(LOG_RELEVANCE, settings.injection_gate)


def floor(candidates: Iterable[Candidate], heard: Heard, settings: WhisperSettings) -> None:
    """Drop candidates less relevant than `LEAST_RELEVANCE` (`TEMPORAL_RELEVANCE` if the prompt asks for a time)."""
    least = min(TEMPORAL_RELEVANCE if heard.temporal else LEAST_RELEVANCE, settings.injection_gate)
    for one in alive(candidates):
        if one.relevance < least and one.source != "temporal" and not one.wanted:
            one.dropped = f"floor: relevance {one.relevance:.3f} below {least}"


def boost(candidates: Iterable[Candidate], boosts: Mapping[str, float], settings: WhisperSettings) -> None:
    """Add each candidate's affinity to its relevance. Drop it if judged of no use, or if then below `log_relevance`.

    `boosts`: `{node id: boost}`.
    """
    logged = log_relevance(settings)
    for one in alive(candidates):
        delta = boosts.get(one.id, 0.0)
        one.numbers["before_feedback"] = one.relevance
        one.numbers["affinity"] = delta
        one.relevance = after_feedback(one.relevance, delta)
        one.order += delta
        if one.numbers.get("verdict", 0.0) < 0:
            cosine = one.numbers["verdict_cosine"]
            one.dropped = f"feedback: said to be of no use for a prompt that means the same (cosine {cosine:.2f})"
        elif one.relevance < logged and one.source != "temporal" and not one.wanted:
            one.dropped = f"affinity: relevance {one.relevance:.3f} below {logged}"


def timely(candidates: Sequence[Candidate], heard: Heard, asked: Asked, *, topical: bool) -> None:
    """For a prompt that asks for a time: drop some of the candidates that were found only by their time.

    Those of another space are dropped. If the prompt also has a topic (`topical`), and the search found candidates
    for it, all are dropped.
    """
    if not heard.temporal:
        return
    about = any(one.source == "search" for one in alive(candidates)) and topical
    for one in alive(candidates):
        if one.source != "temporal":
            continue
        if not asked.at_home(one.row.space):
            one.dropped = "time: of another space"
        elif about:
            one.dropped = "time: others of that time are about the topic"


def identity(candidates: Sequence[Candidate], heard: Heard, settings: WhisperSettings) -> None:
    """For a prompt about the user alone: drop candidates that belong to a space, if there are global ones.

    If the most relevant text reaches `log_relevance`, the prompt asks for a single trait of the user. Then candidates
    whose text is far less relevant are dropped.
    """
    if not heard.identity_only:
        return
    left = alive(candidates)
    if any(one.row.space is None for one in left):
        for one in left:
            if one.row.space is not None and not one.wanted:
                one.dropped = "identity: not global"
    left = alive(candidates)
    best = max((one.numbers["text"] for one in left), default=0.0)
    if best >= log_relevance(settings):  # the prompt asks for one trait, not for all
        for one in left:
            if log_odds(one.numbers["text"]) < log_odds(best) - ONE_TRAIT and not one.wanted:
                one.dropped = "identity: others fit the words"


def unknown(candidates: Sequence[Candidate], before: Before) -> float:
    """Drop candidates that the session's context already contains, and candidates that say the same as one of those.

    Return the largest relevance of a candidate that the context contains, or 0.
    """
    known = [one for one in alive(candidates) if context_key(one.row) in before.known]
    for one in known:
        one.dropped = "session: its context holds it already"
    for one in alive(candidates) if known else ():
        if _twin(one, known) is not None:
            one.dropped = "session: its context holds one that says the same"
    return max((one.relevance for one in known), default=0.0)


def silenced(candidates: Iterable[Candidate], settings: WhisperSettings) -> bool:
    """Return whether a candidate that reached the gate was dropped because it had been judged of no use."""
    return any(
        one.numbers.get("verdict", 0.0) < 0 and one.numbers.get("before_feedback", 0.0) >= settings.injection_gate
        for one in candidates
    )


def gate(candidates: Iterable[Candidate]) -> None:
    """Drop candidates with a relevance below their gate, unless they were judged useful for such a prompt."""
    for one in alive(candidates):
        if one.relevance < one.numbers["gate"] and not one.wanted:
            kind = "archive" if one.archived else "source" if one.row.from_source else "gate"
            one.dropped = f"{kind}: relevance {one.relevance:.3f} below {one.numbers['gate']:g}"


def resting(candidates: Sequence[Candidate], settings: WhisperSettings) -> Candidate | None:
    """Return the most relevant of the candidates that were dropped because they are archived, or None."""
    held = [
        one for one in candidates
        if (one.dropped or "").startswith("archive") and one.relevance >= settings.injection_gate
    ]  # fmt: skip
    return max(held, key=lambda one: (one.relevance, one.id), default=None)


def choose(candidates: Sequence[Candidate], heard: Heard, settings: WhisperSettings) -> list[Candidate]:
    """Return the best candidates of those that passed the gate, the most relevant first, and drop the others.

    First come those that were judged useful for such a prompt. For a prompt that asks for a time: memories of the types
    that the prompt names, then those of this space, then the newest.
    """
    wished = kinds(heard.prompt) if heard.temporal else frozenset()
    chosen: list[Candidate] = []
    for one in sorted(
        alive(candidates),
        key=lambda one: (
            not one.wanted,
            one.row.type not in wished,
            -one.row.created.timestamp() if heard.temporal else 0.0,
            -one.relevance,
            -one.order,
            one.id,
        ),
    ):
        if _joins(one, chosen):
            continue
        if len(chosen) >= settings.max_nodes:
            one.dropped = f"gate: beyond the {settings.max_nodes} best"
        else:
            chosen.append(one)
    if heard.temporal:
        chosen.sort(
            key=lambda one: (
                one.row.type not in wished,
                -one.numbers.get("space", 1.0),
                -one.row.created.timestamp(),
                one.id,
            )
        )
    return chosen


def _joins(one: Candidate, chosen: Iterable[Candidate]) -> bool:
    """Drop `one` if a chosen candidate says the same, and count it in that candidate's `also`. Return whether it was
    dropped."""
    twin = _twin(one, chosen)
    if twin is None:
        return False
    twin.also += 1
    one.dropped = f"same: {twin.row.short_id} says the same"
    return True


def _twin(one: Candidate, others: Iterable[Candidate]) -> Candidate | None:
    said = (one.row.title, one.row.content)
    return next((other for other in others if says_the_same((other.row.title, other.row.content), said)), None)


def standing(preferences: Sequence[Candidate], chosen: Sequence[Candidate]) -> list[Candidate]:
    """Return the standing preferences that apply to the prompt's task, without those in `chosen`; drop the others."""
    there = {one.id for one in chosen}
    left = [one for one in alive(preferences) if one.id not in there]
    left.sort(key=lambda one: (-one.relevance, one.id))
    found: list[Candidate] = []
    for one in left:
        if _joins(one, [*chosen, *found]):
            continue
        if len(found) >= PREFERENCES:
            one.dropped = f"preference: beyond the {PREFERENCES} best"
        else:
            found.append(one)
    return found


def explore(candidates: Sequence[Candidate], chosen: Collection[Candidate], judged: Collection[str], *, room: int) -> Candidate | None:  # fmt: skip
    """Return the best candidate below the gate, to be shown for feedback on it; None if there is none.

    `judged`: ids of memories that are not picked, such as those with feedback on similar prompts. `room`: number of
    memories that may still be shown. Returns None if no memory was chosen.
    """
    if not chosen or room <= 0:
        return None
    held = [
        one for one in candidates
        if one.dropped is not None and one.dropped.startswith(BELOW_GATE) and one.id not in judged
    ]  # fmt: skip
    best = max(held, key=lambda one: (one.order, one.id), default=None)
    if best is not None:
        best.dropped = None
    return best


def arrange(
    chosen: Sequence[Candidate],
    preferences: Sequence[Candidate],
    exploring: Candidate | None,
    settings: WhisperSettings,
) -> list[Candidate]:
    """Return the memories in the order in which they are shown, and set how each is `shown`.

    First the chosen memories (the first `FULL_NODES` in full), then the preferences, then `exploring`.
    """
    room = settings.max_nodes - len(preferences) - (exploring is not None)
    listed = list(chosen[: max(room, 1)])
    for one in chosen[len(listed) :]:
        one.dropped = "gate: preferences took the place"
    number = 0
    for one in listed:
        one.shown = "title" if one.older_than else _shown(number)  # a replaced memory is shown by title
        number += not one.older_than
    for one in preferences:
        one.shown = "title" if one.older_than else "preference"
    if exploring is not None:
        exploring.shown = "exploring"
    return [*listed, *preferences, *([exploring] if exploring is not None else [])]


def _shown(number: int) -> Shown:
    return "full" if number < FULL_NODES else "title"
