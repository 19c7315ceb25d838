"""`ormahctl spaces`: list the spaces. Also warns when a command names a space that does not exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import click

from ormahctl import render
from ormahctl.options import near
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahd.api import AssignSpaceParams, AssignSpaceResult, ListParams, ListResult, NoParams, SpacesResult

GLOBAL = "global"


@click.command(
    cls=Verb, short_help="List the spaces and their projects.", example="ormahctl spaces\normahctl spaces --here shop"
)
@click.option("--here", "name", metavar="NAME", help="Assign the current project to this space.")
@pass_session
def spaces(session: Session, name: str | None) -> None:
    """List the spaces with their memories and projects, and name the space of the current project.

    A project is identified by the address of its remote, otherwise by its first commit, otherwise by its folder. `--here`
    assigns the current project to another space. Stored memories stay in theirs: `ormahctl update ID --space NAME`.
    """
    if name is not None:
        given = session.client.call("agent.assign_space", AssignSpaceParams(space=name), AssignSpaceResult)
        if session.json:
            render.emit(given)
        else:
            render.out(f"the project here ({render.line(given.key)}) belongs to the space {render.line(given.space)}")
        return
    found = session.client.call("agent.spaces", NoParams(), SpacesResult)
    render.warn_of_unread_vault(found.degraded)
    if session.json:
        render.emit(found)
        return
    rows = [[space.space or GLOBAL, f"{space.memories:,}", ", ".join(space.projects) or "-"] for space in found.spaces]
    if rows:
        render.table(["space", "memories", "project"], rows, right=[1])
        render.out()
    if found.here is None or found.project is None:
        render.out("here is no project: what is remembered here is global")
    else:
        render.out(f"here: {render.line(found.here)} ({render.line(found.project)})")


def warn_of_unknown_spaces(named: Iterable[str], counts: Mapping[str, int]) -> None:
    """Print a note for each space of `named` that has no memories, with the names that were probably meant.
    `counts`: `{space: number of its memories}`."""
    for name in named:
        if name not in counts and name.casefold() != GLOBAL:
            meant = near(name, [known for known in counts if known != GLOBAL])
            asked = f"; did you mean {render.line(' or '.join(meant))}?" if meant else ""
            render.note(f"no memory is in a space '{name}'{asked}")


def warn_of_similar_space(session: Session, name: str) -> None:
    """Print a note if the memory just stored is the first one of the space `name`, and another space has a similar
    name."""
    counts = space_counts(session)
    similar = near(name, [space for space in counts if space not in (name, GLOBAL)])
    if counts.get(name, 0) == 1 and similar:
        render.note(
            f"it is the first memory of the space '{name}'; if you similar {render.line(similar[0])}: "
            f"ormahctl update ID --space {render.line(similar[0])}"
        )


def space_counts(session: Session) -> Mapping[str, int]:
    """Return {space: number of its memories} of all spaces."""
    return session.client.call("agent.list", ListParams(limit=1), ListResult).spaces
