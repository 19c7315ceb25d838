"""Exact tokens: what a text names letter by letter."""

from __future__ import annotations

import pytest

from ormahd.search.exact import BOOST, PLAIN, Sign, weigh
from ormahd.text.facts import MAX_EXACT_TOKENS, MAX_TOKEN_LENGTH, ExactToken, exact_tokens
from ormahd.text.words import fold
from tests.tables import rows


@pytest.mark.parametrize(("text", "tokens"), rows(__file__, "what_is_a_name"))
def test_what_is_a_name(text: str, tokens: list[str]) -> None:
    assert [token.text for token in exact_tokens(text)] == tokens


@pytest.mark.parametrize(("name", "text", "there"), rows(__file__, "letter_by_letter"))
def test_letter_by_letter(name: str, text: str, there: bool) -> None:
    assert ExactToken(name, plain=False).stands_in(fold(text)) is there


def test_numbers_and_hyphens_are_often_written_otherwise() -> None:
    plain = {token.text: token.plain for token in exact_tokens("8443 follow-up JavaScript parseTide OPS-1 0.5.2")}
    assert plain == {
        "8443": True, "follow-up": True, "JavaScript": True, "parseTide": False, "OPS-1": False, "0.5.2": False,
    }  # fmt: skip


def test_a_pasted_log_is_no_list_of_names() -> None:
    assert len(exact_tokens(" ".join(f"id-{number}" for number in range(5_000)))) == MAX_EXACT_TOKENS
    assert exact_tokens("a1" * MAX_TOKEN_LENGTH) == []


def test_an_ordinary_compound_of_a_dozen_notes_singles_out_none() -> None:
    """ "element-wise" stands in many notes, and a question that has it seldom asks for those that spell it so."""
    some, one = frozenset(f"n{at}" for at in range(13)), frozenset(["n0"])
    common, single, code = (weigh([sign], 600) for sign in (Sign(some, plain=True), Sign(one, plain=True), Sign(some)))
    assert common.of("n0") == (pytest.approx(0.32, abs=0.02), 1.0)
    assert single.of("n0") == (pytest.approx(BOOST * PLAIN), 1.0)
    assert code.of("n0")[0] > 1.5  # an identifier is not written by chance
    assert code.without < 1.0 == common.without


def test_beside_an_identifier_a_common_compound_decides_little() -> None:
    found = weigh([Sign(frozenset(["code"])), Sign(frozenset(f"n{at}" for at in range(13)), plain=True)], 600)
    assert found.of("code")[0] > 2.5 > 0.5 > found.of("n0")[0]
