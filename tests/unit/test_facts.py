"""What a summary must not lose, and what it may say in other words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ormahd.text.facts import lost_facts, sentences
from tests.tables import rows


@pytest.mark.parametrize(("source", "summary", "missing"), rows(__file__, "what_is_lost"))
def test_what_is_lost(source: str, summary: str, missing: list[str]) -> None:
    assert lost_facts([(None, source)], summary) == missing


def test_titles_and_several_sources_count_together() -> None:
    sources = [("Port 8080", "The proxy is nginx."), ("Owner", "Ask Ana; the proxy is run by Ana.")]
    assert lost_facts(sources, "The proxy is nginx, run by Ana; ask her.") == ["8080"]
    assert lost_facts(sources, "Ana runs nginx, the proxy, on 8080; ask her.") == []


@given(st.lists(st.tuples(st.none() | st.text(max_size=60), st.text(max_size=300)), max_size=4))
def test_whoever_says_everything_loses_nothing(sources: list[tuple[str | None, str]]) -> None:
    assert lost_facts(sources, "\n".join(text for title, content in sources for text in (title or "", content))) == []


@given(st.text(max_size=400))
def test_an_empty_summary_keeps_nothing_that_counts(text: str) -> None:
    assert all(said.strip() for said in lost_facts([(None, text)], ""))


def test_first_sentences() -> None:
    text = "# Deploys\n\n- Every Tuesday. By hand!\n\n---\nNever on Friday."
    assert sentences(text, 3) == ["Deploys", "Every Tuesday.", "By hand!"]
    assert sentences("会議は東京で。次は大阪。", 5) == ["会議は東京で。", "次は大阪。"]
    assert sentences("--- !!", 2) == []
    assert sentences("word " * 100, 1, characters=20) == ["word word word word"]
