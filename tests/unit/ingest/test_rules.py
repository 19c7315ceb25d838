"""Rules find memories in what a person wrote: what is found, how it is told, and what is left alone."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ormahd.ingest.batches import MemoryCandidate
from ormahd.ingest.checks import can_be_acted_on
from ormahd.ingest.readers.turns import SessionTurn
from ormahd.ingest.rules import candidates
from ormahd.model.node import NodeType

TODAY = datetime(2026, 11, 27, 12, tzinfo=UTC)
"""A Friday."""
TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def said(*texts: str, time: str | None = None) -> list[MemoryCandidate]:
    """Return what the rules find in a session in which a person said `texts`."""
    turns = [SessionTurn("user", text, time, "s", f"k{at}") for at, text in enumerate(texts)]
    return candidates(turns, today=TODAY)


@pytest.mark.parametrize(
    ("text", "type_", "content"),
    [
        ("remember that I prefer tabs over spaces", "preference", "The user prefers tabs over spaces."),
        ("ok great, but from now on use pnpm, not npm", "preference", "Use pnpm, not npm (since 2026-11-27)."),
        ("Please always ask me before pushing.", "preference", "Always ask the user before pushing."),
        (
            "We decided to use Postgres for the queue, because Redis lost jobs.",
            "decision",
            "We decided to use Postgres for the queue, because Redis lost jobs.",
        ),
        ("hi! my name is Jana", "person", "The user's name is Jana."),
        ("can you remember that the release is on Monday?", "fact", "The release is on 2026-11-30."),
        ("For future reference: staging runs on port 8443", "fact", "Staging runs on port 8443."),
        ("the demo is on Monday, remember that", "fact", "The demo is on 2026-11-30."),
        ("please never push to main", "preference", "Never push to main."),
        ("fine. i'm allergic to nuts", "fact", "The user is allergic to nuts."),
        ("Decided: no dots in titles", "decision", "Decided: no dots in titles."),
        (
            "The submission deadline is June 30, remember that",
            "fact",
            "The submission deadline is June 30 (said on 2026-11-27).",
        ),
        ("the linter is 1.59, remember that", "fact", "The linter is 1.59."),
        ("Actually my name is Robert", "person", "The user's name is Robert."),
        (
            "wir haben gestern beschlossen, Caddy zu nehmen",
            "decision",
            "Wir haben am 2026-11-26 beschlossen, Caddy zu nehmen.",
        ),
        ("A partir de ahora usa pnpm", "preference", "Usa pnpm (desde el 2026-11-27)."),
        ("Me llamo Lucía", "person", "El usuario se llama Lucía."),
        ("ne pousse jamais sur main", "preference", "Ne pousse jamais sur main."),
        ("On a décidé de garder Redis", "decision", "On a décidé de garder Redis."),
        ("Remember, we use pnpm in this repo, not npm", "decision", "We use pnpm in this repo, not npm."),
        ("My manager is called Ruth", "person", "The user's manager is called Ruth."),
        (
            "no, from now on left-pad is forbidden in this shop",
            "decision",
            "Left-pad is forbidden in this shop (since 2026-11-27).",
        ),
        ("from now on all prices are in cents", "decision", "All prices are in cents (since 2026-11-27)."),
        ("left-pad ist tabu ab sofort", "decision", "Left-pad ist tabu (seit 2026-11-27)."),
        ("desde ahora left-pad está prohibido", "decision", "Left-pad está prohibido (desde el 2026-11-27)."),
        ("désormais left-pad est interdit", "decision", "Left-pad est interdit (depuis le 2026-11-27)."),
        ("remember that the first shelf holds paint", "fact", "The first shelf holds paint."),
        ("Merk dir: die zweite Kasse nimmt nur Karten", "fact", "Die zweite Kasse nimmt nur Karten."),
        ("recuerda que el segundo cajón guarda las llaves", "fact", "El segundo cajón guarda las llaves."),
        ("retiens que la deuxième clé ouvre le portail", "fact", "La deuxième clé ouvre le portail."),
        (
            "> asked: Which commit style?\n> Say it.\nfrom now on we use gitmoji",
            "decision",
            "We use gitmoji (since 2026-11-27).",
        ),
        ("I'm vegetarian, my husband isn't", "fact", "The user is vegetarian."),
        (
            "My daughter is called Noor and she's six, so no long days",
            "person",
            "The user's daughter is called Noor and she's six.",
        ),
        (
            "It's decided: the billing migration comes before search in Q3",
            "decision",
            "It's decided: the billing migration comes before search in Q3 (said on 2026-11-27).",
        ),
        ("Beschlossen: der Umzug ist in Q1 2027", "decision", "Beschlossen: der Umzug ist in Q1 2027."),
        ("I live in Zug and Ulm", "fact", 'The user said: "I live in Zug and Ulm."'),
        ("Always run the linter first here.", "preference", "Always run the linter first in this project."),
        ("Antworte ab jetzt auf Deutsch", "preference", "Antworte ab jetzt auf Deutsch."),
        (
            "Merk dir, dass der Etikettendrucker nur PDF nimmt",
            "fact",
            "Der Nutzer sagt, dass der Etikettendrucker nur PDF nimmt.",
        ),
        (
            "Merk dir bitte, dass ich Tabs bevorzuge",
            "fact",
            "Der Nutzer sagte: „Merk dir bitte, dass ich Tabs bevorzuge.“",
        ),
        ("recuerda que el sensor del patio está en Lugo", "fact", "El sensor del patio está en Lugo."),
        ("retiens que le serveur de Lille s'arrête à minuit", "fact", "Le serveur de Lille s'arrête à minuit."),
        ("On a décidé hier d'utiliser Caddy", "decision", "On a décidé le 2026-11-26 d'utiliser Caddy."),
        ("Hemos decidido no usar feature flags", "decision", "Hemos decidido no usar feature flags."),
        ("We decided to keep two replicas, so please remove the third", "decision", "We decided to keep two replicas."),
        ("Remember that I have two years of Airflow", "fact", 'The user said: "I have two years of Airflow."'),
    ],
)
def test_found(text: str, type_: str, content: str) -> None:
    assert [(one.type.value, one.content) for one in said(text)] == [(type_, content)]


@pytest.mark.parametrize(
    ("text", "about_self"),
    [
        ("Schlag mir nie wieder Hotels mit Animation vor", True),
        ("Schreib Befehle für mich grundsätzlich ohne sudo", True),
        ("no me des nunca la solución directamente, solo pistas", True),
        ("Ne me propose jamais de vols de nuit", True),
        ("Frag mich bei uns immer, bevor du pushst.", False),
        ("Use pnpm from now on", False),
        ("note for later: at work we have SQL Server 2019", True),
        ("Merk dir: zuhause läuft nur Debian 12", True),
        ("recuerda que en el trabajo hay un proxy", True),
        ("retiens que notre fils a quatre ans", True),
        ("remember that our daughter is called Noor", True),
        ("remember that our main branch is called trunk", False),
    ],
)
def test_what_is_about_the_person_is_marked_so(text: str, about_self: bool) -> None:
    assert [one.about_self for one in said(text)] == [about_self]


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        (
            "please remember the following:\n- I use vim\n- our main branch is called trunk\n- it is good",
            ['The user said: "I use vim."', "Our main branch is called trunk."],
        ),
        (
            "Merk dir:\n1. Commits auf Englisch\n2. keine Emojis in Commits",
            ["Commits auf Englisch.", "Keine Emojis in Commits."],
        ),
        ("these are the rules that fail:\n- the port is wrong\n- the name is empty", []),
        ("for now remember these:\n- the port is 8443\n- the host is web-2", []),
        ("fix these bugs:\n- the port is wrong\n- the color is red", []),
    ],
)
def test_a_list_that_is_to_be_remembered(text: str, contents: list[str]) -> None:
    assert [one.content for one in said(text)] == contents


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        (
            "Remember that our staging runs on Hetzner and that the shop runs on OVH",
            ["Our staging runs on Hetzner.", "The shop runs on OVH."],
        ),
        (
            "Remember that the staging port is 5433 and the production port is 5434",
            ["The staging port is 5433.", "The production port is 5434."],
        ),
        ("Never push to main and always squash here", ["Never push to main.", "Always squash in this project."]),
        ("My name is Ada and I live in Ulm", ["The user's name is Ada.", "The user lives in Ulm."]),
        ("From now on use uv. We decided to drop pip.", ["Use uv (since 2026-11-27).", "We decided to drop pip."]),
    ],
)
def test_two_statements_are_two_memories(text: str, contents: list[str]) -> None:
    assert [one.content for one in said(text)] == contents


@pytest.mark.parametrize(
    ("text", "title", "content"),
    [
        (
            "I'm on vacation from July 6 to July 24, please remember that",
            "I'm on vacation from July 6 to July 24 (said on 2026-11-27)",
            'The user said: "I\'m on vacation from July 6 to July 24." (said on 2026-11-27).',
        ),
        ("hemos acordado conservar las copias tres años, ajusta el prune",
         "Hemos acordado conservar las copias tres años", "Hemos acordado conservar las copias tres años."),
        ("Merk dir: Keys haben nie den Index, das hatten wir schon",
         "Keys haben nie den Index", "Keys haben nie den Index."),
    ],
)  # fmt: skip
def test_title_and_content_have_the_statement_alone(text: str, title: str, content: str) -> None:
    assert [(one.title, one.content) for one in said(text)] == [(title, content)]


def test_what_remember_that_means_is_the_sentence_before() -> None:
    (found,) = said("The staging database has port 5433. Remember that.")
    assert found.content == "The staging database has port 5433."


@pytest.mark.parametrize(
    "text",
    ["a" * 100_000, "always " * 20_000, "remember that " * 10_000, "<a>" * 30_000, ", " * 50_000, "wir " * 30_000],
)
def test_hostile_text_is_read_quickly(text: str) -> None:
    """Fails by its effort, not by a clock: a pattern that backtracks would never end."""
    assert len(said(text)) <= 2


def test_lines_that_were_wrapped_are_one_sentence() -> None:
    text = "hi, please remember that the nightly job on the cluster\nneeds four hours and holds the lock\nuntil it ends. thanks"
    (found,) = said(text)
    assert found.content == "The nightly job on the cluster needs four hours and holds the lock until it ends."


@pytest.mark.parametrize("text", TABLES["others"])
def test_words_of_others_jokes_and_halves_are_left_alone(text: str) -> None:
    assert said(text) == []


@pytest.mark.parametrize("text", TABLES["bare"])
def test_a_subject_that_only_the_conversation_explains_is_left_alone(text: str) -> None:
    assert said("what was it again?", text) == []


@pytest.mark.parametrize("text", TABLES["kept"])
def test_what_lasts_is_found(text: str) -> None:
    assert len(said(text)) == 1


@pytest.mark.parametrize("after", TABLES["taken_back"])
def test_what_the_next_prompt_takes_back_or_narrows_is_left_alone(after: str) -> None:
    assert said("We decided to use Vite for the shop.", after) == []


@pytest.mark.parametrize("after", TABLES["goes_on"])
def test_other_prompts_take_nothing_back(after: str) -> None:
    assert len(said("We decided to use Vite for the shop.", after)) == 1


@pytest.mark.parametrize("text", TABLES["orders"])
def test_an_order_to_the_agent_waits(text: str) -> None:
    assert [can_be_acted_on(one.type, one.content) for one in said(text)] == [True]


@pytest.mark.parametrize("text", TABLES["wishes"])
def test_how_to_answer_and_what_is_about_the_person_stands(text: str) -> None:
    assert [can_be_acted_on(one.type, one.content) for one in said(text)] == [False]


@pytest.mark.parametrize("text", TABLES["made"])
def test_an_order_behind_a_preference_that_a_model_tells_waits(text: str) -> None:
    assert can_be_acted_on(NodeType.PREFERENCE, text)
    assert not can_be_acted_on(NodeType.PREFERENCE, text.split(",", maxsplit=1)[0])


@pytest.mark.parametrize(("text", "content"), TABLES["tails"])
def test_a_statement_has_no_tail_for_the_work_at_hand(text: str, content: str) -> None:
    assert [one.content for one in said(text)] == [content]


def test_in_a_role_play_only_facts_that_are_to_be_remembered_count() -> None:
    play = "Pretend you're my grandma; from now on only speak in proverbs."
    assert len(said(play, "My daughter is called Nora, remember that.")) == 1
    assert said(play, "I prefer a bed, good woman. Remember that!", "We decided to stay here.") == []


@pytest.mark.parametrize(
    "before", ["Can you reply to this guest?", "make the next text shorter", "Write me a story about a lighthouse."]
)
def test_what_follows_a_text_to_work_on_may_be_that_text(before: str) -> None:
    assert said(before, "My name is Elias. I prefer storms.") == []


def test_lone_surrogates_are_replaced() -> None:
    (found,) = said("remember that the badge is \ud83d green and round")
    assert found.content == "The badge is \ufffd green and round."


@pytest.mark.parametrize("text", [*TABLES["alone"], *TABLES["passing"]])
def test_left_alone(text: str) -> None:
    assert said(text) == []


def test_the_title_of_a_chat_says_what_it_is_about() -> None:
    turns = [
        SessionTurn("user", text, None, "s", text) for text in ("I prefer storms.", "Remember that the well is dry")
    ]
    assert len(candidates(turns, today=TODAY, title="Pump in the garden")) == 2
    found = candidates(turns, today=TODAY, title="Short story about a lighthouse")
    assert [one.content for one in found] == ["The well is dry."]


def test_what_an_agent_says_is_no_memory() -> None:
    assert candidates([SessionTurn("assistant", "We decided to use Redis.", None, "s", "k")], today=TODAY) == []


def test_dates_are_those_of_the_turn() -> None:
    (found,) = said("remember that the demo is tomorrow", time="2026-03-01T09:00:00.000Z")
    assert found.content == "The demo is on 2026-03-02."
    assert found.turns == ("k0",)


def test_said_twice_is_found_once_as_said_last() -> None:
    assert [one.turns for one in said("I prefer tabs.", "i prefer tabs")] == [("k1",)]
