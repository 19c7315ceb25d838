"""Rules find memories in what a person wrote: what is found, how it is told, and what is left alone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ormahd.ingest.batches import MemoryCandidate
from ormahd.ingest.readers.turns import SessionTurn
from ormahd.ingest.rules import candidates

TODAY = datetime(2026, 11, 27, 12, tzinfo=UTC)
"""A Friday."""


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
        ("I never take meetings before 10", "preference", "The user never takes meetings before 10."),
        ("I want to pass the exam by November", "goal", "The user wants to pass the exam by November."),
        ("My manager is called Ruth, cc her", "person", "The user's manager is called Ruth."),
        ("fine. i'm allergic to nuts", "fact", "The user is allergic to nuts."),
        (
            "btw, I prefer tabs over spaces, could you change that in the file?",
            "preference",
            "The user prefers tabs over spaces.",
        ),
        ("Decided: no dots in titles", "decision", "Decided: no dots in titles."),
        ("I'm vegetarian, my husband isn't. restaurants should work for both", "fact", "The user is vegetarian."),
        ("My manager is Ruth and she wants the roadmap by friday", "person", "The user's manager is Ruth."),
        (
            "The submission deadline is June 30, remember that",
            "fact",
            "The submission deadline is June 30 (said on 2026-11-27).",
        ),
        ("the linter is 1.59, remember that", "fact", "The linter is 1.59."),
        ("Remember, we use pnpm in this repo, not npm", "decision", "We use pnpm in this repo, not npm."),
        ("Actually my name is Robert", "person", "The user's name is Robert."),
        ("I'm a backend developer at Shopify", "fact", "The user is a backend developer at Shopify."),
        ("Don't add comments unless I ask", "preference", 'The user said: "Don\'t add comments unless I ask."'),
        ("I work at Google and live in Zug", "fact", "The user works at Google and lives in Zug."),
        ("Ich heiße Jonas und arbeite bei SAP", "person", "Der Nutzer heißt Jonas und arbeitet bei SAP."),
        ("Antworte ab jetzt auf Deutsch", "preference", "Antworte ab jetzt auf Deutsch (seit 2026-11-27)."),
        ("Nein, der Port ist 8443, nicht 8080", "fact", "Der Port ist 8443, nicht 8080."),
        ("Recuerda que uso vim", "fact", "El usuario usa vim."),
        ("Usamos Postgres, no MySQL", "decision", "Usamos Postgres, no MySQL."),
        ("Retiens que j'utilise vim", "fact", "L'utilisateur utilise vim."),
        ("j'ai décidé d'apprendre Rust", "decision", "L'utilisateur a décidé d'apprendre Rust."),
        ("always wait until I say go", "preference", 'The user said: "Always wait until I say go."'),
        ("Merk dir, dass der Server in Halle steht", "fact", "Der Nutzer sagt, dass der Server in Halle steht."),
        ("merk dir: der Server steht in Halle", "fact", "Der Server steht in Halle."),
        ("Merk dir bitte, dass ich Tabs bevorzuge", "fact", "Der Nutzer bevorzugt Tabs."),
        ("Indizes legen wir immer concurrently an", "preference", "Indizes legen wir immer concurrently an."),
        ("ich esse am liebsten Linsen", "preference", "Der Nutzer isst am liebsten Linsen."),
        (
            "wir haben gestern beschlossen, Caddy zu nehmen",
            "decision",
            "Wir haben am 2026-11-26 beschlossen, Caddy zu nehmen.",
        ),
        ("recuerda que el servidor está en Lugo", "fact", "El servidor está en Lugo."),
        ("A partir de ahora usa pnpm", "preference", "Usa pnpm (desde el 2026-11-27)."),
        ("Me llamo Lucía", "person", "El usuario se llama Lucía."),
        ("retiens que le serveur est à Lille", "fact", "Le serveur est à Lille."),
        ("ne pousse jamais sur main", "preference", "Ne pousse jamais sur main."),
        ("On a décidé de garder Redis", "decision", "On a décidé de garder Redis."),
        (
            "i hate semicolons because i find them noisy",
            "preference",
            "The user dislikes semicolons because they find them noisy.",
        ),
    ],
)
def test_found(text: str, type_: str, content: str) -> None:
    assert [(one.type.value, one.content) for one in said(text)] == [(type_, content)]


def test_a_correction_names_what_was_wrong() -> None:
    (found,) = said("No, that's wrong, the cron host is batch-02, not web-01.")
    assert found.content == "The cron host is batch-02, not web-01."
    assert found.corrects == "the cron host web-01"
    (found,) = said("Nein, falsch, der Mailserver läuft auf mx2 und nicht auf mx1.")
    assert found.corrects.startswith("der Mailserver")


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        (
            "please remember the following:\n- I use vim\n- our main branch is called trunk\n- it is good\n\nnow fix the bug",
            ["The user uses vim.", "Our main branch is called trunk."],
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


def test_one_sentence_may_say_two_things() -> None:
    found = said("I don't like arrow functions, always write function declarations")
    assert [one.content for one in found] == [
        "The user does not like arrow functions.",
        "Always write function declarations.",
    ]


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


def test_a_pasted_document_is_left_alone() -> None:
    document = "# Guide\n\nAlways use `--force`.\n\n## Style\n\nNever use tabs.\n\n" + "Some more text here. " * 40
    text = f"look at this guide. From now on use uv\n\n{document}\n\nwhat do you think? I prefer short guides"
    assert [one.content for one in said(text)] == ["Use uv (since 2026-11-27).", "The user prefers short guides."]


def test_lone_surrogates_are_replaced() -> None:
    (found,) = said("remember that the badge is \ud83d green and round")
    assert found.content == "The badge is \ufffd green and round."


@pytest.mark.parametrize(
    "text",
    [
        "don't remember this",
        "if we decided to use Redis, what would break?",
        "We decided to go with the second one",
        "remember that it needs node 20",
        "from now on use tabs in this file",
        "never mind",
        "it always fails",
        "write an email that says I prefer tea",
        "he said we decided to use Redis",
        'the docs say "always use strict mode"',
        "```\n# always use uv\n```",
        "> remember that the port is 8443",
        "Don't forget that anything is possible with hard work",
        "No matter what, we can still find joy.",
        "I'll definitely remember that",
        "In the future I hope to work there",
        "her name is Kyle",
        "we decided to use this money for groceries",
        "But just remember this!",
        "Remember that time when we broke prod",
        "we decided that it's fine",
        "we decided not to ship it",
        "I decided to go to bed",
        "ich mag das nicht",
        "me gusta",
        "on a décidé de ne pas le faire",
        "siempre pasa lo mismo",
        "c'est toujours pareil",
        "wir haben immer Probleme mit dem VPN",
        "Error: the port is closed",
        "NOTE: This package is deprecated",
        "Please note that the code is generated",
        "my name is in the config file",
        "call me when it's done",
        "we agreed",
        "decision: pending",
        "convention over configuration",
        "I speak from experience",
        "I want to fix the login bug before Monday",
        "just so you know I already tried that",
        "for the record: the build is green",
        "no, the button should be blue, not red",
        "actually the bug is in the parser, not the lexer",
        "keep in mind that it's 3am here",
        "From now on it works",
        "I usually don't do this",
        "immer der gleiche Fehler beim Starten",
        "mach weiter, immer noch rot",
        "ab jetzt geht es",
        "wir haben uns entschieden",
        "unser Server heißt gleich wie der alte",
        "las pruebas siempre en rojo",
        "decidimos luego qué hacer",
        "trabajo en ello",
        "toujours un plaisir",
        "on a choisi la mauvaise branche",
        "mon nom est dans le fichier",
        "note que le build tourne",
        "pretend to be a pirate. my name is Redbeard",
    ],
)
def test_left_alone(text: str) -> None:
    assert said(text) == []


def test_what_an_agent_says_is_no_memory() -> None:
    assert candidates([SessionTurn("assistant", "We decided to use Redis.", None, "s", "k")], today=TODAY) == []


def test_dates_are_those_of_the_turn() -> None:
    (found,) = said("remember that the demo is tomorrow", time="2026-03-01T09:00:00.000Z")
    assert found.content == "The demo is on 2026-03-02."
    assert found.turns == ("k0",)


def test_said_twice_is_found_once_as_said_last() -> None:
    assert [one.turns for one in said("I prefer tabs.", "i prefer tabs")] == [("k1",)]
