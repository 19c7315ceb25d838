"""`ormahctl how` and `fix`, and `recall --files`: what agents did in archived sessions."""

from __future__ import annotations

from typing import Final, Literal

import click

from ormahctl import render
from ormahctl.commands.sessions import SESSION_ID, print_exchange
from ormahctl.options import limit_option, text_or_stdin
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session, space
from ormahd.api import KnownFix, WorkedCommand, WorkParams, WorkResult

NOTHING: Final = 1
"""The exit status if nothing is found, as for grep."""
IN_SPACE = click.option("--space", metavar="NAME", help="In this project, not the one that you are in.")


def ask(
    session: Session, kind: Literal["how", "fix", "file"], query: str, named: str | None, limit: int, *, nothing: str
) -> WorkResult:
    """Return the daemon's answer about archived sessions, to be printed for a person. With `--json` it is printed
    here.

    `kind`: what `query` is: words of a command that worked (`how`), an error (`fix`), or a path (`file`). `named`:
    the space; None: that of the current project. `nothing`: the note if nothing is found.

    Raises:
        Exit: the answer was printed as JSON, or nothing is found.
    """
    params = WorkParams(kind=kind, query=query, space=space(named), limit=limit)
    found = session.client.call("agent.work", params, WorkResult)
    status = 0 if found.commands or found.fixes or found.exchanges or found.memories else NOTHING
    if session.json:
        about = {"exchanges": found.exchanges, "memories": found.memories}
        render.emit({"how": found.commands, "fix": found.fixes, "file": about}[kind])
        raise click.exceptions.Exit(status)
    if status == NOTHING:
        render.note(render.cut(render.line(nothing), 120))
        raise click.exceptions.Exit(status)
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
def how(session: Session, words: tuple[str, ...], limit: int, space: str | None) -> None:
    """List the commands that agents ran with success in this project and that fit WORDS: words of the command, of what you
    had asked for, or of the session's title. Exit status 1 if none fits.
    """
    query = " ".join(words)
    nothing = f"no command that worked here fits: {query}"
    found = ask(session, "how", query, space, limit, nothing=nothing)
    for number, answer in enumerate(found.commands, 1):
        render.out(f"{number}. {render.paint(render.line(answer.command), 'bold')}", hang=3)
        facts = [f"worked {'once' if answer.worked == 1 else f'{answer.worked:,} times'}"]
        facts += [f"failed {answer.failed:,}"] if answer.failed else []
        facts += [f"last {render.moment(answer.last, day=True)}"]
        facts += [f"took {render.lasting(answer.seconds)}"] if answer.seconds else []
        _print_source(" · ".join(facts), answer)


@click.command(
    cls=Verb,
    short_help="What fixed an error like this before.",
    example="ormahctl fix \"relation 'cart' does not exist\"\nmake test 2>&1 | ormahctl fix -",
)
@click.argument("error", nargs=-1, required=True)
@limit_option(100, default=3, what="fixes")
@IN_SPACE
@pass_session
def fix(session: Session, error: tuple[str, ...], limit: int, space: str | None) -> None:
    """Show errors like ERROR of this project, and what was run and edited until the command no longer gave it. `-` reads
    what the command printed. Exit status 1 if nothing is found.
    """
    text = text_or_stdin(" ".join(error), "the error")
    found = ask(session, "fix", text, space, limit, nothing="no error like this was fixed here before")
    for number, answer in enumerate(found.fixes, 1):
        render.out(f"{number}. {render.paint(render.line(answer.error), 'bold')}", hang=3)
        render.out(f"   in: {render.line(answer.command)}", hang=4)
        what = "what fixed it" if answer.worked else "what followed (the command then failed with another error)"
        render.out(f"   {what}:", hang=4)
        for command in answer.commands:
            render.out(f"     ran {render.line(command)}", hang=4)
        for file in answer.files:
            render.out(f"     edited {render.line(file)}", hang=4)
        _print_source(render.moment(answer.time, day=True), answer)


def print_about_file(session: Session, path: str, limit: int) -> None:
    """Print the prompts under which a file was edited, and the memories that name it."""
    found = ask(session, "file", path, None, limit, nothing=f"nothing was said or decided about {path}")
    for number, exchange in enumerate(found.exchanges, 1):
        print_exchange(number, exchange)
    for memory in found.memories:
        render.row(f"{memory.type}  {render.paint(memory.short_id, 'dim')}  ", render.line(memory.title))


def _print_source(facts: str, answer: WorkedCommand | KnownFix) -> None:
    """Print `facts` with the session and turn of an answer, and below it the prompt of that turn."""
    place = f"session {render.line(answer.session)[:SESSION_ID]} turn {answer.turn}"
    render.out("   " + render.paint(f"{facts} · {place}", "dim"), hang=0)
    render.out("   " + render.paint(f"asked: {render.line(answer.asked)}", "dim"), hang=0)
