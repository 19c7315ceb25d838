"""Finds in what a failed command printed the line that states the error, and compares such lines. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from ormahd.text.words import words

LONGEST: Final = 20_000
"""Maximum number of characters, from each end of an output, in which the error is looked for."""
_NAME: Final = re.compile(r"'[^'\s]{1,100}'|\"[^\"\s]{1,100}\"|`[^`]{1,100}`|‘[^’]{1,100}’")
_LETTERS: Final = re.compile(r"^(?!0x).*[^\W\d_].")
_STRONG: Final = re.compile(
    r"(?:E\s+|>\s+|\[\w+\] |\d+\) |\*\* \(|level=)?(?:"
    r"[\w.$\\]*(?:Error|Exception|Failure)(?:\[\w+\])?\)?(?=:|$| in | at )"
    r"|(?:\S+: )*(?:PHP )?(?:fatal(?: error)?|error|failure|erro|panic)(?:\[\w+\])?:"
    r"|\S+[:(]\d+[\d:,)]*:? (?:fatal )?error\b"
    r"|(?:FAILED|FAIL|ERR!|npm ERR!|npm error|make.*: \*\*\*|✘|thread '.*' panicked at)(?=\W|$))",
    re.IGNORECASE,
)
"""Matches lines that begin as those by which compilers, tests and tools state an error; `_WEAK` finds words of one."""
_WEAK: Final = re.compile(
    r"(?:error|exception|\b(?:fatal|failed|failure|panicked|denied|refused|unauthorized|forbidden|timed out|overflow(?:ed)?|aborted|killed|crashed|"
    r"segmentation fault|not found|no such|missing|cannot|can't|could not|couldn't|unable to|does ?n[o']t exist|does not exist|"
    r"unknown|unrecogni[sz]ed|invalid|unexpected|unsupported|already in use|is not (?:\w+ )?(?:installed|running|defined|supported|allowed|checked)))\b",
    re.IGNORECASE,
)
_COUNTED: Final = re.compile(r"(?<![\w.])[1-9]\d* (?:tests? )?(?:failed|failures?|errors?)\b", re.IGNORECASE)
_CODE: Final = re.compile(r"\s*(?:raise|return|throw|print|assert|if|except|catch|File \"|at |#|//|\d+\s*\|)\s?")


def error_of(text: str) -> str:
    """Return the first line of a failed command's output that states an error; "" if no line does."""
    text = text if len(text) <= 2 * LONGEST else f"{text[:LONGEST]}\n{text[-LONGEST:]}"
    lines = [line.strip() for line in text.partition("<hook_context>")[0].splitlines() if len(line) < 1_000]
    lines = [line for line in lines if line and not _CODE.match(line)]
    found = next(filter(_STRONG.match, lines), None) or next(filter(_WEAK.search, lines), "")
    return re.sub(r"^(?:E|>)\s+", "", found)


def error_despite(text: str) -> str:
    """Return the line that states an error in the output of a command that ended with 0, as with a pipe into `tail`. ""
    if no line surely does."""
    lines = [line.strip() for line in text[-LONGEST:].splitlines() if len(line) < 1_000]
    found = (line for line in lines if not _CODE.match(line) and (_STRONG.match(line) or _COUNTED.search(line)))
    return next(found, "")


@lru_cache(maxsize=4096)
def terms_of(error: str) -> tuple[str, ...]:
    """Return the words of an error that do not change from one occurrence to the next: no numbers, no names in
    quotes."""
    return tuple(dict.fromkeys(word for word in words(_NAME.sub(" ", error)) if _LETTERS.search(word)))


def names_of(error: str) -> set[str]:
    """Return the names in quotes, in lower case."""
    return {found.strip("'\"`‘’").casefold() for found in _NAME.findall(error)} - {""}
