"""Memory once bulk work is done."""

from __future__ import annotations

import gc
import weakref

import pytest

from ormahd.process import priority


class Ring:
    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def thawed():
    """Whatever is frozen by a test can be collected after it."""
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("thawed")
def test_garbage_among_what_was_left_alone_is_found_by_looking_everywhere():
    held = Ring()
    gone = weakref.ref(held)
    priority.freeze()
    del held
    gc.collect()
    assert gone() is not None
    priority.sweep()
    assert gone() is None
    assert gc.get_freeze_count() > 0
