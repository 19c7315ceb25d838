"""The usual families of embedding models: the text that they expect before queries and documents, and their pooling."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

SEARCH: Final = "Represent this sentence for searching relevant passages: "
ASKED: Final = "Instruct: Given a question, retrieve notes that answer it\nQuery: "


class Family(Struct, frozen=True):
    """Models that were trained in one way. `pattern` is searched in a model's name or folder, in small letters."""

    name: str
    pattern: str
    pooling: str
    """`mean` or `cls`. Used if the model's own files do not say it."""
    query: str = ""
    document: str = ""


FAMILIES: Final = (
    Family("e5-instruct", r"e5-.*instruct", "mean", ASKED),
    Family("multilingual-e5", r"multilingual-e5", "mean", "query: ", "passage: "),
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
    """Return the family of a model, by its name or else by that of its folder; None for a model of another kind."""
    return next((one for name in names for one in FAMILIES if re.search(one.pattern, name.lower())), None)
