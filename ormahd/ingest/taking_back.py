"""Takes back what was learned of a session: the person says so in the next prompt, or says later that a memory is no
longer true."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from ormahd.actions.amend import Caller
from ormahd.actions.outdated import forget
from ormahd.actions.projects import home_of
from ormahd.actions.tombstones import turn_of
from ormahd.api import ForgetParams
from ormahd.ingest.checks import NEIGHBOURS, REPEATED, covers
from ormahd.ingest.readers.turns import SessionTurn
from ormahd.ingest.rules import LONGEST, own_words, takes_back
from ormahd.ingest.rules.language import around
from ormahd.ormah import Ormah
from ormahd.state import proposals

if TYPE_CHECKING:
    from ormahd.ingest.learn import UnreadTurns


class Withdrawal(Struct, frozen=True):
    """A prompt that takes something back. `turn`: its key; `of`: the key of the person's turn before, if that is what
    it takes back; "" if it says that a memory is no longer true. `text`: words that name this memory."""

    turn: str
    of: str
    text: str


def withdrawals(turns: Iterable[SessionTurn]) -> Iterator[Withdrawal]:
    """Yield what the person's turns take back. "That is not true any more" names a memory itself, or means the answer
    of the agent before it."""
    person, answer = "", ""
    for turn in turns:
        if turn.role != "user":
            answer = turn.text[-LONGEST:]
            continue
        text = own_words(turn.text)
        if person and takes_back(text):
            yield Withdrawal(turn.key, person, "")
        elif len(text) <= LONGEST and around("ended").search(text):
            yield Withdrawal(turn.key, "", around("ended").sub(" ", f"{answer}\n{text}"))
        person = turn.key


def take_back(ormah: Ormah, some: UnreadTurns, caller: Caller) -> None:
    """Forget the learned memories that unread turns of a session take back, one commit each, and drop the proposals of
    such memories. Raises VaultBusy: another process holds git."""
    home = home_of(ormah, some.tail.cwd)
    spaces = (None, None if home is None else home.space)
    fresh = some.fresh
    for one in withdrawals(some.shown):
        if one.turn not in fresh:
            continue
        learned = ormah.index.extracted()
        if one.of:
            meant = [node_id for node_id, said_in in learned.items() if turn_of(said_in) == one.of]
            waiting = proposals.rows(ormah.state, (proposals.PENDING,))
            proposals.drop(
                ormah.state, [row.id for row in waiting if turn_of(str(row.payload.get("said_in"))) == one.of]
            )
        else:
            near = [node_id for node_id, _ in ormah.index.search_text(one.text, NEIGHBOURS) if node_id in learned]
            rows = ormah.index.notes(near).values()
            meant = [row.id for row in rows if row.space in spaces and covers(one.text, row.content, REPEATED)]
        for node_id in meant:
            forget(ormah, ForgetParams(node_id=node_id), caller)
