"""What a summary must not lose, and what it may say in other words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ormahd.text.facts import lost, sentences


@pytest.mark.parametrize(
    ("source", "summary", "missing"),
    [
        # numbers, dates, versions
        ("The API listens on port 8080.", "The API listens on a port.", ["8080"]),
        ("Version 3.11 is pinned.", "Version 3.12 is pinned.", ["3.11"]),
        ("Due on 2026-11-21 at 14:00.", "Due on 2026-11-21.", ["14:00"]),
        ("It cost 1,000 euros.", "It cost 1000 euros.", []),
        ("It has 12 pages.", "It has 120 pages.", ["12"]),
        ("Three of 4.", "4, three of them.", []),
        # addresses, paths, code
        ("See https://example.org/a?b=1.", "See example.org.", ["https://example.org/a?b=1"]),
        ("See https://example.org/a.", "It is at https://example.org/a, see there.", []),
        ("Write to ana@example.org.", "Write to her.", ["ana@example.org"]),
        ("Config in ~/.config/ormah/config.toml.", "There is a config.", ["~/.config/ormah/config.toml"]),
        ("Edit src/app/main.py and setup.cfg.", "Edit src/app/main.py.", ["setup.cfg"]),
        ("Keep the `.env` out of git.", "Keep the env out of git.", [".env"]),
        ("Run `make test` first.", "Run the tests first.", ["make test"]),
        ("Some tea and/or coffee, e.g. in the morning.", "A hot drink in the morning.", []),
        # names
        ("The project is led by Ana Silva.", "The project is led by Ana.", ["Silva"]),
        ("Alice lives in Dublin.", "They live in Dublin.", ["Alice"]),
        ("Alice's cat is called Miso.", "Her cat is called Miso.", ["Alice"]),
        ("We use PostgreSQL.", "We use a database.", ["PostgreSQL"]),
        ("We use PostgreSQL.", "postgresql is used.", []),
        ("The NATO stock number.", "The stock number.", ["NATO"]),
        ("Prefers tea to coffee.", "The user preferred tea to coffee.", []),
        ("Uses a standing desk.", "Works at a standing desk.", []),
        ("Deploys happen at night. The deploys are slow.", "At night, slowly.", []),
        ("He said: I'm late.", "He was late.", []),
        ("# Notes\n\n- Zora reviews\n- Kim merges", "Zora reviews.", ["Notes", "Kim"]),
        # scripts without capitals
        ("会議は 15 時から。", "会議がある。", ["15"]),
        ("会議は東京で。", "会議がある。", []),
    ],
)
def test_what_is_lost(source: str, summary: str, missing: list[str]) -> None:
    assert lost([(None, source)], summary) == missing


def test_titles_and_several_sources_count_together() -> None:
    sources = [("Port 8080", "The proxy is nginx."), ("Owner", "Ask Ana; the proxy is run by Ana.")]
    assert lost(sources, "The proxy is nginx, run by Ana; ask her.") == ["8080"]
    assert lost(sources, "Ana runs nginx, the proxy, on 8080; ask her.") == []


@given(st.lists(st.tuples(st.none() | st.text(max_size=60), st.text(max_size=300)), max_size=4))
def test_whoever_says_everything_loses_nothing(sources: list[tuple[str | None, str]]) -> None:
    assert lost(sources, "\n".join(text for title, content in sources for text in (title or "", content))) == []


@given(st.text(max_size=400))
def test_an_empty_summary_keeps_nothing_that_counts(text: str) -> None:
    assert all(said.strip() for said in lost([(None, text)], ""))


@pytest.mark.parametrize(
    "unit", ["a", "a.", "a/", "./", "A ", "9", "9.", "http://", "a@", "`", "-", "é\u0301", "\n- ", "Aa-"]
)
def test_a_text_made_to_be_slow_ends(unit: str) -> None:
    text = unit * (100_000 // len(unit))
    assert lost([(None, text)], text) == []


def test_first_sentences() -> None:
    text = "# Deploys\n\n- Every Tuesday. By hand!\n\n---\nNever on Friday."
    assert sentences(text, 3) == ["Deploys", "Every Tuesday.", "By hand!"]
    assert sentences("会議は東京で。次は大阪。", 5) == ["会議は東京で。", "次は大阪。"]
    assert sentences("--- !!", 2) == []
    assert sentences("word " * 100, 1, characters=20) == ["word word word word"]
