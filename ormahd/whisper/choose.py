"""Choose: from candidates to the few that are whispered. Each step names those that it lets go, and why.

The order is the seeds': floor, (rerank, affinity), floor again, identity, topic, gate, exploration. What the original
learned later stands in between: what fits another space far better, and what the session's context holds already.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ormahd.note.naming import short_name
from ormahd.search.hear import kinds
from ormahd.search.shape import certainty
from ormahd.settings import WhisperSettings
from ormahd.text.sameness import says_the_same
from ormahd.text.words import words
from ormahd.whisper.affinity import Boost, Verdict
from ormahd.whisper.gather import Pool
from ormahd.whisper.types import Asked, Before, Candidate, Heard, Intent, Shown, context_key

Overlaps = Callable[[Candidate], bool]

TEMPORAL_RELEVANCE = 0.30
"""The floor for prompts that ask for a time: the time itself speaks for a memory (the seeds')."""
CROWDING = 0.0125
"""What the gate rises by for each memory that is in already: the sixth has to be surer than the first."""
COMPANIONS = 0.12
"""How far behind the most relevant memory others may be. With `CROWDING` 55 instead of 46 per cent of what is whispered on dialogue belongs."""
PREFERENCE_GATE = 0.42
"""The gate for standing preferences: they apply to a task without speaking of it."""
OTHER_SPACES = 0.5
"""Factor on the relevance of a memory of another space that the prompt does not name: none passes the default gate."""
TOPIC_COSINE = 0.55
"""Cosine from which a memory may stay without a word in common with the prompt, where others have one."""
ELSEWHERE_MARGIN = -0.02
"""By how much, in late interaction, the best of this space and global may be behind the best of another space."""
FULL_NODES = 2
"""Memories that are quoted in full; the others by title (the seeds')."""
BELOW_GATE = "gate: relevance"
"""How the reason begins of those among which exploration looks."""


def alive(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Those that no step has let go."""
    return [one for one in candidates if one.dropped is None]


def judge(pool: Pool, heard: Heard, asked: Asked) -> None:
    """Relevance: what the texts say, by how sure the memory is and where it is at home. Who asks about himself is answered
    by what is linked to him, however little the words have in common; who names another space is answered from there."""
    said = frozenset(words(heard.prompt))
    about_user = heard.scores.get(Intent.IDENTITY.value, 0.0) if Intent.IDENTITY in heard.intents else 0.0
    standing = {id(one) for one in pool.preferences}  # those have to apply by what they say
    for one in (*pool.candidates, *pool.preferences):
        one.numbers["text"] = one.relevance
        linked = about_user if one.id in pool.identity and id(one) not in standing else 0.0
        one.numbers["identity"] = linked
        one.numbers["certain"] = certain = certainty(one.row.confidence)
        one.numbers["place"] = _place(one, asked, said)
        one.relevance = max(one.relevance, linked) * certain * one.numbers["place"]
        one.order = one.score
        if one.source in ("activated", "conflict") and not linked:
            one.dropped = "gather: it came by an edge; its own text was not found"


def heed(candidates: Iterable[Candidate], verdicts: Mapping[str, Verdict], asked: Asked) -> None:
    """Note what was said outright of a candidate for this prompt. That it is of use is not carried to other projects: there the same
    words ask for something else."""
    for one in candidates:
        said = verdicts.get(one.id)
        if said is None:
            continue
        if said.signal < 0 or asked.at_home(one.row.space) or said.judgement.space == asked.space:
            one.numbers["verdict"] = float(said.signal)
            one.numbers["verdict_cosine"] = said.cosine


def _place(one: Candidate, asked: Asked, said: frozenset[str]) -> float:
    if asked.at_home(one.row.space):
        return one.numbers.get("space", 1.0)
    named = frozenset(words(one.row.space or ""))
    if short_name(one.row.space or "") == short_name(asked.space or ""):
        # of two projects of one name, that name means the one that we are in
        named -= frozenset(words(asked.space or ""))
    return 1.0 if named and named <= said else OTHER_SPACES


def floor(candidates: Iterable[Candidate], heard: Heard, settings: WhisperSettings) -> None:
    """What is below the least relevance is not looked at further; for a prompt that asks for a time, less is enough."""
    least = min(settings.min_relevance, TEMPORAL_RELEVANCE) if heard.temporal else settings.min_relevance
    for one in alive(candidates):
        if one.relevance < least and one.source != "temporal" and not one.wanted:
            one.dropped = f"floor: relevance {one.relevance:.3f} below {least}"


def blend(candidates: Sequence[Candidate], judged: Sequence[float], share: float) -> None:
    """A cross-encoder's word (0 to 1, in the candidates' order) joins the search's."""
    for one, word in zip(candidates, judged, strict=True):
        one.numbers["cross"] = word
        text = share * word + (1.0 - share) * one.numbers["text"]
        one.relevance = max(text, one.numbers["identity"]) * one.numbers["place"] * one.numbers["certain"]
        one.order = share * word + (1.0 - share) * one.order


def boost(candidates: Iterable[Candidate], boosts: Mapping[str, Boost], settings: WhisperSettings) -> None:
    """Feedback on prompts like this one; then the floor from which a candidate is logged."""
    for one in alive(candidates):
        delta = boosts[one.id].value if one.id in boosts else 0.0
        one.numbers["before_feedback"] = one.relevance
        one.numbers["affinity"] = delta
        one.relevance = min(1.0, max(0.0, one.relevance + delta))
        one.order += delta
        if one.numbers.get("verdict", 0.0) < 0:
            cosine = one.numbers["verdict_cosine"]
            one.dropped = f"feedback: said to be of no use for a prompt that means the same (cosine {cosine:.2f})"
        elif one.relevance < settings.log_relevance and one.source != "temporal" and not one.wanted:
            one.dropped = f"affinity: relevance {one.relevance:.3f} below {settings.log_relevance}"


def timely(candidates: Sequence[Candidate], heard: Heard, asked: Asked, *, topical: bool) -> None:
    """What is there for its time alone is of this space or global; and where the prompt names a topic, and something of that
    time is about it, it is not needed."""
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
    """A prompt about the user alone: global memories where there are any; and where the words fit some, only those."""
    if not heard.identity_only:
        return
    left = alive(candidates)
    if any(one.row.space is None for one in left):
        for one in left:
            if one.row.space is not None:
                one.dropped = "identity: not global"
    left = alive(candidates)
    best = max((one.numbers["text"] for one in left), default=0.0)
    if best >= settings.log_relevance:  # it asks for one trait, not for all
        for one in left:
            if one.numbers["text"] < best - COMPANIONS:
                one.dropped = "identity: others fit the words"


def topical(candidates: Sequence[Candidate], pool: Pool, heard: Heard, overlaps: Overlaps) -> None:
    """Where some share a word with the prompt, those that do not must be near in meaning to stay (seeds: narrow to those
    that overlap; identity is let through)."""
    left = alive(candidates)
    sharing = {one.id for one in left if overlaps(one)}
    if not sharing:
        return
    for one in left:
        let_through = (
            one.id in sharing
            or one.wanted
            or one.id in pool.identity
            or (heard.identity_only and one.row.space is None)
            or one.source == "temporal"
            or one.numbers.get("cosine", 0.0) >= TOPIC_COSINE
        )
        if not let_through:
            one.dropped = "topic: no word in common, and others have one"


def at_home(candidates: Sequence[Candidate], pool: Pool, asked: Asked) -> bool:
    """Is the prompt's matter at home here? Where a memory of another space fits better than all of this one (and global),
    what resembles it here is about something else. False: they are let go. Where no project is, every project is elsewhere, and that
    one of them fits better says nothing against a global memory."""
    if asked.space is None or pool.elsewhere <= 0.0 or pool.here >= pool.elsewhere + ELSEWHERE_MARGIN:
        return True
    for one in alive(candidates):
        let_through = one.wanted or one.id in pool.identity or one.source == "temporal"
        if asked.at_home(one.row.space) and not let_through:
            fits = f"({pool.elsewhere:.3f} against {pool.here:.3f})"
            one.dropped = f"elsewhere: the space {pool.better} fits better {fits}"
    return False


def unknown(candidates: Sequence[Candidate], before: Before) -> float:
    """Let go what the session's context holds already. The largest relevance among those; 0 where there was none."""
    known = [one for one in alive(candidates) if context_key(one.row) in before.known]
    for one in known:
        one.dropped = "session: its context holds it already"
    for one in alive(candidates) if known else ():
        if _twin(one, known) is not None:
            one.dropped = "session: its context holds one that says the same"
    return max((one.relevance for one in known), default=0.0)


def silenced(candidates: Iterable[Candidate], settings: WhisperSettings) -> bool:
    """Whether one that was relevant enough is silent because that was asked for."""
    return any(
        one.numbers.get("verdict", 0.0) < 0 and one.numbers.get("before_feedback", 0.0) >= settings.injection_gate
        for one in candidates
    )


def resting(candidates: Sequence[Candidate], settings: WhisperSettings) -> Candidate | None:
    """What rests in the archive is let go where it is not well above the gate. The most relevant of those that would have spoken from
    working; None: there is none."""
    held = []
    for one in alive(candidates):
        if one.archived and one.relevance < settings.archive_gate and not one.wanted:
            one.dropped = f"archive: relevance {one.relevance:.3f} below {settings.archive_gate}"
            held += [one] if one.relevance >= settings.injection_gate else []
    return max(held, key=lambda one: (one.relevance, one.id), default=None)


def gate(
    candidates: Sequence[Candidate],
    heard: Heard,
    settings: WhisperSettings,
    *,
    known: float = 0.0,
    crowding: float = CROWDING,
    companions: float = COMPANIONS,
) -> list[Candidate]:
    """Whoever is relevant enough, best first; each further memory has to be a little surer than the one before. `known`:
    relevance of what the context holds already; where that answers the prompt, what fits so-so is noise as ever. Of what a prompt for a time
    finds, the types that it names come first, then the newest."""
    wished = kinds(heard.prompt) if heard.temporal else frozenset()  # else the search's order has it
    left = sorted(
        alive(candidates),
        key=lambda one: (one.row.type not in wished, -one.order, -one.row.created.timestamp(), one.id),
    )
    best = max((known, *(one.relevance for one in left)))
    chosen: list[Candidate] = []
    for one in left:
        least = settings.injection_gate + crowding * len(chosen)
        if heard.temporal or one.wanted:  # the time itself speaks for it, and the floor was its gate
            least = 0.0
        if one.relevance < least:
            one.dropped = f"{BELOW_GATE} {one.relevance:.3f} below {least:.3f}"
        elif one.relevance < best - companions and not heard.temporal and not one.wanted:
            one.dropped = f"companions: relevance {one.relevance:.3f} far below {best:.3f}"
        elif _joins(one, chosen):
            continue
        elif len(chosen) >= settings.max_nodes:
            one.dropped = f"gate: beyond the {settings.max_nodes} best"
        else:
            chosen.append(one)
    if heard.temporal:
        chosen.sort(
            key=lambda one: (
                one.row.type not in wished, -one.numbers.get("space", 1.0), -one.row.created.timestamp(), one.id,
            )
        )  # fmt: skip
    return chosen


def _joins(one: Candidate, chosen: Iterable[Candidate]) -> bool:
    """Let a candidate go that says what one of the chosen says, and have that one say so."""
    twin = _twin(one, chosen)
    if twin is None:
        return False
    twin.also += 1
    one.dropped = f"same: {twin.row.short_id} says the same"
    return True


def _twin(one: Candidate, others: Iterable[Candidate]) -> Candidate | None:
    said = (one.row.title, one.row.content)
    return next((other for other in others if says_the_same((other.row.title, other.row.content), said)), None)


def standing(
    preferences: Sequence[Candidate], chosen: Sequence[Candidate], settings: WhisperSettings
) -> list[Candidate]:
    """Preferences that apply to what the prompt does, besides those that were chosen anyway."""
    there = {one.id for one in chosen}
    left = [one for one in alive(preferences) if one.id not in there]
    left.sort(key=lambda one: (-one.relevance, one.id))
    found: list[Candidate] = []
    for one in left:
        if one.relevance < PREFERENCE_GATE and not one.wanted:
            one.dropped = f"preference: relevance {one.relevance:.3f} below {PREFERENCE_GATE}"
        elif _joins(one, [*chosen, *found]):
            continue
        elif len(found) >= settings.preferences:
            one.dropped = f"preference: beyond the {settings.preferences} best"
        else:
            found.append(one)
    return found


def explore(candidates: Sequence[Candidate], chosen: Collection[Candidate], judged: Collection[str], *, room: int) -> Candidate | None:  # fmt: skip
    """One memory below the gate, to learn from, beside a real injection only; none that feedback speaks of already."""
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
    """The list as it is shown: the first ones in full, preferences after what the prompt is about, exploration last."""
    room = settings.max_nodes - len(preferences) - (exploring is not None)
    listed = list(chosen[: max(room, 1)])
    for one in chosen[len(listed) :]:
        one.dropped = "gate: preferences took the place"
    number = 0
    for one in listed:
        one.shown = "title" if one.older_than else _shown(number)  # what was replaced is named, not quoted
        number += not one.older_than
    for one in preferences:
        one.shown = "title" if one.older_than else "preference"
    if exploring is not None:
        exploring.shown = "exploring"
    return [*listed, *preferences, *([exploring] if exploring is not None else [])]


def _shown(number: int) -> Shown:
    return "full" if number < FULL_NODES else "title"
