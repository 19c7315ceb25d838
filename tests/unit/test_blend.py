"""The learned blend: its contributions add up, and each piece of evidence means what it says."""

from collections.abc import Sequence

import numpy as np
import pytest

from ormahd.index.rows import CandidateRow
from ormahd.model.node import NodeType, Strength, Tier
from ormahd.search import blend
from ormahd.search.blend import PIECES, Blend, StageEvidence, blend_evidence, fitted, recompute
from ormahd.text.traits import asks_for_time, traits
from tests.tables import rows

WITNESSES = ("earlier", "rare", "words", "focus", "whole")


def row(number: int, text: str = "", title: str | None = None) -> CandidateRow:
    return CandidateRow(
        f"n{number}",
        NodeType.FACT,
        Tier.WORKING,
        None,
        title,
        len(text),
        False,
        1.0,
        number,
        traits(text, text[-40:]),
        Strength(),
    )


def witness(
    matches: Sequence[Sequence[float]], near: Sequence[Sequence[bool]] | None = None, tokens: int = 20
) -> StageEvidence:
    some = np.array(matches, np.float32)
    size, width = some.shape
    return StageEvidence(
        dict.fromkeys(WITNESSES, np.full(size, 0.5)), some, np.full(width, 1 / max(width, 1), np.float32), np.full(size, tokens),
        np.eye(size, dtype=bool) if near is None else np.array(near),
    )  # fmt: skip


def test_the_contributions_of_a_thousand_random_candidates_add_up() -> None:
    random = np.random.default_rng(7)
    numbers = fitted().weigh({name: random.normal(scale=0.5, size=1_000) for name in PIECES})
    for at in range(1_000):
        one = {name: float(values[at]) for name, values in numbers.items()}
        assert sum(one[blend.PART + name] for name in PIECES) + one["base"] == pytest.approx(one["logit"], abs=1e-6)
        assert recompute(one) == pytest.approx(one["likely"], abs=1e-6)
        assert 0.0 < one["likely"] < 1.0


def test_the_shipped_table_has_a_weight_for_each_piece_of_the_right_sign() -> None:
    blend = fitted()
    assert set(blend.weights) == set(PIECES)
    assert all(
        weight <= 0.0 if name.partition("_")[2] in ("asks", "other_named") else weight >= 0.0
        for name, weight in blend.weights.items() if name.partition("_")[2] not in ("itself", "crowded")
    )  # fmt: skip
    assert blend.weights["turn_earlier"] > 0.0
    assert blend.made
    assert blend.sets


def test_more_of_one_piece_moves_the_score_by_its_weight() -> None:
    blend = Blend("2026-01-01", {}, -1.0, dict.fromkeys(PIECES, 0.0) | {"turn_time": 2.0})
    with_it, without = blend.weigh({name: np.array([float(name == "turn_time"), 0.0]) for name in PIECES})["logit"]
    assert (with_it, without) == (1.0, -1.0)


@pytest.mark.parametrize("kinds", [("turn",), ("note", "ask"), ("note", "task", "titled"), ("long",)])
def test_a_very_good_text_leaves_room_for_boosts(kinds: tuple[str, ...]) -> None:
    """The boosts of names and titles are powers: from a score near 1 everything would tie at 1."""
    good = dict.fromkeys(("company", "rare"), 0.9) | dict.fromkeys(("earlier", "focus"), 0.75) | {
        "itself": 1.0, "words": 0.7, "whole": 0.7,
    }  # fmt: skip
    parts = {name: name.partition("_") for name in PIECES}
    best = fitted().weigh({
        name: np.array([good.get(says, 0.0) if kind in kinds else 0.0]) for name, (kind, _, says) in parts.items()
    })  # fmt: skip
    assert 0.35 < best["likely"][0] < 0.9


def test_a_named_head_counts_for_its_note_and_against_others() -> None:
    rows = [row(0, "Ana: the boat is blue"), row(1, "Ben: the boat is red"), row(2, "The boat is green")]
    found = blend_evidence("what colour is the boat that Ana has", rows, witness([[0.5]] * 3))
    assert found["turn_named"].tolist() == [1.0, 0.0, 0.0]
    assert found["turn_other_named"].tolist() == [0.0, 1.0, 0.0]
    nobody = blend_evidence("what colour is the boat", rows, witness([[0.5]] * 3))
    assert not nobody["turn_named"].any()
    assert not nobody["turn_other_named"].any()


MIDDLE = (blend.SHORT * blend.LONG) ** 0.5


@pytest.mark.parametrize(("text", "title", "tokens", "shares"), [
    ("Ana: where is it?", None, blend.SHORT, {"turn": 1.0}), ("Where is it?", None, blend.SHORT, {"note": 1.0}),
    ("Ana: where is it?", "Boats", 5, {"note": 1.0, "titled": 1.0}), ("Where is it?", "Boats", MIDDLE, {"note": 0.5, "titled": 0.5, "long": 0.5}),
    ("Ana: where is it?", None, MIDDLE, {"turn": 0.5, "long": 0.5}), ("Ana: where is it?", "Boats", 9 * blend.LONG, {"long": 1.0}),
])  # fmt: skip
def test_a_piece_counts_as_much_as_the_text_is_of_its_kind(
    text: str, title: str | None, tokens: float, shares: dict[str, float]
) -> None:
    found = blend_evidence("Ana", [row(0, text, title)], witness([[0.5]], tokens=int(tokens)))
    counted = {"turn": found["turn_earlier"] * 2, "note": found["note_itself"], "titled": found["titled_itself"], "long": found["long_itself"]}  # fmt: skip
    assert {kind: pytest.approx(shares.get(kind, 0.0), abs=1e-3) for kind in counted} == {
        kind: values[0] for kind, values in counted.items()
    }


def test_a_note_with_a_colon_is_no_turn_where_few_speak() -> None:
    rows = [row(0, "Backup: every night"), *(row(at, "the boat is red") for at in range(1, 8))]
    assert blend_evidence("backup", rows, witness([[0.5]] * 8))["note_itself"][0] == 0.75


@pytest.mark.parametrize(("tokens", "ask", "task"), [(3, 1.0, 0.0), (blend.QUERY[0], 1.0, 0.0), (16, 0.5, 0.5), (blend.QUERY[1], 0.0, 1.0), (200, 0.0, 1.0)])  # fmt: skip
def test_a_question_is_weighed_unlike_a_task(tokens: float, ask: float, task: float) -> None:
    found = blend_evidence("boats", [row(0, "the boat is red")], witness([[0.5] * int(tokens)]))
    assert (found["ask_earlier"][0], found["task_earlier"][0]) == pytest.approx((ask / 2, task / 2), abs=0.01)


def test_company_adds_what_the_conversation_says() -> None:
    near = [[True, True, False], [True, True, False], [False, False, True]]
    found = blend_evidence(
        "harbor light", [row(at, "Ana: yes") for at in range(3)], witness([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], near)
    )
    assert found["turn_company"].tolist() == pytest.approx([1.0, 1.0, np.sqrt(0.5)])
    assert not found["turn_crowd"].any()


@pytest.mark.parametrize(("ending", "counts"), [("?", 0.75), (".", 0.0)])
def test_notes_of_one_time_are_a_conversation_if_some_ask(ending: str, counts: float) -> None:
    rows = [row(0, f"Is it lit{ending}"), row(1, "It is.")]
    found = blend_evidence("light", rows, witness([[1.0], [0.0]], [[True] * 2] * 2))
    assert found["note_talk"].tolist() == [counts, counts]


def test_a_long_conversation_is_a_crowd() -> None:
    found = blend_evidence(
        "light", [row(0), row(1)], witness([[1.0], [0.0]], [[True] * 2] * 2, tokens=int(blend.TALK[1]))
    )
    assert (found["long_company"].any(), found["long_crowd"].tolist()) == (False, [1.0, 1.0])
    assert found["any_crowded"].tolist() == [1.0, 1.0]


def test_nothing_to_compare_is_no_evidence() -> None:
    nothing = np.zeros((0, 0), np.float32)
    none = StageEvidence(
        dict.fromkeys(WITNESSES, np.zeros(0)),
        nothing,
        np.zeros(0, np.float32),
        np.zeros(0, np.int64),
        nothing.astype(bool),
    )
    assert all(values.tolist() == [] for values in blend_evidence("harbor", [], none).values())
    assert not blend_evidence("…", [row(0, "Ana: yes")], witness(np.zeros((1, 0)).tolist()))["turn_company"].any()


@pytest.mark.parametrize(("text", "head", "asks", "time"), [
    ("Ana: I moved yesterday", {"ana"}, False, True),
    ("Ana Maria: und du?", {"ana", "maria"}, True, False),
    ("We chose PostgreSQL.", set(), False, False),
    ("Did we choose PostgreSQL? (Ana)", set(), False, False),
    ("你好吗？", set(), True, False),
    ("seit März 2024", set(), False, True),
    ("https://example.org: the page", set(), False, False),
    ("", set(), False, False),
])  # fmt: skip
def test_traits(text: str, head: set[str], asks: bool, time: bool) -> None:
    found = traits(text, text[-40:])
    assert (set(found.head), found.asks, found.tells_time) == (head, asks, time)


@pytest.mark.parametrize(("text", "asks"), rows(__file__, "questions_for_a_time"))
def test_questions_for_a_time(text: str, asks: bool) -> None:
    assert asks_for_time(text) is asks


@pytest.mark.parametrize(("text", "rules"), rows(__file__, "texts_that_state_a_rule"))
def test_texts_that_state_a_rule(text: str, rules: bool) -> None:
    assert traits(text, text[-40:]).rules is rules
