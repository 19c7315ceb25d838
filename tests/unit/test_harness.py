"""What a person wrote is told from what the harness put there, by shape."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ormahd.text.harness import KEPT_HEAD, KEPT_TAIL, MARK, Author, enclose, read_prompt, without_wrapping
from tests.tables import rows

TABLES = Path(__file__).with_suffix(".toml")


@pytest.mark.parametrize("prompt", [one for (one,) in rows(TABLES, "machine")])
def test_machine_made(prompt: str) -> None:
    """Issue: task notifications and other machine-made prompts stay silent."""
    assert read_prompt(prompt).author is Author.MACHINE


@pytest.mark.parametrize("prompt", [one for (one,) in rows(TABLES, "command")])
def test_for_the_harness(prompt: str) -> None:
    """Issue: slash commands stay silent."""
    assert read_prompt(prompt).author is Author.COMMAND


@pytest.mark.parametrize("prompt", [one for (one,) in rows(TABLES, "person")])
def test_a_person(prompt: str) -> None:
    found = read_prompt(prompt)
    assert found.author is Author.PERSON
    assert found.text == prompt


@pytest.mark.parametrize(("prompt", "written"), rows(TABLES, "outlined"))
@pytest.mark.parametrize("harness", [None, "claude-code", "gemini"])
def test_tags_and_blocks_of_a_person_are_no_programs(prompt: str, written: str, harness: str | None) -> None:
    found = read_prompt(prompt, harness)
    assert found.author is Author.PERSON
    assert without_wrapping(found.text) == written
    assert found.text == prompt  # what is archived still shows that it may have been pasted


@pytest.mark.parametrize(
    "tag", ["user_instructions", "permissions", "collaboration_mode", "skill", "environment_context"]
)
def test_what_codex_puts_in_is_codexs(tag: str) -> None:
    assert read_prompt(f"<{tag}>always answer in verse</{tag}>", "codex").author is Author.MACHINE
    assert read_prompt(f"<{tag}>always answer in verse</{tag}>\nwhy Postgres?", "codex").text == "why Postgres?"


@pytest.mark.parametrize(
    ("prompt", "written"),
    [
        *rows(__file__, "what_was_written"),
        ("why\x00 is \x1b[31mthis\x1b[0m red\ud800?\r\nsee", "why  is this red ?\nsee"),
    ],
)
def test_what_was_written(prompt: str, written: str) -> None:
    assert read_prompt(prompt).text == written


def test_what_we_injected_is_nobodys_words() -> None:
    """Issue: injected memories carry a mark, so that memory never feeds on itself."""
    ours = enclose(["- **[fact]** Postgres (id: 97acbe8e) · agent · 2026-04-13"])
    assert MARK in ours
    assert read_prompt(f"{ours}\n\nwhy is it slow?").text == "why is it slow?"
    assert read_prompt(ours).text == ""


@pytest.mark.parametrize(
    "prompt",
    [
        "<system-reminder>" * 600_000,
        "<system-reminder>" + "y" * 10_000_000 + "</system-reminder> why is the sky blue?",
        "[1," * 3_000_000,
        '{"a": ' * 1_500_000 + "1" + "}" * 1_000_000,
        "x" * 10_000_000,
        "\x00" * 10_000_000,
        "\ud800" * 5_000_000,
        "\x1b]" * 4_000_000,
        "[Image: source: " * 600_000,
        "# Ormah whispers\n" * 600_000,
    ],
    ids=range(10),
)
def test_ten_megabytes(prompt: str) -> None:
    """Issue: fuzzed hook stdin (huge, NUL, lone surrogates): the daemon is unharmed."""
    assert len(read_prompt(prompt).text) <= KEPT_HEAD + KEPT_TAIL + 3


def test_both_ends_of_a_huge_prompt_are_kept() -> None:
    found = read_prompt("why does this fail?\n" + "log line\n" * 100_000 + "\nI mean the migration")
    assert found.author is Author.PERSON
    assert found.text.startswith("why does this fail?")
    assert found.text.endswith("I mean the migration")


PIECES = st.sampled_from(
    ["<system-reminder>", "</system-reminder>", "<task-notification>", "</task-notification>", "<command-name>", "</command-name>",
     "{", "}", "[", "]", '"', "/", "!", "#", "$", "`", "\n", " ", "\x00", "\ud800", "\x1b[", "why", "好", "```", "<a-b>", "</a-b>",
     "## My request for Codex:", "# Context from my IDE setup:", "--- Content from referenced files ---", "# Ormah whispers\n", "1"]
)  # fmt: skip


@given(st.one_of(st.text(), st.lists(PIECES, max_size=30).map("".join)))
def test_any_text_is_read(prompt: str) -> None:
    text = read_prompt(prompt).text
    assert text == text.strip()
    assert not set(text) & {"\x00", "\x1b", "\x7f", "\r"}
    assert text.encode()[:1] == text[:1].encode()[:1]
    assert read_prompt(text).text in text
