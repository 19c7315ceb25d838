"""`ormahctl how` and `fix`, and `recall --files`: what agents did in archived sessions."""

from __future__ import annotations

from typing import Final, Literal

import click

from ormahctl import render
from ormahctl.commands.sessions import SESSION_ID, print_exchange
from ormahctl.options import limit_option, text_or_stdin
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session, space
from ormahd.api import WorkParams, WorkResult

NOTHING: Final = 1
"""The exit status if nothing is found, as for grep."""
IN_SPACE = click.option("--space", metavar="NAME", help="In this project, not the one that you are in.")


def ask(session: Session, kind: Literal["how", "fix", "file"], query: str, named: str | None, limit: int) -> WorkResult:
    """Return the daemon's answer. With --json print it."""
    params = WorkParams(kind=kind, query=query, space=space(named), limit=limit)
    found = session.client.call("agent.work", params, WorkResult)
    if session.json:
        about = {"exchanges": found.exchanges, "memories": found.memories}
        render.emit({"how": found.commands, "fix": found.fixes, "file": about}[kind])
    return found


@click.command(
    cls=Verb,
    short_help="Commands that worked here before.",
    example="ormahctl how deploy staging\normahctl how run the tests --space shop -n 1",
)
@click.argument("words", nargs=-1, required=True)
@limit_option(100, default=5, what="commands")
@IN_SPACE
@pass_session
def how(session: Session, words: tuple[str, ...], limit: int, space: str | None) -> int:
    """List the commands that agents ran with success in this project and that fit WORDS: words of the command, of what you
    had asked for, or of the session's title. Exit status 1 if none fits.
    """
    query = " ".join(words)
    found = ask(session, "how", query, space, limit).commands
    for number, one in enumerate(() if session.json else found, 1):
        render.out(f"{number}. {render.paint(render.line(one.command), 'bold')}", hang=3)
        facts = [f"worked {'once' if one.worked == 1 else f'{one.worked:,} times'}"]
        facts += [f"failed {one.failed:,}"] if one.failed else []
        facts += [f"last {render.moment(one.last, day=True)}"]
        facts += [f"took {render.lasting(one.seconds)}"] if one.seconds else []
        _from(" · ".join(facts), one.session, one.turn, one.asked)
    return _end(session, bool(found), f"no command that worked here fits: {query}")


@click.command(
    cls=Verb,
    short_help="What fixed an error like this before.",
    example="ormahctl fix \"relation 'cart' does not exist\"\nmake test 2>&1 | ormahctl fix -",
)
@click.argument("error", nargs=-1, required=True)
@limit_option(100, default=3, what="fixes")
@IN_SPACE
@pass_session
def fix(session: Session, error: tuple[str, ...], limit: int, space: str | None) -> int:
    """Show errors like ERROR of this project, and what was run and edited until the command no longer gave it. `-` reads
    what the command printed. Exit status 1 if nothing is found.
    """
    text = text_or_stdin(" ".join(error), "the error")
    found = ask(session, "fix", text, space, limit).fixes
    for number, one in enumerate(() if session.json else found, 1):
        render.out(f"{number}. {render.paint(render.line(one.error), 'bold')}", hang=3)
        render.out(f"   in: {render.line(one.command)}", hang=4)
        what = "what fixed it" if one.worked else "what followed (the command then failed with another error)"
        render.out(f"   {what}:", hang=4)
        for command in one.commands:
            render.out(f"     ran {render.line(command)}", hang=4)
        for file in one.files:
            render.out(f"     edited {render.line(file)}", hang=4)
        _from(render.moment(one.time, day=True), one.session, one.turn, one.asked)
    return _end(session, bool(found), "no error like this was fixed here before")


def about_file(session: Session, path: str, limit: int) -> int:
    """Print the prompts under which a file was edited, and the memories that name it."""
    found = ask(session, "file", path, None, limit)
    for number, one in enumerate(() if session.json else found.exchanges, 1):
        print_exchange(number, one)
    for memory in () if session.json else found.memories:
        render.row(f"{memory.type}  {render.paint(memory.short_id, 'dim')}  ", render.line(memory.title))
    return _end(session, bool(found.exchanges or found.memories), f"nothing was said or decided about {path}")


def _from(facts: str, session: str, turn: int, asked: str) -> None:
    render.out(
        "   " + render.paint(f"{facts} · session {render.line(session)[:SESSION_ID]} turn {turn}", "dim"), hang=0
    )
    render.out("   " + render.paint(f"asked: {render.line(asked)}", "dim"), hang=0)


def _end(session: Session, found: bool, otherwise: str) -> int:
    if not found and not session.json:
        render.note(render.cut(render.line(otherwise), 120))
    return 0 if found else NOTHING
