"""`ormahctl vault`: which of a person's notes Ormah looks after."""

from __future__ import annotations

import os
from pathlib import Path

import click
from msgspec.structs import replace

from ormahctl import render
from ormahctl.asking import asked
from ormahctl.commands.vault_release import release
from ormahctl.progress import Bar
from ormahctl.registry import Place, Verb
from ormahctl.session import Session, pass_session
from ormahd import paths
from ormahd.api import AdoptParams, AdoptResult, Progress

SHOWN = 20
LONG_SECONDS = 6 * 3600.0


class Group(click.Group):
    """The commands of `ormahctl vault`, with an example in the help as every command has one."""

    context_class = Place

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Example"):
            formatter.write("  ormahctl vault adopt --all --dry-run\n")
        super().format_epilog(ctx, formatter)


@click.group(cls=Group, short_help="Which of your notes Ormah looks after.")
def vault() -> None:
    """Which of your own notes Ormah looks after, and how."""


vault.add_command(release)


@vault.command(
    cls=Verb,
    short_help="Have Ormah look after notes of yours.",
    example="ormahctl vault adopt --all --dry-run\normahctl vault adopt Projects/Kestrel.md\n"
    "ormahctl vault adopt --folder Projects --space kestrel\normahctl vault adopt --pattern 'Meetings/2026-*'",
)
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option(
    "--folder", "folders", metavar="F", multiple=True, help="All notes of a folder, also those that come later."
)
@click.option(
    "--pattern", "patterns", metavar="GLOB", multiple=True, help="Notes whose path matches, such as 'Meetings/2026-*'."
)
@click.option("--all", "everything", is_flag=True, help="All notes of the vault, also those that come later.")
@click.option("--space", metavar="S", help="With --folder: the space of its notes, also of those that come later.")
@click.option(
    "--index", is_flag=True, help="With --folder or --all: only find the notes; nothing is written into them."
)
@click.option("--dry-run", is_flag=True, help="Only list what would be adopted, changed and left out.")
@click.option("--yes", is_flag=True, help="Write to more than three of your files without asking.")
@pass_session
def adopt(
    session: Session, paths: tuple[str, ...], folders: tuple[str, ...], patterns: tuple[str, ...], everything: bool,
    space: str | None, index: bool, dry_run: bool, yes: bool,
) -> None:  # fmt: skip
    """Give notes of yours an id, commit them, and let jobs keep them tidy. Paths are relative to the vault.

    Only a line with the id is added, or a block with id, type and date where there is no frontmatter. Templates,
    drawings, broken notes and notes with secrets are left out. `ormahctl undo` takes an adoption back, with what it says of later notes.
    """
    params = AdoptParams(
        paths=[_place(path) for path in paths], folders=[_place(path) for path in folders], patterns=list(patterns),
        everything=everything, space=space, index=index, dry_run=dry_run,
    )  # fmt: skip
    found = asked(session, lambda agreed: _call(session, replace(params, yes=agreed)), yes=yes)
    if found is None:
        return
    if session.json:
        render.emit(found)
    else:
        _say(found, dry_run=dry_run, index=index)


def _place(given: str) -> str:
    """A path as it is, or, where it names something from here and nothing else, from here."""
    path = paths.expand(Path(given))
    return os.path.realpath(path) if path.is_absolute() else given


def _call(session: Session, params: AdoptParams) -> AdoptResult:
    with Bar("adopting") as bar:

        def draw(at: Progress) -> None:
            bar.set(at.done, at.total, what=at.stage)

        return session.client.call("admin.adopt", params, AdoptResult, on_progress=draw, timeout=LONG_SECONDS)


def _say(found: AdoptResult, *, dry_run: bool, index: bool) -> None:
    verb = "found, and nothing is written into" if index else "adopted"
    count = render.count(len(found.adopt), "note")
    if found.adopt:
        render.out(f"{count} would be {verb}:" if dry_run else f"{count} {'are ' if index else ''}{verb}:")
    for one in found.adopt[:SHOWN]:
        render.out(f"  {render.line(one.path)}")
        if dry_run:
            for line in one.lines:
                render.out(f"    + {render.line(line)}")
    if len(found.adopt) > SHOWN:
        render.out(f"  … and {len(found.adopt) - SHOWN} more (--json lists all)")
    if not found.adopt and not found.waiting:
        render.out("nothing to adopt" if not found.already else "nothing to adopt: Ormah looks after all of it already")
    elif found.adopt and found.already:
        render.out(f"{render.count(found.already, 'note is', 'notes are')} looked after already")
    if found.left_out:
        render.out(f"left out: {render.count(len(found.left_out), 'file')}")
        for left in found.left_out[:SHOWN]:
            render.out(f"  {render.line(left.path)}: {render.line(left.why)}")
        if len(found.left_out) > SHOWN:
            render.out(f"  … and {len(found.left_out) - SHOWN} more (--json lists all)")
    if found.waiting:
        render.note(
            f"{render.count(len(found.waiting), 'file was', 'files were')} saved a moment ago, and follow when they rest"
        )
    if found.done and (found.run or found.op):
        render.note(f"to take it back: ormahctl undo {f'--run {found.run}' if found.run else found.op}")
