from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ormahd.model.strength import importance


def test_the_ends_of_the_scale() -> None:
    assert importance(0, 0, 10_000) == 0.0
    assert importance(50, 20, 0) == 1.0
    assert importance(10_000, 10_000, -3) == 1.0


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.floats(-1e6, 1e6))
def test_more_use_more_edges_and_less_time_never_make_less(accesses: int, edges: int, days: float) -> None:
    here = importance(accesses, edges, days)
    assert 0.0 <= here <= 1.0
    assert importance(accesses + 1, edges, days) >= here
    assert importance(accesses, edges + 1, days) >= here
    assert importance(accesses, edges, days + 1) <= here
