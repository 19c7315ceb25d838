"""Texts of others (transcripts, pages, notes) take time that grows with their length, whatever they consist of.

Each reader gets texts of 25,000 characters in a child process whose CPU time is limited: a pattern that tries every end
for every start would need many seconds, and a linear one needs a small part of a second, whatever else the machine does.
"""

from __future__ import annotations

import io
import json
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import Struct

from ormahd.actions import views
from ormahd.ingest import rules
from ormahd.ingest.documents import sections
from ormahd.ingest.readers.formats import READERS
from ormahd.ingest.readers.turns import Reading, SessionTurn
from ormahd.jobs.duplicates import change
from ormahd.judge import answers, port
from ormahd.model.node import NodeType
from ormahd.note import markdown
from ormahd.search.gather import parts
from ormahd.text import bearing, facts, harness, quoting, sameness, secrets, statement, words
from ormahd.whisper import analyse

LENGTH = 25_000
CPU_S = 2
UNITS = (
    *(" ", "\n", "\t", "-", "=", "#", "*", "_", "`", "'", '"', "(", "[", "[[", "![", "{", "<", "</", ">", "|", "a", "1"),
    *(".", ":", "\\", "~", "a ", "a-", "a.", "1-", "- ", "a\n", "<a>", "é", "中", "key=", "a@", "[x](", "`a`", "**a"),
    *("\n---\n", "\n```\n", "password ", "always ", "remember that ", "<command-name>", "<cwd>", "<think>", "<hook_context>", "the user ", "\x1b["),
)  # fmt: skip
HEADS = (
    *("<command-name>", "<command-args>", "<cwd>", "<system-reminder>", "# a", "title: a", "- a", "```", '"', "User:"),
    *("password: ", "/clear", "http://", "the user", "[["),
)  # fmt: skip


class _Item(Struct):
    name: str


def _transcript(program: str, *lines: Callable[[str], dict[str, Any]]) -> Callable[[str], object]:
    def read(text: str) -> object:
        data = "".join(json.dumps(line(text)) + "\n" for line in lines).encode()
        return list(READERS[program](io.BytesIO(data), Reading(name="session")))

    return read


def _page(text: str) -> object:
    line = text.replace("\n", " ")
    return [sections.sections(one, "page.md") for one in (text, f"# {line}", f"---\ntitle: {line}\n---\n{text}")]


def _by_rules(text: str) -> object:
    return list(rules.candidates([SessionTurn("user", text, None, "session", "key")], today=datetime.now(UTC)))


TRANSCRIPTS: dict[str, Callable[[str], object]] = {
    "claude-code": _transcript(
        "claude-code",
        lambda text: {"type": "user", "uuid": "a", "parentUuid": None, "sessionId": "s", "message": {"content": text}},
    ),
    "codex": _transcript(
        "codex",
        lambda _: {"type": "session_meta", "payload": {"id": "s"}},
        lambda text: {
            "type": "response_item",
            "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]},
        },
    ),
    "text": lambda text: list(READERS["text"](io.BytesIO(f"User: {text}\nAssistant: {text}".encode()), Reading())),
}
PROMPTS: dict[str, Callable[[str], object]] = {
    "harness": harness.read_prompt,
    "clean": analyse.typed_text,
    "early": analyse.early_silence,
    "parts": parts,
    "command": bearing.simple_commands,
}
NOTES: dict[str, Callable[[str], object]] = {
    "quoted": lambda text: quoting.quoted(text, 2_000),
    "harmless": quoting.harmless,
    "redact": secrets.redact,
    "statement": lambda text: statement.read_statement(text[:200], text, NodeType.FACT),
    "exact_tokens": facts.exact_tokens,
    "lost": lambda text: facts.lost_facts([(None, text)], text),
    "bearing": lambda text: bearing.bearing(text[:200], text, NodeType.DECISION, rejected=True),
    "essence": sameness.normal_form,
    "words": words.words,
    "wikilinks": markdown.wikilinks,
    "normalise": markdown.normalise,
    "sentences": change.sentences,
    "headline": lambda text: views.headline(None, text),
}
OTHERS: dict[str, Callable[[str], object]] = {
    "page": _page,
    "rules": _by_rules,
    "answer": lambda text: answers.read("{" + text, _Item),
    "stderr": port.quote,
}
READERS_OF = {"transcripts": TRANSCRIPTS, "prompts": PROMPTS, "notes": NOTES, "others": OTHERS}


def _texts() -> list[str]:
    runs = [(unit * LENGTH)[:LENGTH] for unit in UNITS]
    return [*runs, *(head + unit * LENGTH + "é x." for head in HEADS for unit in (" ", "\n", "a", "-"))]


@pytest.mark.parametrize("kind", READERS_OF)
def test_no_text_of_others_takes_long(kind: str) -> None:
    child = subprocess.run(
        [sys.executable, "-m", "tests.unit.test_hostile_texts", kind], capture_output=True, text=True, check=False
    )
    assert child.returncode == 0, f"{child.stdout.strip().splitlines()[-1:]} {child.stderr}"


def _main(kind: str) -> None:
    signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, read in READERS_OF[kind].items():
        for text in _texts():
            print(name, repr(text[:20]), flush=True)
            signal.setitimer(signal.ITIMER_VIRTUAL, CPU_S)
            read(text)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


if __name__ == "__main__":
    _main(sys.argv[1])
