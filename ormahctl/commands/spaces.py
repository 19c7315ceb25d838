"""A word about spaces that were named and are not there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ormahctl import render
from ormahctl.options import near
from ormahctl.session import Session
from ormahd.rpc.schema import ListParams, ListResult

GLOBAL = "global"


def unknown_spaces(named: Iterable[str], there: Mapping[str, int]) -> None:
    """Say of each named space that has no memory so, and which one was probably meant."""
    for name in named:
        if name not in there and name.casefold() != GLOBAL:
            meant = near(name, [one for one in there if one != GLOBAL])
            asked = f"; did you mean {render.line(' or '.join(meant))}?" if meant else ""
            render.note(f"no memory is in a space '{name}'{asked}")


def new_space(session: Session, name: str) -> None:
    """Say it when a memory is the first of its space, and the name of another space is much like it."""
    known = there(session)
    meant = near(name, [one for one in known if one not in (name, GLOBAL)])
    if known.get(name, 0) == 1 and meant:
        render.note(
            f"it is the first memory of the space '{name}'; if you meant {render.line(meant[0])}: "
            f"ormahctl update ID --space {render.line(meant[0])}"
        )


def there(session: Session) -> Mapping[str, int]:
    """All spaces, with their number of memories."""
    return session.client.call("agent.list", ListParams(limit=1), ListResult).spaces
