"""How closely scans follow each other."""

import pytest

from ormahd.watch.watcher import GAP_S, ScanThrottle

SOME, ALL = False, True


def done(gaps: ScanThrottle, began: float, took: float, everything: bool) -> None:
    gaps.begin(began)
    gaps.end(began + took, everything)


def test_the_first_scan_need_not_wait() -> None:
    assert ScanThrottle().may(SOME) < 0.0
    assert ScanThrottle().may(ALL) < 0.0


@pytest.mark.parametrize(("first", "second"), [((0.01, SOME), (0.25, ALL)), ((0.25, ALL), (0.01, SOME))])
def test_each_kind_rests_for_what_its_own_last_scans_took(
    first: tuple[float, bool], second: tuple[float, bool]
) -> None:
    """An edit does not wait because everything was just looked at, nor does everything come sooner because an edit came between."""
    gaps = ScanThrottle()
    for began, scan in ((80.0, second), (100.0, first), (120.0, first), (200.0, second)):
        done(gaps, began, *scan)
    assert gaps.may(SOME) == 200.0 + GAP_S[0]
    assert gaps.may(ALL) == 200.0 + 4 * 0.25


def test_no_rest_is_longer_than_its_bound() -> None:
    gaps = ScanThrottle()
    for began, took, everything in ((100.0, 60.0, ALL), (200.0, 60.0, ALL), (300.0, 7.0, SOME), (200.0, 7.0, SOME)):
        done(gaps, began, took, everything)
    assert gaps.may(SOME) == gaps.may(ALL) == 200.0 + GAP_S[1]


def test_one_slow_scan_makes_nobody_wait_but_the_second_does() -> None:
    """The first of a process reads what the later ones remember."""
    gaps = ScanThrottle()
    done(gaps, 100.0, 0.4, SOME)
    assert gaps.may(SOME) == 100.0 + GAP_S[0]
    done(gaps, 200.0, 0.25, SOME)
    assert gaps.may(SOME) == 200.0 + 4 * 0.25
    done(gaps, 300.0, 0.01, SOME)
    assert gaps.may(SOME) == 300.0 + GAP_S[0]
