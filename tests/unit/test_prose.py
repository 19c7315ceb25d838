"""What of a text is language, and which texts say the same."""

from __future__ import annotations

import base64
import hashlib
import random
import time
from datetime import UTC, datetime

import pytest

from ormahd.index.embeddings import text_to_embed
from ormahd.model.node import NodeType
from ormahd.note.values import path_for
from ormahd.text.quoting import beginning, indexed_text, quoted, without_data
from ormahd.text.sameness import gist, grouped, says_the_same
from tests.tables import rows

SAYS = "The harbour pilot keeps a ledger of tides."
ENCODED = base64.b64encode(random.Random(2).randbytes(3000)).decode()
WRAPPED = "\n".join(ENCODED[at : at + 76] for at in range(0, len(ENCODED), 76))
LOG = [f"2026-11-0{day}T10:00:0{day}Z INFO worker request {day}" for day in range(1, 10)]
NO_LANGUAGE = {
    "an inline image": f"![](data:image/png;base64,{ENCODED})",
    "a data URL of text": f"data:image/svg+xml;utf8,%3Csvg{'%20a' * 200}%3E",
    "base64 in one line": ENCODED,
    "base64 in lines": WRAPPED,
    "a quoted attachment": "> " + WRAPPED.replace("\n", "\n> "),
    "minified code": "function a(b,c){return b.d(c)?e[f]:g(h,!0)};var i=1;" * 30,
    "JSON in one line": '{"a":1,"b":[1,2,3],"c":{"d":"e"}},' * 30,
    "a digest": hashlib.sha256(b"x").hexdigest(),
    "a digest in base64": base64.b64encode(hashlib.sha512(b"x").digest()).decode(),
    "a log": "\n".join(LOG),
    "the system's log": "\n".join(f"Nov 27 10:00:0{at} host sshd[1]: Accepted" for at in range(9)),
    "a web server's log": "\n".join(f'10.0.0.{at} - - [27/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200' for at in range(9)),
    "a long run": "a" * 5000,
}  # fmt: skip
LANGUAGE = {
    "an address": "see https://example.org/a/very/long/path/that/goes/on?with=query&more=1 for it",
    "an id in a sentence": "id 97acbe8e-6d0a-4c1e-9a55-0a52b0f4f9d1 is the one, commit 8392c61f8392c61f8392c61f8392c61f broke it",
    "a long word": "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
    "two lines of a log": f"It fails so:\n\n{LOG[0]}\n{LOG[1]}\n\nand then it stops",
    "a path": "/usr/local/lib/python3.11/site-packages/ormahd/embedding/model.py",
    "a name in code": "getUserAccountById2FromTheDatabaseOrCache(x) and a_snake_case_identifier_with_v2_in_it_that_is_long",
    "Japanese": "港の水先案内人は潮の帳面をつけている。" * 40,
    "Thai": "นักบินท่าเรือเก็บบัญชีกระแสน้ำ" * 40,
    "a long paragraph": "The cook writes down every salmon that she smokes. " * 100,
    "a table": "| boat | berth |\n|---|---|\n| Ada | 4 |\n" * 20,
    "code as people write it": "```python\ndef tides(day: int) -> list[float]:\n    return [height(day, hour) for hour in range(24)]\n```",
    "times of a day": "10:00 call with Bo\n11:30 the berth\n12:00 lunch",
}  # fmt: skip


@pytest.mark.parametrize("data", NO_LANGUAGE.values(), ids=NO_LANGUAGE)
def test_what_is_no_language_is_not_embedded_quoted_or_put_into_titles(data: str) -> None:
    for text in (f"{data}\n\n{SAYS}", f"{SAYS}\n\n{data}", f"{SAYS}\n\n{data}\n\n{SAYS}"):
        assert set(filter(None, without_data(text).split("\n"))) == {SAYS}
        assert SAYS in quoted(text, 300)
    text = f"{data}\n\n{SAYS}"
    assert text_to_embed(None, "", text).content == SAYS
    assert text_to_embed("Tides", "", data).content == ""
    assert text_to_embed("Tides", "", f"{data}\n\n{SAYS}").sha == text_to_embed("Tides", "", SAYS).sha
    assert quoted(data, 300) == ""
    made = path_for(
        id="1a2b3c4d",
        type=NodeType.FACT,
        space=None,
        title=None,
        content=text,
        created=datetime(2026, 11, 27, tzinfo=UTC),
    )
    assert "harbour-pilot" in made


@pytest.mark.parametrize("text", LANGUAGE.values(), ids=LANGUAGE)
def test_language_stays_to_the_letter(text: str) -> None:
    assert without_data(text) == text
    assert indexed_text(text) == text
    assert beginning(text, 10_000) == text


def test_a_search_finds_hashes_and_logs_and_no_inline_image() -> None:
    digest = hashlib.sha256(b"x").hexdigest()
    assert indexed_text(f"{digest}\n{LOG[0]}") == f"{digest}\n{LOG[0]}"
    assert indexed_text(f"![shot](data:image/png;base64,{ENCODED})\n{SAYS}") == f"![shot]( )\n{SAYS}"


def test_prose_behind_a_large_image_is_met_and_a_huge_text_costs_little() -> None:
    image = f"data:image/png;base64,{ENCODED * 100}"
    assert beginning(f"{image}\n{SAYS}", 300) == SAYS
    begun = time.thread_time()
    for text in (
        ENCODED * 250,
        "a b " * 250_000,
        "\n" * 1_000_000,
        "1" * 1_000_000,
        "data:" * 200_000,
        "x;=" * 300_000,
    ):
        without_data(text)
    assert time.thread_time() - begun < 10, "it is linear in the text"


SAME = rows(__file__, "same")
OTHER = [*rows(__file__, "other"), ("x" * 5000, "x" * 4999 + "y")]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_texts_that_say_the_same_have_one_place(one: str, other: str) -> None:
    assert says_the_same((None, one), (None, other))
    assert grouped((text, (None, text)) for text in [one, "something else", other]) == [
        (one, [other]),
        ("something else", []),
    ]


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_texts_that_differ_in_a_word_have_places_of_their_own(one: str, other: str) -> None:
    assert [first for first, _ in grouped((text, (None, text)) for text in [one, other])] == [one, other]


def test_of_many_texts_each_is_read_once() -> None:
    texts = [f"The harbour pilot keeps ledger {number} of tides." for number in range(40)]
    gist.cache_clear()
    assert [first for first, _ in grouped((text, (None, text)) for text in [*texts, *texts])] == texts
    assert gist.cache_info().misses == len(texts)
