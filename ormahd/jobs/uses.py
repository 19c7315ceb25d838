"""Uses that wait in the journal to be folded into the vault, and what the vault knows of them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from ormahd.core.line_time import read_time
from ormahd.core.strength import FILE, Access, last_uses
from ormahd.errors import VaultBusy
from ormahd.vault.change import Kind

if TYPE_CHECKING:
    from ormahd.ormah import Ormah

CONFIRMED = ("get", "feedback")
"""Uses that strengthen: opened, or judged useful. What a search found or a whisper showed may have been looked past."""


class Waiting(Struct, frozen=True):
    """Events of memories that there are; `last`: the number of the last event, of whatever memory. 0: there are none."""

    last: int
    events: list[Access]

    def of(self) -> dict[str, tuple[int, datetime]]:
        """Node id to how often and when last."""
        found: dict[str, tuple[int, datetime]] = {}
        for event in self.events:
            times, latest = found.get(event.node, (0, event.at))
            found[event.node] = times + event.times, max(latest, event.at)
        return found


def waiting(ormah: Ormah) -> Waiting:
    """What is to be folded in. Those that a search found only count, and so are one event a memory."""
    last = 0
    found: dict[str, tuple[int, datetime]] = {}
    events: list[Access] = []
    for last, node_id, time, how in ormah.state.accesses():  # noqa: B007 - the last one is what is wanted
        at = read_time(time)
        if at is not None and how in CONFIRMED:
            events.append(Access(node_id, at))
        elif at is not None:
            times, latest = found.get(node_id, (0, at))
            found[node_id] = times + 1, max(latest, at)
    events += [Access(node_id, at, review=False, times=times) for node_id, (times, at) in found.items()]
    alive = ormah.index.candidates([event.node for event in events])
    return Waiting(last, [event for event in events if event.node in alive])


def settle(ormah: Ormah) -> None:
    """A run that was killed had made its commit, or had not: the history says whether its events are in the vault.

    Raises VaultBusy while git is held by somebody else: what is queued is not in the history yet.
    """
    if why := ormah.vault.busy():
        raise VaultBusy(f"uses were not folded in: {why}", hint="nothing is lost; it is done at the next run")
    runs = ormah.state.half_folded()
    if runs:
        held = {entry.run for entry in ormah.vault.oplog.view().entries if entry.kind == Kind.STRENGTH}
        for run in runs:
            ormah.state.folded(run, held=run in held)


def confirmed(ormah: Ormah) -> dict[str, datetime]:
    """Node id to its last confirmed use: as folded into the vault, and what waits to be."""
    uses = last_uses(ormah.vault.read(FILE) or b"")
    for _, node_id, time, how in ormah.state.accesses():
        used = read_time(time)
        if how in CONFIRMED and used is not None:
            used = used.replace(microsecond=0)  # as the vault will have it
            uses[node_id] = max(used, uses.get(node_id, used))
    return uses
