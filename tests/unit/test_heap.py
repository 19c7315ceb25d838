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
def test_garbage_goes_and_what_stays_is_not_looked_at_again():
    stays = [[number] for number in range(1000)]
    gone = weakref.ref(Ring())
    before = gc.get_freeze_count()
    priority.freeze()
    assert gone() is None
    assert gc.get_freeze_count() >= before + len(stays)
    watched = {id(one) for one in gc.get_objects()}
    assert not any(id(one) in watched for one in stays)


@pytest.mark.usefixtures("thawed")
def test_what_comes_later_is_looked_at():
    priority.freeze()
    gone = weakref.ref(Ring())
    gc.collect()
    assert gone() is None


@pytest.mark.usefixtures("thawed")
def test_what_was_left_alone_is_freed_when_nobody_holds_it():
    held = Ring()
    gone = weakref.ref(held)
    priority.freeze()
    held.me = None  # no ring any more
    del held
    assert gone() is None


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
