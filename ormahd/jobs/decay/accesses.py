"""Uses that wait in the journal to be folded into the vault, and what the vault knows of them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from ormahd.errors import VaultBusy
from ormahd.model import strength
from ormahd.model.change import Kind
from ormahd.model.node import read_time
from ormahd.model.strength import STRENGTH_FILE, Access, ActiveDays, How, LastUses, last_uses

if TYPE_CHECKING:
    from ormahd.ormah import Ormah

_HOW: dict[str, How] = {"get": "use", "feedback": "use", "recall": "recall", "whisper": "whisper"}
"""What the journal's events are to strength. Opened, or judged useful: a confirmed use. What a recall found first and what a whisper
showed in full may have been looked past: a weak one."""


class Waiting(Struct, frozen=True):
    """Events of memories that there are; `last`: the number of the last event, of whatever memory. 0: there are none."""

    last: int
    events: list[Access]

    def of(self) -> dict[str, tuple[int, datetime]]:
        """Node id to how often and when last. Not what was whispered: that makes nothing more important."""
        found: dict[str, tuple[int, datetime]] = {}
        for event in self.events:
            if event.how == "whisper":
                continue
            times, latest = found.get(event.node, (0, event.at))
            found[event.node] = times + event.times, max(latest, event.at)
        return found


def waiting(ormah: Ormah) -> Waiting:
    """What is to be folded in. Weak uses only say when and how often, and so are one event a memory and kind."""
    last = 0
    found: dict[tuple[str, How], tuple[int, datetime]] = {}
    events: list[Access] = []
    for last, node_id, time, said in ormah.state.accesses():  # noqa: B007 - the last one is what is wanted
        at, how = read_time(time), _HOW.get(said)
        if at is None or how is None:
            continue
        if how == "use":
            events.append(Access(node_id, at))
        else:
            times, latest = found.get((node_id, how), (0, at))
            found[node_id, how] = times + 1, max(latest, at)
    events += [Access(node_id, at, how, times) for (node_id, how), (times, at) in found.items()]
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


def used(ormah: Ormah) -> dict[str, LastUses]:
    """Node id to its last uses: as folded into the vault, and what waits to be."""
    found = last_uses(ormah.vault.read(STRENGTH_FILE) or b"")
    for _, node_id, time, said in ormah.state.accesses():
        at, how = read_time(time), _HOW.get(said)
        if at is not None and how is not None:
            found.setdefault(node_id, LastUses()).take(how, at.replace(microsecond=0))  # as the vault will have it
    return found


def days(ormah: Ormah) -> ActiveDays:
    """Time as memories count it: the days on which something was asked, as the vault and this machine know them."""
    known = strength.read_active_days(ormah.vault.read(strength.ACTIVE_DAYS_FILE) or b"") | ormah.state.active_days()
    return ActiveDays.of(known, ormah.settings.decay.idle_share)
