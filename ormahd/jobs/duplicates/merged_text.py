"""The text of a merged memory: united by arithmetic where nobody writes it, and checked where a judge does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ormahd.jobs.duplicates.restated import MOST, Cosine, missing, said_twice, sentences
from ormahd.model.node import MAX_CONTENT, MAX_TITLE
from ormahd.note.markdown import conflict_line, normalise
from ormahd.text.diff import clip
from ormahd.text.secrets import redact

if TYPE_CHECKING:
    from ormahd.index.rows import NodeRow

LONGEST = 2.0
"""A judge's text may have so many times the characters of the longer of the two: what is longer was made up."""
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")


def united(keep: NodeRow, gone: NodeRow, cosine: Cosine | None = None) -> str:
    """The keeper's text, and behind it what only the other says, sentence by sentence: nothing that was said is lost, and what
    both say in other words stands there once, in the fuller form."""
    fenced = any(mark in row.content for row in (keep, gone) for mark in ("```", "~~~"))
    known, said = sentences(keep.content), sentences(gone.content)
    if fenced or len(known) + len(said) > MOST:
        cosine = None
    new, better = missing(known, said, cosine)
    text = keep.content
    for old, fuller in better.items():
        text = text.replace(old, fuller, 1)
    if not new:
        return text
    if fenced:
        return f"{keep.content}\n\n{gone.content}"  # sentences of code are none
    return f"{text}\n\n{' '.join(new)}"


def repeated(content: str, keep: NodeRow, gone: NodeRow, cosine: Cosine | None = None) -> str | None:
    """The sentence by which a united text says twice what each of the two says once; None: it does not."""
    twice = said_twice(content, cosine)
    if twice is None or any(said_twice(row.content, cosine) is not None for row in (keep, gone)):
        return None
    return twice


def unfit(
    title: str | None, content: str | None, keep: NodeRow, gone: NodeRow, cosine: Cosine | None = None
) -> str | None:
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
    if content is not None and (twice := repeated(content, keep, gone, cosine)) is not None:
        return f"it says the same twice: “{clip(twice)}”"
    said = set(_NUMBER.findall(text))
    lost = [
        one for row in (keep, gone) for one in _NUMBER.findall(f"{row.title or ''}\n{row.content}") if one not in said
    ]
    return None if not lost else f"it leaves out {', '.join(dict.fromkeys(lost))}"
