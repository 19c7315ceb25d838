"""Whatever a memory says, it can be read: recall reads every memory that it compares."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from ormahd.model.node import NodeType
from ormahd.text.facts import AMOUNTS, MONTHS, WEEKDAYS
from ormahd.text.statement import read

WORDS = [
    *sorted({*AMOUNTS, *MONTHS, *WEEKDAYS}),
    "'s",
    "’s",
    "'",
    "-",
    "/",
    ".",
    "`",
    "31",
    "12:99",
    "24:00",
    "25h",
    "1,000",
    "½",
    "3½",
    "٣",
    "十",
    "月",
    "点",
    "半",
    "万",
    "下午",
    "2026-13-45",
    "Feb",
    "30",
    "v1",
    "%",
    "°",
    "€",
    "#",
    "a",
    "half",
    "twenty-",
]


@given(
    st.one_of(st.text(), st.lists(st.sampled_from(WORDS)).map("".join), st.lists(st.sampled_from(WORDS)).map(" ".join))
)
@example("It is good for one's peace of mind.")
@example("L'un des serveurs")
@example("the two's complement")
def test_every_text_can_be_read(text: str) -> None:
    read(text, text, NodeType.FACT)
