"""The word lists of `statement_words.toml`, from which `text.statement` learns what a memory says."""

from __future__ import annotations

import re
import tomllib
from importlib import resources

_FILE = tomllib.loads(resources.files(__package__).joinpath("statement_words.toml").read_text("utf-8"))
_WORDS = {name: frozenset(listed.split()) for name, listed in _FILE["words"].items()}
_PATTERNS = {name: re.compile(pattern) for name, pattern in _FILE["patterns"].items()}

EMPTY = _WORDS["empty"]
"""Function words and auxiliary verbs, which are never what a statement is about."""
NEGATIONS = _WORDS["negations"]
"""Words that negate a statement, among them verbs of hate and avoidance. `no` is English and Spanish."""
NO_LONGER = _PATTERNS["no_longer"]
CHANGED = _WORDS["changed"]
"""Verb forms that say that something changed."""
CHANGED_STEMS = _WORDS["changed_stems"]
"""Stems of English verbs whose forms in -ed and -ing say that something changed. Other forms do not, such as
"starts"."""
CHANGED_RUNS = _PATTERNS["changed_runs"]
PARTICLES = _PATTERNS["particles"]
NOW = _WORDS["now"]
NOW_PHRASES = _PATTERNS["now_phrases"]
INSTEAD = _PATTERNS["instead"]
"""Matches words after which a statement names what was so before, such as "instead of"."""
FORMER = _PATTERNS["former"]
ADDED = {name: re.compile(pattern) for name, pattern in _FILE["added"].items()}
"""Language -> pattern of words which say that an earlier statement still holds ("also", "another"). There is one for
each language, because German `also` means "thus"."""
LANGUAGES = {name: frozenset(listed.split()) for name, listed in _FILE["languages"].items()}
CONDITIONS = _WORDS["conditions"]
PLACES = _WORDS["places"]
"""Words that distinguish variants of a thing, by place, time, people or part."""
LABELLED = _WORDS["labelled"]
"""Words for things that are named by a number, such as camera 3."""
OWNING = _PATTERNS["owning"]
"""Matches words for roles that one person has at a time, such as owner or boss."""
LIVING = _PATTERNS["living"]
"""Matches words that say where a thing or person is ("lives", "is stored"). It is at one place at a time."""
PREFERRING = _PATTERNS["preferring"]
PAST = _PATTERNS["past"]
ADDRESSING = _PATTERNS["addressing"]
"""Matches words of people who talk to each other: addresses, thanks and exclamations."""
OPPOSITES = tuple(frozenset(pair.split("~")) for pair in _FILE["words"]["opposites"].split())
SELF = _WORDS["self"]
SELF_RUNS = _PATTERNS["self_runs"]
BOUNDS = _WORDS["bounds"]
"""Words before a value which say that it is the beginning, the end or a limit of a range."""
VERBS = _WORDS["verbs"]
"""Verbs that end the subject of a sentence."""
DOMAINS = {name: frozenset(listed.split()) for name, listed in _FILE["domains"].items()}
"""General topic -> words that show it."""
MOVING = _PATTERNS["moving"]
"""Matches phrases for moving house. They show the topic `home`."""
