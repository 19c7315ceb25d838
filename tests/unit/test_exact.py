"""Exact tokens: what a text names letter by letter."""

from __future__ import annotations

import pytest

from ormahd.search.exact import BOOST, PLAIN, Sign, weigh
from ormahd.text.facts import MAX_EXACT_TOKENS, MAX_TOKEN_LENGTH, ExactToken, exact_tokens
from ormahd.text.words import fold


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("status of OPS-2310?", ["OPS-2310"]),
        ("kestrel 0.5.2", ["0.5.2"]),
        ("write to ada.b@example.org, please.", ["ada.b@example.org"]),
        ("where is src/app.py's test", ["src/app.py"]),
        ("(see max_open_conns)", ["max_open_conns"]),
        ("parseTideTable returns nothing", ["parseTideTable"]),
        ("port 8443", ["8443"]),
        ("commit 9c41e0b broke it", ["9c41e0b"]),
        ("use --no-verify-ssl here", ["no-verify-ssl"]),
        ("https://wiki.example/ops?x=1", ["https://wiki.example/ops?x"]),
        ("ERR_TUNNEL_CONNECTION_FAILED!", ["ERR_TUNNEL_CONNECTION_FAILED"]),
        ('it says "never blame the reader"', ["never blame the reader"]),
        ("run `make openapi` again", ["make openapi"]),
        ("服务器v2.1在10.0.0.7上", ["v2.1", "10.0.0.7"]),
        ("ошибка_42 снова", ["ошибка_42"]),
        ("Änderung an tarif_neu.sql", ["tarif_neu.sql"]),
        ("e.g. i.e. at 7pm on the 3rd of May 2024, 15 of them", []),
        ("who pays for the train?", []),
        ("", []),
        ("- * # / ...", []),
    ],
)
def test_what_is_a_name(text: str, tokens: list[str]) -> None:
    assert [token.text for token in exact_tokens(text)] == tokens


@pytest.mark.parametrize(
    ("name", "text", "there"),
    [
        ("OPS-2310", "ops-2310: the vacuum", True),
        ("OPS-2310", "OPS-23101", False),
        ("OPS-2310", "DEVOPS-2310", False),
        ("0.5.2", "kestrel v0.5.2.", True),
        ("v0.5.2", "kestrel 0.5.2", True),
        ("0.5.2", "kestrel-0.5.2", True),
        ("0.5.2", "0.5.21", False),
        ("0.5.2", "10.5.2", False),
        ("0.5", "0.5.2", False),
        ("ada@example.org", "mail <ada@example.org>,", True),
        ("ada@example.org", "an.ada@example.org", False),
        ("app.py", "src/app.py", True),
        ("app.py", "my_app.py", False),
        ("app.py", "app.pyc", False),
        ("8443", "localhost:8443", True),
        ("8443", "18443", False),
        ("no-verify", "--no-verify", True),
        ("no-verify", "--no-verify-ssl", False),
        ("late invoices", "Late\ninvoices", True),
        ("parseTide", "parseTideTable", False),
        ("(a.b", "(a.b", True),
    ],
)
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
