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


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.soak)])
def test_of_what_is_told_as_much_is_right(model: Embedder, tmp_path: Path, every: int) -> None:
    """On the halves of the month and of the corpus that nothing was fitted on, and with what names and words add.

    `every`: the suite asks every third prompt, the soak all."""
    told, right = [], []
    for name, (notes, prompts, now) in calibration.own_sets("held").items():
        found = calibration.judge(notes, prompts[::every], now, model, tmp_path / name)
        print(calibration.table(name, found.relevance, found.right))
        assert calibration.calibration_error(found.relevance, found.right) <= MOST, name
        told.append(found.relevance)
        right.append(found.right)
    likely = np.concatenate(told) >= 0.7
    assert likely.sum() >= 100 // every
    assert np.concatenate(right)[likely].mean() >= 0.7


def test_the_table_names_every_witness_and_its_sets() -> None:
    shipped = fitted()
    assert set(shipped.weights) == set(WITNESSES)
    assert set(shipped.sets) == {"locomo", "proactive", "memory", "month dev", "corpus dev", "tasks"}
    assert all(shipped.weights[one] <= 0.0 for one in fit_relevance.AGAINST)
    free = {*fit_relevance.AGAINST, *fit_relevance.EITHER}
    assert all(shipped.weights[one] >= 0.0 for one in WITNESSES if one not in free)


def test_the_planted_facts_of_the_shared_benchmark_are_calibrated_too(model: Embedder, tmp_path: Path) -> None:
    """One domain of the shared benchmark, with prompts of the other domain, small talk and coding."""
    if not (SHARED / "proactive.py").exists():
        pytest.skip("needs ../shared/bench")
    notes, prompts, now = fit_relevance.sets(SHARED)["proactive"]
    some = prompts[::4]
    found = calibration.judge(notes, some, now, model, tmp_path / "index")
    assert calibration.calibration_error(found.relevance, found.right) <= MOST
