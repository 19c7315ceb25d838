"""The rule that says whether two memories cannot both hold (core/claims, core/disagree). Figures: tests/quality/conflicts.py."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ormahd.core.claims import Sort, read
from ormahd.core.disagree import disagree
from tests.quality.conflicts import pairs

CONFLICTS = [
    ("The API listens on port 8080", "The API listens on port 9090", "number", ("8080", "9090")),
    ("Logs are kept for 30 days.", "Logs are kept for 2 weeks.", "number", ("30 days", "2 weeks")),
    ("Logs are kept for a week", "Logs are kept for a month", "number", ("1 week", "1 month")),
    ("The rate is $1,150 an hour", "The rate is $1,300 an hour", "number", ("$1,150", "$1,300")),
    ("Support answers between 9 and 17", "Support answers between 8 and 18", "number", ("9 and 17", "8 and 18")),
    ("The release is due on 15 March", "The release is due on 2 April", "date", ("15 March", "2 April")),
    ("The release is due on 2026-03-15", "The release is due on 2026-04-02", "date", ("2026-03-15", "2026-04-02")),
    ("Deploys happen on Fridays", "Deploys happen on Tuesdays", "date", ("Fridays", "Tuesdays")),
    ("The daily standup is at 10:00", "The daily standup is at 10:30", "time", ("10:00", "10:30")),
    ("The user lives in Dublin, Ireland", "Lives in Berlin since March", "value", ("Dublin", "Berlin")),
    ("The team lead is Sara Holm", "The team lead is Jonas Ek", "value", ("Sara Holm", "Jonas Ek")),
    ("Celery is our job queue", "Procrastinate is our job queue", "value", ("Celery", "Procrastinate")),
    ("We use npm as the package manager", "We use pnpm as the package manager", "value", ("npm", "pnpm")),
    ("The accent colour is green", "The accent colour is orange", "value", ("green", "orange")),
    ("Prefers dark mode", "Prefers light mode", "opposite", ("dark", "light")),
    ("The repository is public", "The repository is private", "opposite", ("public", "private")),
    ("Squash commits before merging", "Never squash commits before merging", "negation", ("", "")),
    ("He drinks coffee at noon", "He doesn't drink coffee at noon", "negation", ("", "")),
    ("Prefers TypeScript over JavaScript", "Prefers JavaScript over TypeScript", "order", None),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "what", "ends"), CONFLICTS)
def test_what_cannot_both_hold(one: str, other: str, what: str, ends: tuple[str, str] | None) -> None:
    found = disagree(read(None, one), read(None, other))
    assert found is not None
    assert found.what == what
    assert ends is None or found.ends == ends
    back = disagree(read(None, other), read(None, one))
    assert back is not None
    assert (back.what, back.ends) == (found.what, found.ends[::-1])


BOTH = [
    ("another subject", "The staging API listens on port 8080", "The production API listens on port 9090"),
    ("another label", "Camera 3 is 2 mm off", "Camera 4 is 2 mm off"),
    ("the same in other words", "Requests time out after 30 s", "Requests time out after 30 seconds"),
    ("the same in other words", "The break is half an hour", "The break is 30 minutes"),
    ("the same name", "We run PostgreSQL 16 in production", "We run Postgres 16 in production"),
    ("more precise", "The user lives in Gothenburg", "The user lives in Majorna, Gothenburg"),
    ("a town and its country", "The user lives in Dublin", "The user lives in Ireland"),
    ("both at once", "Mira speaks Swedish", "Mira speaks German"),
    ("both at once", "The project uses Redis", "The project uses Postgres"),
    ("a list", "Deploys happen on Monday, Tuesday and Friday", "Deploys happen on Tuesday"),
    ("knows of the other", "The timeout is 60 seconds, it had been 30 seconds", "The timeout is 30 seconds"),
    ("it happened twice", "The server crashed on 3 March", "The server crashed on 7 April"),
    ("what was", "Until 2024 the site is hosted on Netlify", "The site is hosted on Cloudflare"),
    ("another condition", "In winter the office opens at 9:00", "In summer the office opens at 8:00"),
    ("another unit", "The machine has 16 GB of memory", "The machine has 16 cores of memory"),
    ("per what", "Pro costs 29 SEK a month", "Pro costs 249 SEK a year"),
    ("several platforms", "The app runs on Windows", "The app runs on Linux"),
    ("an addition", "Deploys happen on Tuesdays", "Deploys happen on Tuesdays after ten"),
    ("a question", "Is the standup at 10:00?", "The standup is at 10:30"),
    ("not only", "The service is used in Sweden", "The service is not only used in Sweden"),
    ("an attribute of the subject", "The left screen is a Dell", "The right screen is a Dell"),
    ("a label of any thing", "Olga and the deployment 864", "Olga and the deployment 7420"),
    ("a version in a name", "Support for Postgres 14 ends in May", "Support for Postgres 16 ends in May"),
]  # fmt: skip


@pytest.mark.parametrize(("why", "one", "other"), BOTH)
def test_what_can_both_hold(why: str, one: str, other: str) -> None:
    assert disagree(read(None, one), read(None, other)) is None, why


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("Camera 3", "It is mounted 2 mm too low."), ("Camera 4", "It is mounted 5 mm too low.")),
        (("Kitchen", "The wall paint is white."), ("Bathroom", "The wall paint is blue.")),
        (("Staging", "The API listens on port 8080."), ("Production", "The API listens on port 9090.")),
    ],
)
def test_titles_tell_two_matters_apart(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert disagree(read(*one), read(*other)) is None
    assert disagree(read(None, one[1]), read(None, other[1])) is not None, "without them it is a disagreement"


def test_measurements_scatter() -> None:
    one, other = read(None, "A build takes 40 seconds"), read(None, "A build takes 44 seconds")
    assert disagree(one, other, measured=True) is None
    assert disagree(one, other) is not None
    assert disagree(one, read(None, "A build takes 95 seconds"), measured=True) is not None


def test_the_users_name_is_the_user() -> None:
    me = frozenset({"ada", "person"})
    found = disagree(read(None, "Ada lives in Dublin", me), read(None, "The user lives in Berlin", me))
    assert found is not None
    assert disagree(read(None, "Ben lives in Dublin", me), read(None, "The user lives in Berlin", me)) is None


@pytest.mark.parametrize(
    ("text", "sorts"),
    [
        ("The API listens on port 8080", ["name", "word", "word", "number"]),
        ("Phase 2 ends on 3 May", ["label", "word", "date"]),
        ("Backups at 03:00 to R2", ["word", "time", "join", "name"]),
        ("Costs 2.5 million EUR", ["word", "number"]),
    ],
)
def test_tokens(text: str, sorts: list[str]) -> None:
    (claim,) = read(None, text).claims
    assert [token.sort for token in claim.tokens] == [Sort(one) for one in sorts]


@pytest.mark.parametrize("half", ["dev", "held", "second"])
def test_nobody_disagrees_with_himself(half: str) -> None:
    for pair in pairs(half):
        for text in (pair.one, pair.other):
            assert disagree(read(*text), read(*text)) is None


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_text_can_be_read(one: str, other: str) -> None:
    found = disagree(read(one[:50], one), read(other[:50], other))
    back = disagree(read(other[:50], other), read(one[:50], one))
    assert (found is None) == (back is None)
    assert disagree(read(None, one), read(None, one)) is None


def test_a_long_text_is_read_in_part() -> None:
    text = "The API listens on port 8080. " * 50_000
    assert len(read(None, text).claims) <= 24


ODD = [
    "one",
    "one's",
    "'one'",
    "3",
    "3rd",
    "1,000",
    "1.5",
    "5%",
    "$5",
    "%",
    "10:30",
    "25:61",
    "1.2.3",
    "2026-11-22",
    "May",
    "5",
    "not",
    "n't",
    "half",
    "dozen",
    "k",
    "m",
    "million",
    "GB",
    "hours",
    "minute's",
    "US",
    "'tis",
    "²",
    "٣",
    "１２",
    "½",
    "Ⅳ",
    "January",
    "32",
    "-5",
    "1e999",
    "port",
    "8080",
    "v2",
]
SENTENCES = st.lists(st.one_of(st.sampled_from(ODD), st.text(max_size=6)), max_size=12).map(" ".join)


@given(SENTENCES, SENTENCES)
@example("one one", "one 3rd %")
@example("the one's 5", "'one' is not one")
def test_whatever_people_write_is_read(one: str, other: str) -> None:
    a, b = read(one[:20], one), read(None, other)
    for left, right in ((a, b), (b, a), (a, a)):
        disagree(left, right)
        disagree(left, right, measured=True)
