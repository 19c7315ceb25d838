"""Whatever a memory says, it can be read: recall reads every memory that it compares."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from ormahd.model.node import NodeType
from ormahd.text.statement import read_statement
from tests.tables import rows

WORDS = rows(__file__, "words")


@given(
    st.one_of(st.text(), st.lists(st.sampled_from(WORDS)).map("".join), st.lists(st.sampled_from(WORDS)).map(" ".join))
)
@example("It is good for one's peace of mind.")
@example("L'un des serveurs")
@example("the two's complement")
def test_every_text_can_be_read(text: str) -> None:
    read_statement(text, text, NodeType.FACT)
