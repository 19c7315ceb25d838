"""From candidates to the few that are whispered: each step by its sentence in the seeds, with numbers made by hand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from msgspec import structs

from ormahd.embedding.embedder import Hashing
from ormahd.index.rows import NodeRow
from ormahd.model.chance import sigmoid, times_odds
from ormahd.model.judgement import Int8Vector, Judgement
from ormahd.model.node import Found, NodeType, Tier
from ormahd.settings import WhisperSettings
from ormahd.text.words import words
from ormahd.whisper import choose
from ormahd.whisper.affinity import Verdict
from ormahd.whisper.gather import OTHER_SPACES, Pool, place_factor
from ormahd.whisper.pipeline import relevance_steps
from ormahd.whisper.relevance import PART, WITNESSES, asks, common_words, few_words, relevance
from ormahd.whisper.types import Analysis, Asked, Before, Candidate, Intent, context_key

NOW = datetime(2026, 11, 21, 20, tzinfo=UTC)
SETTINGS = WhisperSettings()
HERE = Asked("which database do we use", "ormah")
_NUMBERS = itertools.count()


def candidate(
    value: float = 0.6, *, order: float | None = None, space: str | None = "ormah", source: Found = "search",
    confidence: float = 1.0, days: float = 0.0, text: str | None = None, **numbers: float,
) -> Candidate:  # fmt: skip
    number = next(_NUMBERS)
    node_id, text = f"{number:08x}-0000-4000-8000-000000000000", text or f"The database {number} is SQLite."
    made = NOW - timedelta(days=days)
    row = NodeRow(
        node_id, NodeType.FACT, Tier.WORKING, space, None, text, (), (), "person", confidence, made, made, None, None,
        f"{node_id}.md", "d" * 64,
    )  # fmt: skip
    one = Candidate(row, value if order is None else order, source, numbers=dict(numbers))
    one.relevance = value
    one.order = one.score
    return one


def heard(*intents: Intent, identity: float = 0.0, prompt: str = HERE.prompt) -> Analysis:
    chosen = frozenset(intents) or frozenset({Intent.GENERAL})
    scores = {Intent.IDENTITY.value: identity} if identity else {}
    return Analysis(prompt, chosen, None, prompt, False, scores=scores)


def pool(*candidates: Candidate, identity: Iterable[str] = (), here: float = 0.0, elsewhere: float = 0.0) -> Pool:
    return Pool(list(candidates), [], frozenset(identity), here, elsewhere)


def judged(*candidates: Candidate, asked: Asked = HERE, what: Analysis | None = None, **more: object) -> Pool:
    found = pool(*candidates, **more)  # type: ignore[arg-type]
    what = what or heard()
    named = frozenset(words(what.prompt))
    for one in candidates:
        one.numbers["place"] = place_factor(one.row.space, asked, named)
    choose.compute_relevance(found, what, SETTINGS)
    return found


def gated(candidates: list[Candidate], what: Analysis, settings: WhisperSettings) -> list[Candidate]:
    for one in candidates:
        one.numbers["place"] = 1.0
    choose.compute_relevance(pool(*candidates), what, settings)
    choose.apply_gate(candidates)
    return choose.choose(candidates, what, settings)


# ------------------------------------------------------------------------------------------------ relevance


PLAIN = {
    "late_rare": 0.5, "common": 0.3, "cosine": 0.35, "lead": 0.02, "rare": 0.3, "place_found": 2.0, "asks": 0.5,
    "away": -0.02,
}  # fmt: skip


def test_relevance_grows_with_what_speaks_for_a_memory() -> None:
    known = relevance(PLAIN)["text_alone"]
    assert 0.0 < known < 1.0
    for name in ("common", "cosine", "lead", "rare", "asks"):
        assert relevance(PLAIN | {name: PLAIN[name] + 0.04})["text_alone"] > known, name
    for name in ("place_found", "away"):
        assert relevance(PLAIN | {name: PLAIN[name] + 0.5})["text_alone"] < known, name


def test_the_contributions_to_a_relevance_add_up() -> None:
    for late, common, cosine, place in itertools.product((0.0, 0.4, 0.9), (0.0, 0.5), (-0.1, 0.6), (1.0, 12.0)):
        found = relevance(PLAIN | {"late_rare": late, "common": common, "cosine": cosine, "place_found": place})
        logit = sum(found[name] for name in ("text_base", *(PART + name for name in WITNESSES)))
        assert sigmoid(logit) == pytest.approx(found["text_alone"], abs=1e-6)


def test_whether_a_prompt_needs_a_memory_is_not_guessed_by_another_models_vector() -> None:
    read, one = Hashing().embed_query("how do we deploy?"), np.full(384, 1 / 384**0.5, np.float32)
    assert asks(None) == asks(structs.replace(read, vector=np.ones(768, np.float32))) == 0.0
    assert asks(structs.replace(read, vector=one, fitted=None)) == 0.0
    assert 0.0 != asks(structs.replace(read, vector=one)) <= 4.0


def test_odds_are_multiplied_and_never_leave_the_scale() -> None:
    assert times_odds(0.5, math.log(4)) == pytest.approx(0.8)
    assert times_odds(0.2, math.log(4)) == pytest.approx(0.5)
    assert times_odds(0.37, 0.0) == 0.37
    for chance in (0.0, 1e-12, 0.5, 1.0):
        assert 0.0 <= times_odds(chance, -50.0) <= times_odds(chance, 50.0) <= 1.0


def test_without_vectors_there_is_no_relevance() -> None:
    assert relevance({"words": 0.9}) == {}


def test_a_word_tells_the_same_in_a_small_vault() -> None:
    """Of a word in one note bm25 makes 2.2 × its inverse document frequency, which grows with the vault."""
    seen = []
    for notes in (5, 200, 3_000, 100_000):
        bm25 = 2.2 * math.log((notes - 0.5) / 1.5)
        seen.append(common_words(bm25 / (bm25 + 20.0), notes))
    assert seen == [pytest.approx(seen[2])] * 4


def test_in_a_vault_of_two_notes_a_word_in_common_counts() -> None:
    """Of a word that half of two notes have, bm25 makes nothing."""
    assert few_words(0) == 0.0
    assert 0.2 < few_words(1) < few_words(2) < 0.5


def test_what_we_are_unsure_of_counts_less() -> None:
    sure, unsure = candidate(0.6), candidate(0.6, confidence=0.5)
    judged(sure, unsure)
    assert (sure.relevance, unsure.relevance) == (0.6, pytest.approx(0.6 * 0.7))


def test_another_spaces_memory_stays_there_unless_the_prompt_names_it() -> None:
    one, other = candidate(0.9, space="billing-api"), candidate(0.9, space="billing-api")
    judged(one)
    assert one.relevance < SETTINGS.injection_gate
    judged(other, what=heard(prompt="how did we do that in the Billing API?"))
    assert other.relevance == pytest.approx(0.9)


HOME = Asked("which database", None)
"""Where no project is, as in the home folder."""


def test_from_the_home_folder_no_project_speaks_unless_it_is_named() -> None:
    one, named, everybodys = (
        candidate(0.9, space="billing-api"),
        candidate(0.9, space="billing-api"),
        candidate(0.9, space=None),
    )
    judged(one, everybodys, asked=HOME)
    judged(named, asked=HOME, what=heard(prompt="which database does the billing api use?"))
    assert (one.relevance, everybodys.relevance, named.relevance) == tuple(
        map(pytest.approx, (0.9 * OTHER_SPACES, 0.9, 0.9))
    )


def test_what_was_decided_comes_first_where_decisions_of_a_time_are_asked_for() -> None:
    old, new, other = candidate(0.3, days=6, source="temporal"), candidate(0.3, days=1), candidate(0.4, days=0)
    for one in (old, new):
        one.row = structs.replace(one.row, type=NodeType.DECISION)
    asked = heard(Intent.TEMPORAL, prompt="what did we decide last week?")
    assert gated([other, old, new], asked, SETTINGS) == [new, old, other]
    assert gated([other, old, new], heard(Intent.TEMPORAL), SETTINGS) == [other, new, old]
    few = SETTINGS.model_copy(update={"max_nodes": 2})
    assert gated([other, old, new], asked, few) == [new, old]


# Said outright


def judgement(signal: int, space: str | None = "ormah") -> Verdict:
    return Verdict(Judgement("n", signal, "explicit", NOW, "e", "m", Int8Vector(b"\x01", 1.0), "h", space), 0.97)  # type: ignore[arg-type]


def test_said_to_be_of_no_use_it_is_silent_however_relevant() -> None:
    one = candidate(0.95)
    choose.record_verdicts([one], {one.id: judgement(-1)}, HERE)
    choose.add_affinity([one], {one.id: -0.15}, SETTINGS)
    assert one.dropped == "feedback: said to be of no use for a prompt that means the same (cosine 0.97)"
    assert (one.relevance, one.numbers["verdict"]) == (pytest.approx(0.83, abs=0.01), -1.0)


def test_said_to_be_of_use_it_passes_every_gate() -> None:
    one, rival = candidate(0.1, order=0.1), candidate(0.9)
    for each in (one, rival):
        each.numbers["text"] = each.relevance
    choose.record_verdicts([one, rival], {one.id: judgement(1)}, HERE)
    choose.drop_irrelevant([one, rival], heard(), SETTINGS)
    choose.add_affinity([one, rival], {}, SETTINGS)
    assert gated([one, rival], heard(), SETTINGS) == [one, rival], "what a person said comes first"
    assert choose.best_archived([one, rival], SETTINGS) is None
    preference = candidate(0.1)
    choose.record_verdicts([preference], {preference.id: judgement(1)}, HERE)
    assert choose.choose_preferences([preference], []) == [preference]


def test_that_it_is_of_use_is_not_carried_to_another_project() -> None:
    theirs, ours = candidate(0.3, space="billing-api"), candidate(0.3)
    said = {theirs.id: judgement(1, "billing-api"), ours.id: judgement(1, "billing-api")}
    choose.record_verdicts([theirs, ours], said, HERE)
    assert (theirs.wanted, ours.wanted) == (False, True)
    choose.record_verdicts([theirs], {theirs.id: judgement(1, "ormah")}, HERE)
    assert theirs.wanted, "it was said here"
    choose.record_verdicts([theirs], {theirs.id: judgement(-1, "billing-api")}, HERE)
    assert not theirs.wanted, "that it is of no use is"


# The archive


def archived(value: float) -> Candidate:
    one = candidate(value)
    one.row = structs.replace(one.row, tier=Tier.ARCHIVAL)
    return one


def test_from_the_archive_speaks_what_is_well_above_the_gate() -> None:
    sure, near, nearer, far, working = archived(0.7), archived(0.45), archived(0.48), archived(0.3), candidate(0.45)
    everyone = [sure, near, nearer, far, working]
    assert gated(everyone, heard(), SETTINGS) == [sure, working]
    assert choose.best_archived(everyone, SETTINGS) is nearer
    assert (near.dropped, far.dropped) == ("archive: relevance 0.450 below 0.5", "archive: relevance 0.300 below 0.5")
    assert choose.pick_exploration(everyone, [sure, working], {}, room=4) is None, "nor is it shown to learn from"
    low = archived(0.34)
    assert gated([low], heard(), SETTINGS) == []
    assert choose.best_archived([low], SETTINGS) is None, "it would have been silent in working too"


def test_a_time_that_is_asked_for_opens_no_archive() -> None:
    one = archived(0.2)
    assert gated([one], heard(Intent.TEMPORAL), SETTINGS) == []


def test_what_came_by_an_edge_alone_is_not_whispered() -> None:
    one = candidate(0.9, source="activated")
    judged(one)
    assert one.dropped is not None
    assert one.dropped.startswith("gather")


def test_who_asks_about_himself_is_answered_by_what_is_linked_to_him() -> None:
    """Seeds: "identity-linked neighbors from the self node"."""
    linked, other = candidate(0.2), candidate(0.2)
    judged(linked, other, what=heard(Intent.IDENTITY, identity=0.8), identity=[linked.id])
    assert (linked.relevance, other.relevance) == (0.8, 0.2)


# ------------------------------------------------------------------------------------------------ floors


def test_the_least_relevance_stands_a_little_below_the_gate() -> None:
    """Seeds: "base whisper min relevance score: 0.45", below a gate of 0.50; relevance is a chance since."""
    low, high = candidate(0.09), candidate(0.1)
    choose.drop_irrelevant([low, high], heard(), SETTINGS)
    assert low.dropped == "floor: relevance 0.090 below 0.1"
    assert high.dropped is None


def test_temporal_prompts_relax_the_floor() -> None:
    """Seeds: "temporal queries can relax the effective floor"; what was found by its time passes."""
    low, least, timely = candidate(0.035), candidate(0.025), candidate(0.0, source="temporal")
    choose.drop_irrelevant([low, least, timely], heard(Intent.TEMPORAL), SETTINGS)
    assert [one.dropped is None for one in (low, least, timely)] == [True, False, True]


def test_a_gate_below_the_floor_lowers_it_also_for_temporal_prompts() -> None:
    low, timely = candidate(0.025), candidate(0.025)
    open_gate = SETTINGS.model_copy(update={"injection_gate": 0.02})
    choose.drop_irrelevant([low], heard(), open_gate)
    choose.drop_irrelevant([timely], heard(Intent.TEMPORAL), open_gate)
    choose.add_affinity([low, timely], {}, open_gate)
    assert (low.dropped, timely.dropped) == (None, None)
    assert gated([low], heard(), open_gate) == [low]


def test_feedback_lifts_a_borderline_candidate_and_lowers_a_noisy_one() -> None:
    """Seeds: "It can rescue a borderline candidate or slightly suppress a noisy one"; then the floor below the gate."""
    up, down, out = candidate(0.12, order=0.46), candidate(0.5), candidate(0.11)
    boosts = {up.id: 0.1, down.id: -0.15, out.id: -0.06}
    choose.add_affinity([up, down, out], boosts, SETTINGS)
    assert up.relevance == pytest.approx(0.25, abs=0.01)
    assert up.order == pytest.approx(0.56)
    assert down.relevance == pytest.approx(0.2, abs=0.01)
    assert down.dropped is None
    assert out.dropped == "affinity: relevance 0.067 below 0.07"
    assert up.numbers["before_feedback"] == 0.12


def test_feedback_never_leaves_the_scale() -> None:
    one = candidate(0.98)
    choose.add_affinity([one], {one.id: 0.15}, SETTINGS)
    assert 0.98 < one.relevance < 1.0


# ------------------------------------------------------------------------------------------------ filters


def test_identity_alone_prefers_global_memories() -> None:
    """Seeds: "for identity-only prompts, global identity candidates are also preserved" (REFERENCE 4.5.10)."""
    everywhere, project = candidate(0.3, space=None), candidate(0.3)
    found = judged(everywhere, project, what=heard(Intent.IDENTITY, identity=0.8))
    choose.keep_identity(found.candidates, heard(Intent.IDENTITY, identity=0.8), SETTINGS)
    assert (everywhere.dropped, project.dropped) == (None, "identity: not global")


def test_identity_keeps_project_memories_where_nothing_is_global() -> None:
    project = candidate(0.3)
    judged(project)
    choose.keep_identity([project], heard(Intent.IDENTITY, identity=0.8), SETTINGS)
    assert project.dropped is None


def test_a_question_about_one_trait_is_not_answered_with_all() -> None:
    fits, other = candidate(0.7, space=None), candidate(0.1, space=None)
    what = heard(Intent.IDENTITY, identity=0.8)
    found = judged(fits, other, what=what, identity=[fits.id, other.id])
    choose.keep_identity(found.candidates, what, WhisperSettings())
    assert (fits.dropped, other.dropped) == (None, "identity: others fit the words")


def test_what_the_context_holds_is_not_said_again() -> None:
    one, other = candidate(), candidate()
    found = choose.drop_known([one, other], Before(recent=(), known=frozenset({context_key(one.row)})))
    assert found == 0.6
    assert one.dropped == "session: its context holds it already"
    assert other.dropped is None


# ------------------------------------------------------------------------------------------------ the gate


def test_the_gate_is_absolute() -> None:
    """Seeds: "if the best non-temporal result is below the gate: whisper returns empty; otherwise weak candidates below the
    gate are removed"."""
    assert gated([candidate(0.34)], heard(), SETTINGS) == []
    weak, strong = candidate(0.34, order=0.9), candidate(0.36, order=0.1)
    assert gated([weak, strong], heard(), SETTINGS) == [strong]
    assert weak.dropped == "gate: relevance 0.340 below 0.35"


def test_the_most_relevant_come_first_and_six_are_the_most() -> None:
    many = [candidate(0.5 + number / 20, order=1 - number / 10) for number in range(9)]
    chosen = gated(many, heard(), SETTINGS)
    assert chosen == many[:2:-1]
    assert all(one.dropped == "gate: beyond the 6 best" for one in many[:3])


def test_what_is_there_for_its_time_is_of_this_space() -> None:
    here, everywhere, there = (candidate(0.0, source="temporal", space=space) for space in ("ormah", None, "billing"))
    choose.drop_untimely([here, everywhere, there], heard(Intent.TEMPORAL), HERE, topical=False)
    assert [one.dropped for one in (here, everywhere, there)] == [None, None, "time: of another space"]


def test_a_topic_within_a_time_is_answered_by_the_topic() -> None:
    about, newest = candidate(0.5), candidate(0.0, source="temporal")
    choose.drop_untimely([about, newest], heard(Intent.TEMPORAL), HERE, topical=True)
    assert newest.dropped == "time: others of that time are about the topic"
    alone = candidate(0.0, source="temporal")
    choose.drop_untimely([alone], heard(Intent.TEMPORAL), HERE, topical=True)
    assert alone.dropped is None


def test_temporal_results_pass_the_gate_and_come_newest_first() -> None:
    """Seeds: temporal prompts "are later sorted by recency"."""
    old, new, topical = (
        candidate(0.0, source="temporal", days=2),
        candidate(0.0, source="temporal"),
        candidate(0.7, days=1),
    )
    assert gated([old, new, topical], heard(Intent.TEMPORAL), SETTINGS) == [new, topical, old]


# ------------------------------------------------------------------------------------------------ what joins


def test_exploration_never_breaks_silence() -> None:
    held = candidate(0.12)
    assert gated([held], heard(), SETTINGS) == []
    assert choose.pick_exploration([held], [], (), room=5) is None


def test_exploration_adds_the_best_of_those_that_feedback_does_not_know() -> None:
    """Seeds: "Ormah can add one lower-confidence candidate as an exploration slot"."""
    shown, best, known = candidate(0.7), candidate(0.11, order=0.5), candidate(0.12, order=0.6)
    everyone = [shown, best, known]
    chosen = gated(everyone, heard(), SETTINGS)
    assert choose.pick_exploration(everyone, chosen, {known.id}, room=5) is best
    assert best.dropped is None
    assert choose.pick_exploration(everyone, chosen, (), room=0) is None


def test_standing_preferences_have_a_gate_of_their_own() -> None:
    fits, less, out = candidate(0.55), candidate(0.51), candidate(0.49)
    there = candidate(0.6)
    again = structs.replace(there)
    assert choose.choose_preferences([less, out, fits, again], [there]) == [fits, less]


def test_the_first_two_are_shown_in_full() -> None:
    """Seeds: "top 2 results include full content; remaining results include title, type, and short id only"."""
    chosen, rule, maybe = [candidate() for _ in range(3)], candidate(), candidate()
    listed = choose.arrange(chosen, [rule], maybe, SETTINGS)
    assert [one.display for one in listed] == ["full", "full", "title", "preference", "exploring"]
    assert listed == [*chosen, rule, maybe]


def test_preferences_and_exploration_take_places_of_the_last_ones() -> None:
    chosen = [candidate() for _ in range(6)]
    listed = choose.arrange(chosen, [candidate(), candidate()], candidate(), SETTINGS)
    assert len(listed) == 6
    assert listed[:3] == chosen[:3]
    assert [one.dropped for one in chosen[3:]] == ["gate: preferences took the place"] * 3


def test_a_trace_adds_up() -> None:
    one = candidate(0.61, confidence=0.8)
    linked = candidate(0.3)
    read = candidate(0.6)
    what = heard(Intent.IDENTITY, identity=0.7)
    judged(one, linked, read, what=what, identity=[linked.id])
    choose.add_affinity([one, linked, read], {one.id: 0.07}, SETTINGS)
    for each in (one, linked, read):
        assert relevance_steps(each.numbers)[-1]["relevance"] == pytest.approx(each.relevance)


def test_of_candidates_that_say_the_same_one_is_chosen_and_the_others_are_counted() -> None:
    best = candidate(0.9, text="Deploys happen on Tuesday.")
    twins = [
        candidate(0.8 - at / 100, text=text)
        for at, text in enumerate(("deploys happen on tuesday", "Deploys happen on **Tuesday**."))
    ]
    other = candidate(0.7, text="Deploys happen on Thursday.")
    assert gated([best, *twins, other], heard(), SETTINGS) == [best, other]
    assert (best.also, other.also) == (2, 0)
    assert [one.dropped for one in twins] == [f"same: {best.row.short_id} says the same"] * 2
