"""How closely scans follow each other."""

from ormahd.vault.gaps import GAP_S, Gaps

SOME, ALL = False, True


def done(gaps: Gaps, began: float, took: float, everything: bool) -> None:
    gaps.begin(began)
    gaps.end(began + took, everything)


def test_the_first_scan_need_not_wait() -> None:
    assert Gaps().may(SOME) < 0.0
    assert Gaps().may(ALL) < 0.0


def test_an_edit_does_not_rest_for_what_a_scan_of_everything_took() -> None:
    gaps = Gaps()
    done(gaps, 100.0, 0.01, SOME)
    done(gaps, 200.0, 0.25, ALL)
    assert gaps.may(SOME) == 200.0 + GAP_S[0]
    assert gaps.may(ALL) == 200.0 + 4 * 0.25


def test_everything_rests_for_what_it_took_also_when_some_paths_came_after_it() -> None:
    gaps = Gaps()
    done(gaps, 100.0, 0.375, ALL)
    done(gaps, 200.0, 0.01, SOME)
    assert gaps.may(SOME) == 200.0 + GAP_S[0]
    assert gaps.may(ALL) == 200.0 + 4 * 0.375


def test_no_rest_is_longer_than_its_bound() -> None:
    gaps = Gaps()
    done(gaps, 100.0, 60.0, ALL)
    done(gaps, 200.0, 7.0, SOME)
    assert gaps.may(SOME) == gaps.may(ALL) == 200.0 + GAP_S[1]
