"""Every pattern of the product takes time that grows with the length of the text, whatever the text consists of.

All compiled patterns are collected from the modules. Each is tried on runs of many units at a small size; the units on
which it works longest are its worst inputs, which it gets at 10, 40 and 160 kB. It is used as the code uses it: patterns
that are only matched at a given place are only matched there. Work is measured in CPU time: a linear pattern needs some
milliseconds, and one that is not would need minutes.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ormahd

ROOT = Path(ormahd.__file__).parent
SIZES = (10_000, 40_000, 160_000)
SCREENED = 500
CPU_S = 0.1
"""CPU seconds that a pattern may take for its worst input. Twice tried, because the machine may be busy."""
PLACED = frozenset({"match", "fullmatch"})
MATCHED = "ormahd.text.secret_rules._FOLLOWING"
"""A table of patterns all of which are only matched at a given place."""
OWN = ("ormahd.git", "ormahd.purge", "ormahd.sync", "ormahd.settings", "ormahd.process")
"""Rooms whose patterns read what Ormah or git wrote."""
BOUNDED = {
    "ormahd.search.exact._SENTENCE": 20, "ormahd.text.facts._SENTENCE_END": 40, "ormahd.text.traits._ENDS": 40,
    "ormahd.text.statement._SENTENCE": 2_000, "ormahd.text.statement._SPOKEN": 2_000, "ormahd.text.facts._PIECE": 2_000,
    "ormahd.search.gather._SEAM": 600,
}  # fmt: skip
"""Pattern -> maximum number of characters of the texts that the code gives it."""
UNITS = (
    *(" ", "\n", "\t", "-", "=", "#", "*", "_", "`", "'", '"', "(", "[", "[[", "![", "{", "<", "</", ">", "|", "a", "A", "1"),
    *(".", ":", "\\", "~", "a ", "a-", "a.", "1-", "- ", "a\n", "<a>", "é", "中", "key=", "a@", "[x](", "`a`", "**a", "a_", "Aa"),
    *("\n---\n", "\n```\n", "password ", "<command-name>", "<cwd>", "the user ", "\x1b[", "a/", "data:", "http://a", "1.", "a,"),
    *("a: ", "\n- ", "0x", "$", "@", "+", "%", "? ", "! ", ", ", "\u200b", "<!--", "\\n", ";", "}", "…", "1a"),
)  # fmt: skip


def _patterns(value: Any, name: str, depth: int = 0) -> Iterator[tuple[str, re.Pattern[str]]]:
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
        yield name, value
    elif depth < 4 and not isinstance(value, type):
        inside: Any = ()
        if isinstance(value, dict):
            for key, one in value.items():
                yield from _patterns(one, f'{name}["{key}"]' if isinstance(key, str) else name, depth + 1)
        elif isinstance(value, list | tuple | set | frozenset):
            inside = value
        elif hasattr(value, "__struct_fields__"):
            inside = [getattr(value, field, None) for field in value.__struct_fields__]
        for one in inside:
            yield from _patterns(one, name, depth + 1)


def _collected() -> dict[str, re.Pattern[str]]:
    """Return name and number -> pattern, for all patterns in modules that read texts of others."""
    found: dict[str, re.Pattern[str]] = {}
    known: set[tuple[str, int]] = set()
    for module in pkgutil.walk_packages([str(ROOT)], "ormahd."):
        if module.name.endswith("__main__") or module.name.startswith(OWN):
            continue
        for variable, value in vars(importlib.import_module(module.name)).items():
            for name, pattern in _patterns(value, f"{module.name}.{variable}"):
                if (pattern.pattern, pattern.flags) not in known:
                    known.add((pattern.pattern, pattern.flags))
                    found[f"{name} {len(found)}"] = pattern
    return found


PATTERNS = _collected()
USES = r"\b{}(?:\[[^\]]*\])?\.(match|fullmatch|search|finditer|findall|sub|subn|split)\b"
SOURCES = {
    file.relative_to(ROOT.parent).with_suffix("").as_posix().replace("/", "."): file.read_text("utf-8")
    for file in ROOT.rglob("*.py")
}


class _TooLong(Exception):
    pass


def _is_searched(name: str) -> bool:
    """Return whether a pattern is not only matched at a given place. A private one is used in its module only."""
    name, _, key = name.rpartition(" ")[0].partition("[")
    module, _, variable = name.rpartition(".")
    variable = f"{variable}[{key}" if key and f"{variable}[{key}" in SOURCES.get(module, "") else variable
    own = SOURCES.get(module) or SOURCES.get(f"{module}.__init__") or ""
    how = set(
        re.findall(USES.format(re.escape(variable)), own if variable.startswith("_") else "\n".join(SOURCES.values()))
    )
    return not how or not how <= PLACED


SEARCHED = {name for name in PATTERNS if not name.startswith(MATCHED) and _is_searched(name)}


def _work(name: str, pattern: re.Pattern[str], text: str, limit: float) -> float:
    """Return the CPU seconds that a pattern takes for a text; `limit`, if it takes longer."""

    def late(*_: object) -> None:
        raise _TooLong

    signal.signal(signal.SIGVTALRM, late)
    start = time.process_time()
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, limit)
        if name in SEARCHED:
            for _ in pattern.finditer(text):
                pass
        else:
            pattern.match(text)
            pattern.fullmatch(text)
    except _TooLong:
        return limit
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return time.process_time() - start


def _text(unit: str, size: int) -> str:
    return (unit * size)[:size] + "\x00é x."


def _slow(chosen: dict[str, re.Pattern[str]]) -> dict[str, tuple[str, int]]:
    """Return name -> (unit, size), for the patterns that take too long."""
    slow = {}
    for name, pattern in chosen.items():
        work = {unit: _work(name, pattern, _text(unit, SCREENED), 1.0) for unit in UNITS}
        for unit in sorted(work, key=lambda one: -work[one])[:2]:
            for size in SIZES:
                text = _text(unit, min(size, BOUNDED.get(name.split()[0], size)))
                if all(_work(name, pattern, text, 4 * CPU_S) > CPU_S for _ in range(6)):
                    slow[name] = (unit, size)
                    break
    return slow


@pytest.mark.parametrize("part", range(4))
def test_every_pattern_is_linear(part: int) -> None:
    assert len(PATTERNS) > 200
    assert _slow(dict(list(PATTERNS.items())[part::4])) == {}
