"""`ormahctl spaces`: which spaces there are, and whose; and a word about spaces that were named and are not there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import click

from ormahctl import render
from ormahctl.options import near
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahd.api import (
    AssignSpaceParams,
    AssignSpaceResult,
    ListedSpace,
    ListParams,
    ListResult,
    NoParams,
    SpacesResult,
)

GLOBAL = "global"


@click.command(
    cls=Verb, short_help="Which spaces there are, and whose.", example="ormahctl spaces\normahctl spaces --here shop"
)
@click.option("--here", "name", metavar="NAME", help="From now on the project here belongs to this space.")
@pass_session
def spaces(session: Session, name: str | None) -> None:
    """List the spaces with their memories and projects, and say which one is that of the project here.

    A project is known by the address of its remote, without one by its first commit or its folder. Two projects of one name have two
    spaces, the second one with a suffix. `--here` gives the project here another space, or one together with another project;
    memories stay in the space that they have (`ormahctl update ID --space NAME` moves one).
    """
    if name is not None:
        given = session.client.call("agent.assign_space", AssignSpaceParams(space=name), AssignSpaceResult)
        if session.json:
            render.emit(given)
        else:
            render.out(f"the project here ({render.line(given.key)}) belongs to the space {render.line(given.space)}")
        return
    found = session.client.call("agent.spaces", NoParams(), SpacesResult)
    if session.json:
        render.emit(found)
        return
    rows = [[render.line(one.space or GLOBAL), f"{one.memories:,}", render.line(_whose(one))] for one in found.spaces]
    if rows:
        render.table(["space", "memories", "project"], rows, right=[1])
        render.out()
    if found.here is None or found.project is None:
        render.out("here is no project: what is remembered here is global")
    else:
        render.out(f"here: {render.line(found.here)} ({render.line(found.project)})")


def _whose(one: ListedSpace) -> str:
    return ", ".join(one.projects) or "-"


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
