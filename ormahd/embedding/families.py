"""Common families of embedding models, each with its pooling and the prefixes that it expects in queries and
documents."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

SEARCH: Final = "Represent this sentence for searching relevant passages: "
ASKED: Final = "Instruct: Given a question, retrieve notes that answer it\nQuery: "


class Family(Struct, frozen=True):
    """A family of models that were trained in the same way, with the pooling and prefixes that they need.

    `pattern`: a regular expression for the models' names in small letters; `query`, `document`: prefixes, if any.
    """

    name: str
    pattern: str
    pooling: str
    """`mean` or `cls`; used if a model's own files do not name its pooling."""
    query: str = ""
    document: str = ""


FAMILIES: Final = (
    Family("e5-instruct", r"e5-.*instruct", "mean", ASKED),
    Family("multilingual-e5", r"multilingual-e5|^multilingual$", "mean", "query: ", "passage: "),
    Family("e5", r"(?:^|[/-])e5-", "mean", "query: ", "passage: "),
    Family("bge-m3", r"bge-m3", "cls"),
    Family("bge-zh", r"bge-.*-zh", "cls", "为这个句子生成表示以用于检索相关文章："),
    Family("bge", r"bge-", "cls", SEARCH),
    Family("arctic-2", r"arctic-embed-.*v2", "cls", "query: "),
    Family("arctic", r"arctic-embed", "cls", SEARCH),
    Family("gte-2", r"gte-(?:multilingual|.*-v1\.5)", "cls"),
    Family("gte", r"(?:^|[/-])gte-", "mean"),
    Family("paraphrase-multilingual", r"paraphrase-multilingual", "mean"),
    Family("MiniLM", r"minilm", "mean"),
)


def family_of(*names: str) -> Family | None:
    """Return the family of a model, found by the first of `names` (its name, its folder) that matches; None if none
    does."""
    return next((one for name in names for one in FAMILIES if re.search(one.pattern, name.lower())), None)
