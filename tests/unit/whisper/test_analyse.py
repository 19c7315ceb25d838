"""Hear: the kinds of a prompt, what is searched for, its time and topic. With the hashing stand-in, which knows the examples
themselves; `tests/quality/test_intents.py` holds the kinds with the real model."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ormahd.embedding.embedder import Hashing, QueryVectors
from ormahd.text.times import find_period
from ormahd.whisper.analyse import (
    ARCHETYPES,
    EARLIER_CHARACTERS,
    WINDOW,
    Archetypes,
    analyse,
    classify,
    early_silence,
    topic_stems,
)
from ormahd.whisper.types import Analysis, Asked, Before, EarlierPrompt, Intent
from tests.tables import rows

NOW = datetime(2026, 11, 21, 20, tzinfo=UTC)
HASHING = Hashing()
EXAMPLES = Archetypes(HASHING.embed_query)


def understood(prompt: str, *earlier: str, space: str | None = None) -> Analysis:
    recent = tuple(EarlierPrompt(text, None, NOW - timedelta(minutes=1), True) for text in earlier) or None
    return analyse(Asked(prompt, space), Before(recent), embed=HASHING.embed_query, archetypes=EXAMPLES, now=NOW)


def deaf(prompt: str, *earlier: str) -> Analysis:
    """Without a model."""
    recent = tuple(EarlierPrompt(text, None, NOW, True) for text in earlier) or None
    return analyse(
        Asked(prompt, None), Before(recent), embed=lambda _: None, archetypes=Archetypes(lambda _: None), now=NOW,
    )  # fmt: skip


@pytest.mark.parametrize("kind", list(ARCHETYPES))
def test_an_example_is_of_its_kind(kind: Intent) -> None:
    for example in ARCHETYPES[kind]:
        assert kind in understood(example).intents or kind is Intent.CONTINUATION


def test_general_is_what_matches_nothing() -> None:
    heard = understood("how does the billing worker retry?")
    assert heard.intents == {Intent.GENERAL}
    assert heard.query == heard.prompt == "how does the billing worker retry?"
    assert heard.vector is not None
    assert not heard.follow_up
    assert (heard.after, heard.before) == (None, None)
    assert set(heard.scores) == {kind.value for kind in ARCHETYPES}


# ---------------------------------------------------------------- the rules among kinds


def scored(*, prompt: str = "me", **scores: float) -> set[Intent]:
    every = {kind: scores.get(kind.value, 0.0) for kind in ARCHETYPES}
    return set(classify(every, prompt, 0.65))


@pytest.mark.parametrize(("scores", "kinds", "prompt"), rows(__file__, "rules"))
def test_what_holds_among_kinds(scores: dict[str, float], kinds: list[str], prompt: str | None) -> None:
    assert scored(prompt=prompt or "me", **scores) == set(kinds)


def test_a_topic_of_its_own_comes_nearer() -> None:
    assert understood("what did we decide about the retries?").intents == {Intent.GENERAL}


def test_a_text_without_direction_is_general() -> None:
    """Reference 4.4: "Zero vector → general"."""

    def nothing(_: str) -> QueryVectors:
        one = HASHING.embed_query("x")
        return QueryVectors(np.zeros_like(one.vector), one.token_ids, one.tokens, one.wide)

    def broken(_: str) -> QueryVectors:
        one = HASHING.embed_query("x")
        return QueryVectors(np.full_like(one.vector, np.nan), one.token_ids, one.tokens, one.wide)

    for embed in (nothing, broken):
        heard = analyse(Asked("who am I?", None), Before(), embed=embed, archetypes=EXAMPLES, now=NOW)
        assert heard.intents == {Intent.GENERAL}
        assert heard.vector is None
        assert heard.scores == {}


# ---------------------------------------------------------------- time


def period(text: str) -> tuple[datetime, datetime]:
    found = find_period(text, NOW)
    assert found is not None
    return found.after, found.before


def test_temporal_has_a_window_and_loses_the_phrase() -> None:
    """Seed: "temporal prompts relax some thresholds"; reference: the time window and the stripped query."""
    heard = understood("what did we do yesterday?")
    assert heard.temporal
    assert heard.query == "what did we do ?"
    assert (heard.after, heard.before) == period("yesterday")


def test_a_time_that_is_not_understood_is_no_window() -> None:
    heard = understood("summarize what happened this blue moon")
    assert heard.temporal
    assert (heard.after, heard.before) == (None, None)
    assert heard.query == heard.prompt


def test_a_period_beside_a_topic_is_no_question_about_time() -> None:
    heard = understood("the import error since the upgrade yesterday, fix it")
    assert heard.intents == {Intent.GENERAL}
    assert heard.after is None


def test_without_a_model_a_plain_question_about_a_time_is_known() -> None:
    """Brief fallback: word patterns."""
    heard = deaf("what did we do last week?")
    assert heard.intents == {Intent.TEMPORAL}
    assert heard.vector is None
    assert (heard.after, heard.before) == period("last week")
    assert deaf("was haben wir gestern gemacht?").intents == {Intent.TEMPORAL}
    assert deaf("why did the deploy fail last week?").intents == {Intent.GENERAL}
    assert deaf("who am I?").intents == {Intent.GENERAL}


def test_nothing_but_a_period_is_searched_for_as_it_is() -> None:
    assert understood("yesterday?").query == "yesterday?"


# ---------------------------------------------------------------- follow-ups


def test_a_follow_up_is_searched_with_the_last_two_prompts() -> None:
    """Seed: "continuation query: recent_prompts[-2:] + [prompt]"."""
    heard = understood("what about that one?", "how do we deploy?", "how does the worker retry?", "which queue is it?")
    assert heard.follow_up
    assert heard.query == "how does the worker retry?\nwhich queue is it?\nwhat about that one?"
    assert "queue" in topic_stems(heard.query, None)
    assert "deploi" not in topic_stems(heard.query, None)


@pytest.mark.parametrize(("prompt", "earlier", "query"), rows(__file__, "queries"))
def test_other_prompts_are_not_expanded(prompt: str, earlier: list[str], query: str) -> None:
    """Seed: "The search query is only expanded for follow-up prompts"; base query: current prompt."""
    heard = understood(prompt, *earlier)
    assert (heard.query, heard.follow_up) == (query, query != prompt)


def test_half_a_topic_is_searched_with_the_other_half() -> None:
    heard = deaf("and how about production?", "how does the cache expire?", "how do we deploy to staging?")
    assert heard.query == "how do we deploy to staging?\nand how about production?"


def test_earlier_prompts_are_cut() -> None:
    heard = understood("what about that one?", "x" * 5_000)
    assert heard.query == "x" * EARLIER_CHARACTERS + "\nwhat about that one?"


@pytest.mark.parametrize(
    "prompt", ["what about the second queue?", "and how about production?", "how does it do that?"]
)
def test_what_leans_on_the_prompt_before_is_known_by_its_words(prompt: str) -> None:
    assert deaf(prompt, "which queue does the worker use?").follow_up
    assert not deaf(prompt).follow_up


@pytest.mark.parametrize(
    "prompt", ["what about the memory leak in the importer of the old data?", "who am I?", "rename the queue"]
)
def test_what_stands_by_itself_is_no_follow_up(prompt: str) -> None:
    assert not deaf(prompt, "which queue does the worker use?").follow_up


def test_where_were_we_at_the_beginning_asks_for_the_newest() -> None:
    """With earlier prompts they say what it is about, and no window hides what is older than three days."""
    heard = understood("where were we?")
    assert heard.intents == {Intent.CONTINUATION, Intent.TEMPORAL}
    assert heard.after == NOW - WINDOW
    later = understood("where were we?", "how does the worker retry?")
    assert later.follow_up
    assert later.after is None
    assert "worker" in later.query


# ---------------------------------------------------------------- topic


@pytest.mark.parametrize(("query", "space", "tokens"), rows(__file__, "topics"))
def test_topic(query: str, space: str, tokens: list[str]) -> None:
    """Seed: "extracts topic tokens from the current prompt"; reference: without stop words and the space's name."""
    assert topic_stems(query, space or None) == set(tokens)


@given(st.text(), st.one_of(st.none(), st.text(max_size=20)), st.text(max_size=40))
def test_any_prompt_is_heard(prompt: str, space: str | None, earlier: str) -> None:
    heard = understood(prompt, earlier, space=space)
    assert heard.intents
    assert heard.prompt in heard.query or heard.temporal
    assert early_silence(prompt) is not None or heard.query


# ---------------------------------------------------------------- the examples' vectors


def test_examples_are_embedded_once_and_anew_for_another_model() -> None:
    asked: list[str] = []
    there = False

    def embed(text: str) -> QueryVectors | None:
        asked.append(text)
        return HASHING.embed_query(text) if there else None

    examples = Archetypes(embed)
    assert not examples.warm()
    vector = HASHING.embed_query("who am I?").vector
    assert examples.scores(vector) is None
    there = True
    asked.clear()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: examples.scores(vector), range(8)))
    assert len(asked) == sum(len(sentences) for sentences in ARCHETYPES.values())
    assert found[0] is not None
    assert found[0][Intent.IDENTITY] == pytest.approx(1.0)
    assert found == [found[0]] * 8
    assert examples.scores(vector[:100]) is None, "a vector of a model that does not embed any more"
