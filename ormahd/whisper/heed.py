"""Whether an agent's reply shows that it used a memory that was whispered to it: judged by words, so only a hint.

A memory counts as used if the reply has its code or a name of it (a path, an identifier), or a good part of its words,
and the prompt did not have them. Pure functions.
"""

from __future__ import annotations

import re
from typing import Final

from ormahd.text.facts import exact_tokens
from ormahd.text.words import fold, stems
from ormahd.whisper.hear import topical_words

WORDS: Final = 2
SHARE: Final = 0.25
"""Minimum number and share of a memory's words, besides those of the prompt, that the reply has."""
LARGE_SHARE: Final = 1 / 3
"""Share of a memory's words at which one word is enough."""
_CODE: Final = re.compile(r"`([^`\n]{4,200})`")
READ: Final = 20_000
"""Maximum number of characters of a reply that are read."""


def is_used(memory: str, prompt: str, reply: str) -> bool:
    """Return whether `reply` uses `memory`, given the `prompt` that it answers."""
    reply = reply[:READ]
    if (_names(memory) - _names(prompt)) & _names(reply):
        return True
    answered, asked = fold(reply), fold(prompt)
    if any(code in answered and code not in asked for code in map(fold, _CODE.findall(memory))):
        return True
    own = stems(topical_words(memory, None)) - stems(topical_words(prompt, None))
    shared = own & stems(topical_words(reply, None))
    return bool(shared) and len(shared) >= (SHARE if len(shared) >= WORDS else LARGE_SHARE) * len(own)


def _names(text: str) -> set[str]:
    return {fold(token.text) for token in exact_tokens(text) if not token.plain}
