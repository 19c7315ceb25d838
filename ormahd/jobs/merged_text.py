"""The text of a merged memory: united by arithmetic where nobody writes it, and checked where a judge does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ormahd.core.markdown import conflict_line, normalise
from ormahd.core.node import MAX_CONTENT, MAX_TITLE
from ormahd.core.sameness import same
from ormahd.core.secrets import redact

if TYPE_CHECKING:
    from ormahd.index.rows import NodeRow

LONGEST = 2.0
"""A judge's text may have so many times the characters of the longer of the two: what is longer was made up."""
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
_SENTENCE = re.compile(r"(?<=[.!?\u2026])\s+(?=[^\W\d_a-z])|(?<=[\u3002\uff01\uff1f])|\n+")


def united(keep: NodeRow, gone: NodeRow) -> str:
    """The keeper's text, and behind it what only the other says, sentence by sentence: nothing that was said is lost."""
    known = _sentences(keep.content)
    new = [
        one for one in _sentences(gone.content) if not any(same(None, one, None, said) is not None for said in known)
    ]
    if not new:
        return keep.content
    if "```" in gone.content or "~~~" in gone.content:
        return f"{keep.content}\n\n{gone.content}"  # sentences of code are none
    return f"{keep.content}\n\n{' '.join(new)}"


def _sentences(text: str) -> list[str]:
    return [one.strip() for one in _SENTENCE.split(text) if one and one.strip()]


def unfit(title: str | None, content: str | None, keep: NodeRow, gone: NodeRow) -> str | None:
    """Why a judge's text cannot stand for these two, as the end of "its text was not taken: …"; None: it can."""
    if content is not None and not normalise(content):
        return "it is empty"
    text = f"{title or keep.title or ''}\n{keep.content if content is None else content}"
    longest = max(len(keep.content), len(gone.content))
    if content is not None and len(content) > min(MAX_CONTENT, max(LONGEST * longest, 200)):
        return f"it has {len(content):,} characters, where the longer of the two has {longest:,}"
    if title is not None and (len(title) > MAX_TITLE or "\n" in title):
        return "its title is none"
    if redact(text).found and not redact(f"{keep.title}\n{keep.content}\n{gone.title}\n{gone.content}").found:
        return "it holds what looks like a secret"
    if content is not None and conflict_line(normalise(content)):
        return "it holds conflict markers"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "it is no valid Unicode"
    if "\x00" in text:
        return "it holds a NUL character"
    said = set(_NUMBER.findall(text))
    lost = [
        one for row in (keep, gone) for one in _NUMBER.findall(f"{row.title or ''}\n{row.content}") if one not in said
    ]
    return None if not lost else f"it leaves out {', '.join(dict.fromkeys(lost))}"
