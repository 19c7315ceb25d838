"""Texts and questions to measure retrieval with, which the ranking is fitted to besides the shared benchmarks.

`memory`: a developer's short notes (`memory.tsv`), asked in words that the note does not use.
`sessions`: prompts and long answers of a coding assistant (`sessions.tsv`), in six projects, asked about later.
`long_notes`: documentation of installed libraries, 200 to 800 words each, without the line that sums it up; that line
is the question. What is installed decides the notes, so the floors are relative (`test_floors.py`).
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import inspect
import pkgutil
import random
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

MEMORY = Path(__file__).with_name("memory.tsv")
SESSIONS = Path(__file__).with_name("sessions.tsv")
LIBRARIES = (
    "argparse", "asyncio", "collections", "datetime", "decimal", "difflib", "logging", "random", "string", "subprocess",
    "unittest", "unittest.mock", "numpy", "numpy.linalg", "numpy.random", "scipy.optimize", "scipy.signal", "scipy.stats",
    "scipy.interpolate", "sklearn.cluster", "sklearn.ensemble", "sklearn.linear_model", "sklearn.metrics",
    "sklearn.model_selection", "sklearn.preprocessing", "networkx", "sympy", "sympy.solvers",
)  # fmt: skip
LEAST_WORDS, MOST_WORDS = 200, 800
CODE_LINES = 60
"""Most lines of code in an answer of `sessions`."""


def rows(file: Path, columns: int | None = None) -> list[list[str]]:
    """The cells of each line of a set; `columns`: as many has each."""
    found = [line.split("\t") for line in file.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    assert all(columns in (None, len(row)) for row in found), file
    return found


@dataclass(frozen=True)
class Text:
    key: str
    title: str | None
    content: str


@dataclass(frozen=True)
class Question:
    text: str
    gold: str


def memory() -> tuple[list[Text], list[Question]]:
    texts, questions = [], []
    for key, _, title, content, asked in rows(MEMORY):
        texts.append(Text(key, title, content))
        questions += [Question(one.strip(), key) for one in asked.split(" | ") if one.strip()]
    return texts, questions


def sessions() -> tuple[list[Text], list[Question]]:
    """Prompts and answers as notes, with keys `project/number.asked` and `project/number.answered`; the answer is right."""
    texts, questions = [], []
    for number, (project, code, typed, asked, answer) in enumerate(rows(SESSIONS, 5)):
        source = inspect.getsource(pkgutil.resolve_name(code)).splitlines()[:CODE_LINES]
        block = "\n".join(["", "", "```python", *source, "```", ""])
        key = f"{project}/{number}"
        texts += [Text(f"{key}.asked", None, typed), Text(f"{key}.answered", None, answer.replace(" ¶ ", block))]
        questions.append(Question(asked, f"{key}.answered"))
    return texts, questions


def long_notes(count: int) -> tuple[list[Text], list[Question]]:
    """At most `count` notes; the same ones for the same libraries."""
    found: dict[str, tuple[str, str, str]] = {}
    for library in LIBRARIES:
        with contextlib.suppress(ImportError):
            for name, documented in _documented(importlib.import_module(library)):
                parts = _parts(documented)
                if parts is not None:
                    found.setdefault(hashlib.sha256(documented.encode()).hexdigest(), (f"{library}.{name}", *parts))
    chosen = sorted(found.values())
    random.Random(0).shuffle(chosen)
    chosen = chosen[:count]
    return [Text(key, None, body) for key, _, body in chosen], [Question(line, key) for key, line, _ in chosen]


def _documented(module: ModuleType) -> list[tuple[str, str]]:
    things = [(name, getattr(module, name, None)) for name in sorted(dir(module)) if not name.startswith("_")]
    return [(name, text) for name, thing in things if callable(thing) and (text := inspect.getdoc(thing))]


def _parts(documented: str) -> tuple[str, str] | None:
    """(the line that sums it up, the rest), where both are of the right length."""
    paragraphs = documented.split("\n\n")
    if re.match(r"[\w.]+\(", paragraphs[0]):  # a signature stands first
        paragraphs = paragraphs[1:]
    line = " ".join(paragraphs[0].split()) if paragraphs else ""
    body: list[str] = []
    length = 0
    for row in "\n\n".join(paragraphs[1:]).replace("=" * 7, "==").split("\n"):
        length += len(row.split())
        if length > MOST_WORDS and body:
            break
        body.append(row)
    if not 4 <= len(line.split()) <= 40 or length < LEAST_WORDS:
        return None
    return line, "\n".join(body)
