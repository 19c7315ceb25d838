"""Reads a language's file in `words/` and compiles its lists to patterns.

A list is a string of words separated by spaces, in which `_` stands for a space, or an array of regular expressions.
All are matched as whole words, whatever their case. `<name>` in an entry stands for the list of that name.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from msgspec import Struct

from ormahd.model.node import NodeType

LANGUAGES: Final = ("en", "de", "es", "fr")
_END: Final = r"(?:(?<=[' ])|(?![\w'-]))"
"""The end of a word, also before the word that French joins to it: `qu'`."""
_NAME: Final = re.compile(r"<(\w+)>")
_FORMS: Final = {
    "leads": rf"(?:<lead>{_END}[\s,.!:;…–—-]*)+",
    "tails": r"(?:[\s,;–—-]+<tail>)+$",
    "back": r"[,;–—-]\s<task>$",
    "behind": r"(?:^|[\s,;:.)–—-]+)<after>$",
    "lastly": r"[\s,]+<lasting>$",
    "condition": rf"(?:[,;:.!?]|\s[–—-])\s(?:<join>\s)?<verb>(?:-\w+)?{_END}[^.!?]{{0,200}}?\s<standing>{_END}",
    "aside": rf"(?:,|\s[–—-])\s(?!(?:<choice>|<manner>){_END}|<verb>(?:-\w+)?{_END}[^.!?]{{0,200}}?\s<standing>{_END})<work>{_END}",
    "cut": rf"(?:,|\s[–—-])\s(?!<verb>(?:-\w+)?{_END}[^.!?]{{0,200}}?\s<standing>{_END})<work>{_END}",
    "further": rf"(?:[,;]|\s[–—-])\s(?:<join>\s)?(?!(?:<choice>|<manner>){_END})<verb>{_END}",
    "halt": rf"(?:<interrupt>[\s,.!…–—-]+)+(?![^.!]*\?)(?:[^\s.!?;]+\s){{0,5}}?<narrow>{_END}",
    "joins": rf"[,;]?\s<join>\s(?=(?:<keep>|<lasting>|<always>|<decided>|<say>){_END})",
    "clauses": rf"[,;]?\s<join>\s(?:<that>\s|(?=<the>\s(?:[\w-]+\s){{1,4}}?<being>{_END}))",
    "bare": rf"<the>\s?(?:<new>\s)?<subject>\s<being>{_END}",
}
"""Name -> pattern that is made of the lists of a language. `back`: a task at the end that points back, such as "fix it";
`behind`: a phrase such as "remember that" at the end of a sentence; `condition`: an order that holds from now on behind
a statement, such as "ask her before you change it"; `cut`: where a statement goes over to the work at hand; `aside`: the
same for a preference, which may go on with how the agent is to work; `further`: an order behind it; `halt`: the
beginning of a prompt that narrows the one before; `joins`, `clauses`: the word between two statements, of which each has
a phrase of its own, or which both follow one "remember that"; `bare`: a subject that only the conversation explains,
such as "the port is"."""


class RuleLanguage(Struct, frozen=True):
    """The words of one language. `file`: its file, for entries that are no lists. `lists`: name -> pattern of a list,
    or of a form in `_FORMS`. `own`: (pattern of a phrase with which a person says something about themselves, the words
    for it in a memory, type of that memory)."""

    file: Mapping[str, Any]
    lists: Mapping[str, re.Pattern[str]]
    own: tuple[tuple[re.Pattern[str], str, NodeType], ...]
    rejected: tuple[re.Pattern[str], ...]
    """Match a sentence, or two, that says what was tried and given up (`thing`), and why (`because`)."""


@cache
def load(language: str) -> RuleLanguage:
    """Return the compiled content of `words/<language>.toml`. The file is read at the first call only."""
    file = tomllib.loads(resources.files(__package__).joinpath("words", f"{language}.toml").read_text("utf-8"))
    own = [(_listed([row["say"]]), row["tells"], NodeType(row["type"])) for row in file["own"]]
    lists = {name: _listed(row) for name, row in file["lists"].items()} | {"say": _listed([say for say, *_ in own])}
    lists = {name: _NAME.sub(lambda found: lists[found[1]], row) for name, row in lists.items()}
    patterns = {name: _compiled(_as_words(row)) for name, row in lists.items()}
    patterns |= {name: _compiled(_NAME.sub(lambda found: lists[found[1]], row)) for name, row in _FORMS.items()}
    own_patterns = tuple((_compiled(_as_words(say)), tells, kind) for say, tells, kind in own)
    parts = {name: file[name] for name in ("thing", "failing")}
    rows = (re.sub(r"\{(thing|failing)\}", lambda found: parts[found[1]], row) for row in file["rejected"])
    rejected = tuple(map(_compiled, rows))
    return RuleLanguage(file, patterns, own_patterns, rejected)


@cache
def around(name: str) -> re.Pattern[str]:
    """Return a pattern that matches the list `name` of every language. These lists have what is said around a
    statement."""
    return _compiled("|".join(load(language).lists[name].pattern for language in LANGUAGES))


def _listed(row: str | list[str]) -> str:
    """Return a group with the alternatives of a list. If the list is a string of words, the longer ones come first."""
    if isinstance(row, str):
        row = sorted((word.replace("_", " ") for word in row.split()), key=len, reverse=True)
    return f"(?:{'|'.join(row)})"


def _as_words(alternatives: str) -> str:
    """Return a regular expression that matches these alternatives as whole words."""
    return rf"(?<![\w'-]){alternatives}{_END}"


def _compiled(source: str) -> re.Pattern[str]:
    """Return the pattern of a regular expression, which ignores case."""
    return re.compile(source, re.IGNORECASE)
