"""The whisper's relevance is a chance, on sets that it was not fitted on (README, "A relevance is a chance")."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ormahd.embedding.embedder import Embedder
from ormahd.whisper.relevance import WITNESSES, fitted
from tests.bench import fit_relevance
from tests.quality import calibration

MOST = 0.055
SHARED = Path(__file__).parents[3] / "shared" / "bench"


def test_the_error_is_the_distance_between_what_is_told_and_what_is_true() -> None:
    told = np.array([0.1] * 10 + [0.75] * 4)
    right = np.array([1.0] + [0.0] * 9 + [1.0] * 3 + [0.0])
    assert calibration.calibration_error(told, right) == pytest.approx(0.0)
    assert calibration.calibration_error(told, 1.0 - right) == pytest.approx((0.8 * 10 + 0.5 * 4) / 14)
    assert calibration.calibration_error(told, right, np.r_[np.zeros(10), np.ones(4)]) == pytest.approx(0.0)


def test_of_what_is_told_as_much_is_right(model: Embedder, tmp_path: Path) -> None:
    """On the halves of the month and of the corpus that nothing was fitted on, and with what names and words add."""
    told, right = [], []
    for name, (notes, prompts, now) in calibration.own_sets("held").items():
        found = calibration.judge(notes, prompts, now, model, tmp_path / name)
        print(calibration.table(name, found.relevance, found.right))
        assert calibration.calibration_error(found.relevance, found.right) <= MOST, name
        told.append(found.relevance)
        right.append(found.right)
    likely = np.concatenate(told) >= 0.7
    assert likely.sum() >= 50
    assert np.concatenate(right)[likely].mean() >= 0.7


def made(seed: int, shift: float) -> calibration.Judged:
    """Candidates of which each is right with the chance that its evidence tells."""
    some = np.random.default_rng(seed)
    evidence = some.random((4_000, len(WITNESSES)))
    chance = 1.0 / (1.0 + np.exp(-(6.0 * evidence[:, 0] - 5.0 * evidence[:, WITNESSES.index("far")] + shift)))
    right = (some.random(4_000) < chance).astype(np.float64)
    return calibration.Judged(evidence, chance, right, np.array([f"f{at % 5}" for at in range(4_000)]))


def test_fitting_again_gives_the_same_table_and_a_true_one() -> None:
    some = {"one": made(1, -3.0), "other": made(2, -3.0)}
    weights, base = fit_relevance.fitted(some)
    again, base_again = fit_relevance.fitted(some)
    assert (weights == again).all()
    assert base == base_again
    assert weights[0] == pytest.approx(6.0, abs=0.5)
    assert weights[WITNESSES.index("far")] == pytest.approx(-5.0, abs=0.5)
    chances, _ = fit_relevance.held_folds(some)
    for name, one in some.items():
        assert calibration.calibration_error(chances[name], one.right) < 0.03


def test_the_table_names_every_witness_and_its_sets() -> None:
    shipped = fitted()
    assert set(shipped.weights) == set(WITNESSES)
    assert set(shipped.sets) == {"locomo", "proactive", "memory", "month dev", "corpus dev"}
    assert all(shipped.weights[one] <= 0.0 for one in fit_relevance.AGAINST)
    free = {*fit_relevance.AGAINST, *fit_relevance.EITHER}
    assert all(shipped.weights[one] >= 0.0 for one in WITNESSES if one not in free)


def test_the_plot_shows_each_set_and_all_together() -> None:
    one = made(3, -3.0)
    drawn = calibration.draw({"one": (one.relevance, one.right)}, (one.relevance, one.right, np.ones(len(one.right))))
    assert drawn.count("<polyline") == 2
    assert "one: error 0.0" in drawn
    assert calibration.PLOT.read_text().count("<polyline") == len(fitted().sets) + 1


def test_the_planted_facts_of_the_shared_benchmark_are_calibrated_too(model: Embedder, tmp_path: Path) -> None:
    """One domain of the shared benchmark, with prompts of the other domain, small talk and coding."""
    if not (SHARED / "proactive.py").exists():
        pytest.skip("needs ../shared/bench")
    notes, prompts, now = fit_relevance.sets(SHARED)["proactive"]
    some = prompts[::4]
    found = calibration.judge(notes, some, now, model, tmp_path / "index")
    assert calibration.calibration_error(found.relevance, found.right) <= MOST
