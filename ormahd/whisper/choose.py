"""Choose the few candidates that are whispered. Each step drops some of them and records the reason in `dropped`.

Steps in order: `compute_relevance`, `record_verdicts`, `drop_irrelevant`, `add_affinity`, `drop_untimely`,
`keep_identity`, `drop_known`, `apply_gate`, `choose`, `choose_preferences`, `pick_exploration`, `arrange`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from ormahd.index.rows import NodeRow
from ormahd.model.chance import after_feedback, log_odds
from ormahd.search.gather import named_types
from ormahd.search.shape import certainty
from ormahd.settings import WhisperSettings
from ormahd.text.sameness import says_the_same
from ormahd.whisper.affinity import Verdict
from ormahd.whisper.gather import Pool
from ormahd.whisper.types import Analysis, Asked, Before, Candidate, Intent, context_key

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


def not_dropped(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates that no stage has dropped."""
    return [candidate for candidate in candidates if candidate.dropped is None]


def compute_relevance(pool: Pool, analysis: Analysis, settings: WhisperSettings) -> None:
    """Compute the relevance of each candidate and preference, from its text, its confidence and its space, and its
    gate.

    The gate is the relevance from which the memory is shown. For a prompt about the user, memories linked to the self
    node are relevant even if they share no word with it. Memories of another space get a low relevance
    (`OTHER_SPACES`), unless the prompt names that space. For a prompt that asks for a time, all that `drop_irrelevant`
    keeps pass the gate, except archived ones and sections of files.
    """
    about_user = analysis.scores.get(Intent.IDENTITY.value, 0.0) if Intent.IDENTITY in analysis.intents else 0.0
    standing = {id(candidate) for candidate in pool.preferences}  # these must match by their text
    for candidate in (*pool.candidates, *pool.preferences):
        candidate.numbers["text"] = candidate.relevance
        linked = about_user if candidate.id in pool.identity and id(candidate) not in standing else 0.0
        candidate.numbers["identity"] = linked
        candidate.numbers["certain"] = certain = certainty(candidate.row.confidence)
        candidate.relevance = max(candidate.relevance, linked) * certain * candidate.numbers["place"]
        candidate.order = candidate.score
        if candidate.source in ("activated", "conflict") and not linked:
            candidate.dropped = "gather: it came by an edge; its own text was not found"
        usual = PREFERENCE_GATE if id(candidate) in standing else 0.0 if analysis.temporal else settings.injection_gate
        # a gate of its own counts only for a section of a source, and for an archived memory: a bool as factor is 0 or 1
        candidate.numbers["gate"] = max(
            usual, SOURCE_GATE * candidate.row.from_source, settings.archive_gate * candidate.archived
        )


def record_verdicts(candidates: Iterable[Candidate], verdicts: Mapping[str, Verdict], asked: Asked) -> None:
    """Record each explicit judgement in the candidate's `numbers`. `verdicts`: `{node id: verdict}` for this prompt.

    A positive verdict on a memory of another project is ignored if it was given in another project than the caller's:
    there the same words may have asked for something else.
    """
    for candidate in candidates:
        verdict = verdicts.get(candidate.id)
        if verdict is not None and (verdict.signal < 0 or is_useful(verdict, candidate.row, asked)):
            candidate.numbers["verdict"] = float(verdict.signal)
            candidate.numbers["verdict_cosine"] = verdict.cosine


def is_useful(verdict: Verdict, row: NodeRow, asked: Asked) -> bool:
    """Return whether a verdict says that a memory is useful for this prompt of this caller, see `record_verdicts`."""
    return verdict.signal > 0 and (asked.at_home(row.space) or verdict.judgement.space == asked.space)


def log_relevance(settings: WhisperSettings) -> float:
    """Return the minimum relevance of a candidate that is written to the whisper log."""
    return min(LOG_RELEVANCE, settings.injection_gate)


def drop_irrelevant(candidates: Iterable[Candidate], analysis: Analysis, settings: WhisperSettings) -> None:
    """Drop candidates less relevant than `LEAST_RELEVANCE`, or `TEMPORAL_RELEVANCE` for a prompt that asks for a
    time."""
    least = min(TEMPORAL_RELEVANCE if analysis.temporal else LEAST_RELEVANCE, settings.injection_gate)
    for candidate in not_dropped(candidates):
        if candidate.relevance < least and candidate.source != "temporal" and not candidate.wanted:
            candidate.dropped = f"floor: relevance {candidate.relevance:.3f} below {least}"


def add_affinity(candidates: Iterable[Candidate], boosts: Mapping[str, float], settings: WhisperSettings) -> None:
    """Add each candidate's affinity to its relevance. Drop it if it was judged of no use, or is now below
    `log_relevance`.

    `boosts`: `{node id: affinity}`.
    """
    logged = log_relevance(settings)
    for candidate in not_dropped(candidates):
        delta = boosts.get(candidate.id, 0.0)
        candidate.numbers["before_feedback"] = candidate.relevance
        candidate.numbers["affinity"] = delta
        candidate.relevance = after_feedback(candidate.relevance, delta)
        candidate.order += delta
        if candidate.numbers.get("verdict", 0.0) < 0:
            cosine = candidate.numbers["verdict_cosine"]
            candidate.dropped = f"feedback: said to be of no use for a prompt that means the same (cosine {cosine:.2f})"
        elif candidate.relevance < logged and candidate.source != "temporal" and not candidate.wanted:
            candidate.dropped = f"affinity: relevance {candidate.relevance:.3f} below {logged}"


def drop_untimely(candidates: Sequence[Candidate], analysis: Analysis, asked: Asked, *, topical: bool) -> None:
    """Drop candidates that were found only by their time, if the prompt asks for a time and they do not answer it.

    Those of another space are dropped. All are dropped if the prompt also has a topic (`topical`), and the search found
    candidates for it.
    """
    if not analysis.temporal:
        return
    about = any(candidate.source == "search" for candidate in not_dropped(candidates)) and topical
    for candidate in not_dropped(candidates):
        if candidate.source != "temporal":
            continue
        if not asked.at_home(candidate.row.space):
            candidate.dropped = "time: of another space"
        elif about:
            candidate.dropped = "time: others of that time are about the topic"


def keep_identity(candidates: Sequence[Candidate], analysis: Analysis, settings: WhisperSettings) -> None:
    """Drop candidates that do not answer a prompt about the user alone.

    Those of a space are dropped if there are global ones. If the most relevant text reaches `log_relevance`, the prompt
    asks for a single trait of the user. Then candidates with a far less relevant text are dropped too.
    """
    if not analysis.identity_only:
        return
    if any(candidate.row.space is None for candidate in not_dropped(candidates)):
        for candidate in not_dropped(candidates):
            if candidate.row.space is not None and not candidate.wanted:
                candidate.dropped = "identity: not global"
    remaining = not_dropped(candidates)
    best = max((candidate.numbers["text"] for candidate in remaining), default=0.0)
    if best >= log_relevance(settings):  # the prompt asks for one trait, not for all
        for candidate in remaining:
            if log_odds(candidate.numbers["text"]) < log_odds(best) - ONE_TRAIT and not candidate.wanted:
                candidate.dropped = "identity: others fit the words"


def drop_known(candidates: Sequence[Candidate], before: Before) -> float:
    """Drop candidates that the session's context already has, and candidates that say the same as one of those.

    Return the largest relevance of a candidate that the context has, or 0.
    """
    known = [candidate for candidate in not_dropped(candidates) if context_key(candidate.row) in before.known]
    for candidate in known:
        candidate.dropped = "session: its context holds it already"
    for candidate in not_dropped(candidates) if known else ():
        if _twin(candidate, known) is not None:
            candidate.dropped = "session: its context holds one that says the same"
    return max((candidate.relevance for candidate in known), default=0.0)


def is_silenced(candidates: Iterable[Candidate], settings: WhisperSettings) -> bool:
    """Return whether a candidate that reached the gate was dropped because it had been judged of no use."""
    return any(
        candidate.numbers.get("verdict", 0.0) < 0
        and candidate.numbers.get("before_feedback", 0.0) >= settings.injection_gate
        for candidate in candidates
    )


def apply_gate(candidates: Iterable[Candidate]) -> None:
    """Drop candidates with a relevance below their gate, unless they were judged useful for such a prompt."""
    for candidate in not_dropped(candidates):
        if candidate.relevance < candidate.numbers["gate"] and not candidate.wanted:
            kind = "archive" if candidate.archived else "source" if candidate.row.from_source else "gate"
            candidate.dropped = f"{kind}: relevance {candidate.relevance:.3f} below {candidate.numbers['gate']:g}"


def best_archived(candidates: Sequence[Candidate], settings: WhisperSettings) -> Candidate | None:
    """Return the most relevant candidate that was dropped only because it is archived; None if there is none."""
    archived = (candidate for candidate in candidates if (candidate.dropped or "").startswith("archive"))
    held = [candidate for candidate in archived if candidate.relevance >= settings.injection_gate]
    return max(held, key=lambda candidate: (candidate.relevance, candidate.id), default=None)


def choose(candidates: Sequence[Candidate], analysis: Analysis, settings: WhisperSettings) -> list[Candidate]:
    """Return the best candidates of those that passed the gate, the most relevant first. Drops the others.

    Candidates that were judged useful for such a prompt come first. For a prompt that asks for a time, the order is:
    memories of the types that the prompt names, then those of this space, then the newest.
    """
    wished = named_types(analysis.prompt) if analysis.temporal else frozenset()
    chosen: list[Candidate] = []
    for candidate in sorted(
        not_dropped(candidates),
        key=lambda candidate: (
            not candidate.wanted,
            candidate.row.type not in wished,
            -candidate.row.created.timestamp() if analysis.temporal else 0.0,
            -candidate.relevance,
            -candidate.order,
            candidate.id,
        ),
    ):
        if _drop_twin(candidate, chosen):
            continue
        if len(chosen) >= settings.max_nodes:
            candidate.dropped = f"gate: beyond the {settings.max_nodes} best"
        else:
            chosen.append(candidate)
    if analysis.temporal:
        chosen.sort(
            key=lambda candidate: (
                candidate.row.type not in wished,
                -candidate.numbers.get("space", 1.0),
                -candidate.row.created.timestamp(),
                candidate.id,
            )
        )
    return chosen


def _drop_twin(candidate: Candidate, chosen: Iterable[Candidate]) -> bool:
    """Drop `candidate` if a chosen one says the same, and add 1 to that one's `also`. Return whether it was dropped."""
    twin = _twin(candidate, chosen)
    if twin is None:
        return False
    twin.also += 1
    candidate.dropped = f"same: {twin.row.short_id} says the same"
    return True


def _twin(candidate: Candidate, others: Iterable[Candidate]) -> Candidate | None:
    """Return the first of `others` that says the same as `candidate`; None if there is none."""
    text = (candidate.row.title, candidate.row.content)
    return next((other for other in others if says_the_same((other.row.title, other.row.content), text)), None)


def choose_preferences(preferences: Sequence[Candidate], chosen: Sequence[Candidate]) -> list[Candidate]:
    """Return the standing preferences for the prompt's task, the most relevant first, without those in `chosen`.

    The others are dropped: those that say the same as another, and those after the best `PREFERENCES`.
    """
    ids = {candidate.id for candidate in chosen}
    remaining = [preference for preference in not_dropped(preferences) if preference.id not in ids]
    remaining.sort(key=lambda preference: (-preference.relevance, preference.id))
    found: list[Candidate] = []
    for candidate in remaining:
        if _drop_twin(candidate, [*chosen, *found]):
            continue
        if len(found) >= PREFERENCES:
            candidate.dropped = f"preference: beyond the {PREFERENCES} best"
        else:
            found.append(candidate)
    return found


def pick_exploration(
    candidates: Sequence[Candidate], chosen: Collection[Candidate], judged: Collection[str], *, room: int
) -> Candidate | None:
    """Return the best candidate below the gate, to be shown for feedback on it; None if there is none, or nothing was
    chosen.

    `judged`: ids of memories that are not picked, such as those with feedback on similar prompts. `room`: number of
    memories that may still be shown.
    """
    if not chosen or room <= 0:
        return None
    below = (candidate for candidate in candidates if (candidate.dropped or "").startswith(BELOW_GATE))
    held = [candidate for candidate in below if candidate.id not in judged]
    best = max(held, key=lambda candidate: (candidate.order, candidate.id), default=None)
    if best is not None:
        best.dropped = None
    return best


def arrange(
    chosen: Sequence[Candidate],
    preferences: Sequence[Candidate],
    exploring: Candidate | None,
    settings: WhisperSettings,
) -> list[Candidate]:
    """Return the memories in the order in which they are shown, and set the `display` of each.

    First the chosen memories (the first `FULL_NODES` in full), then the preferences, then `exploring`.
    """
    room = settings.max_nodes - len(preferences) - (exploring is not None)
    listed = list(chosen[: max(room, 1)])
    for candidate in chosen[len(listed) :]:
        candidate.dropped = "gate: preferences took the place"
    quoted_count = 0  # an outdated memory is never quoted in full
    for candidate in listed:
        candidate.display = "full" if quoted_count < FULL_NODES and not candidate.older_than else "title"
        quoted_count += not candidate.older_than
    for candidate in preferences:
        candidate.display = "title" if candidate.older_than else "preference"
    if exploring is not None:
        exploring.display = "exploring"
    return [*listed, *preferences, *([exploring] if exploring is not None else [])]
