"""`ormahctl vault` and `vault release`: choose which of a person's notes Ormah adopts, and release them again."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import click
from msgspec.structs import replace

from ormahctl import render
from ormahctl.registry import CommandContext, Verb
from ormahctl.render import Bar
from ormahctl.session import Session, asked, pass_session
from ormahd import paths
from ormahd.api import AdoptParams, AdoptResult, KeptChoice, Progress, ReleaseParams, ReleaseResult

LONG_SECONDS = 6 * 3600.0
RELEASED_SHOWN = 10
"""Number of files named of a long list; `--json` has all."""
DECLINED = 1


@click.command(
    cls=Verb,
    short_help="Remove Ormah's lines from your files.",
    needs={"--remove-data": ["--all"]},
    example="ormahctl vault release --all --dry-run\normahctl vault release Diary\normahctl vault release --all --remove-data",
)
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option(
    "--all", "everything", is_flag=True, help="Release every file that you made, and adopt nothing from now on."
)
@click.option(
    "--remove-data", is_flag=True, help="With --all: remove .ormah and the settings in git, and stop the daemon."
)
@click.option("--dry-run", is_flag=True, help="Say what would be released, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_session
def release(
    session: Session, paths: tuple[str, ...], everything: bool, remove_data: bool, dry_run: bool, yes: bool
) -> int:
    """Remove from the files at or below each PATH (or from all files) what Ormah wrote into them, and adopt them no
    more.

    Ids, types, links and everything else that Ormah added is removed; your own edits stay. In git the files are as
    before Ormah: untracked files are untracked again, and uncommitted changes are uncommitted. A release is an op like
    any other: `ormahctl undo` undoes it, unless the data was removed too.
    """
    context = click.get_current_context()
    if everything and paths:
        raise click.UsageError("a PATH and --all exclude each other", context)
    if not everything and not paths:
        raise click.UsageError("name files or folders, or give --all", context)
    params = ReleaseParams(paths=[_inside(path) for path in paths], everything=everything, remove_data=remove_data)
    if not yes:
        params.dry_run = True
        would = _release(session, params)
        if dry_run and session.json:
            render.emit(would)
            return 0
        if not session.json:
            _show(would)
        if dry_run:
            return 0
        if session.json or not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
            count = render.count(len(would.released), "file")
            raise click.UsageError(
                f"this would release {count} ({', '.join(would.released[:3])}), and there is no terminal to ask on: "
                "give --yes (or --dry-run)",
                context,
            )
        if not click.confirm("Release them?", err=True):
            render.note("nothing was changed")
            return DECLINED
        session.reconnect()
    params.dry_run = dry_run
    done = _release(session, params)
    if done.stopped:
        from ormahctl.supervise import stop

        session.reconnect()
        stop(session.socket_path)
    if session.json:
        render.emit(done)
    else:
        _show(done)
    return 0


def _inside(path: str) -> str:
    """Return the path relative to the vault: from the current directory if it exists there, otherwise from the vault's
    root."""
    return os.path.abspath(path) if os.path.exists(path) else path


def _release(session: Session, params: ReleaseParams) -> ReleaseResult:
    with Bar("releasing") as bar:

        def draw(at: Progress) -> None:
            bar.set(at.done, at.total, what=at.stage)

        return session.client.call("admin.release", params, ReleaseResult, on_progress=draw, timeout=LONG_SECONDS)


def _show(done: ReleaseResult) -> None:
    verb = "would release" if done.dry_run else "released"
    render.out(f"{verb} {render.paint(render.count(len(done.released), 'file'), 'bold')}")
    for path in done.released[:RELEASED_SHOWN]:
        render.out(f"  {render.line(path)}")
    if len(done.released) > RELEASED_SHOWN:
        render.out(f"  and {len(done.released) - RELEASED_SHOWN:,} more")
    for what in done.removed:
        render.out(f"removed  {render.line(what)}")
    sys.stdout.flush()
    for what in done.kept:
        render.note(what, label="kept")
    for what in done.stays:
        render.note(what, label="stays")
    if done.run and not done.stopped:
        render.note(f"to take it back: ormahctl undo --run {done.run}", label="hint", colour="cyan")


SHOWN = 20
_CHOSEN = {"all": "is adopted", "index": "is only indexed", "ours": "is left to you", "none": "is left to you"}
"""What becomes of the notes of a folder with each choice."""


class VaultGroup(click.Group):
    """The group of commands `ormahctl vault`, with an example in its help."""

    context_class = CommandContext

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Example"):
            formatter.write("  ormahctl vault adopt --all --dry-run\n")
        super().format_epilog(ctx, formatter)


@click.group(cls=VaultGroup, short_help="Choose which of your notes Ormah adopts.")
def vault() -> None:
    """Choose which of your own notes Ormah adopts, and how."""


vault.add_command(release)


@vault.command(
    cls=Verb,
    short_help="Adopt notes of yours.",
    needs={"--space": ["--folder"], "--index": ["--folder", "--all"]},
    example="ormahctl vault adopt --all --dry-run\normahctl vault adopt Projects/Kestrel.md\n"
    "ormahctl vault adopt --folder Projects --space kestrel\normahctl vault adopt --pattern 'Meetings/2026-*'",
)
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--folder", "folders", metavar="F", multiple=True, help="Adopt all notes of a folder, also future ones.")
@click.option(
    "--pattern",
    "patterns",
    metavar="GLOB",
    multiple=True,
    help="Adopt notes whose path matches, such as 'Meetings/2026-*'.",
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Adopt all notes of the vault, also future ones; a folder for which you chose otherwise keeps that.",
)
@click.option("--space", metavar="S", help="With --folder: the space of its notes, also of future ones.")
@click.option("--index", is_flag=True, help="With --folder or --all: only index the notes, without writing into them.")
@click.option("--dry-run", is_flag=True, help="Only list what would be adopted, changed and left out.")
@click.option("--yes", is_flag=True, help="Do not ask before more than three of your files are written to.")
@pass_session
def adopt(
    session: Session, paths: tuple[str, ...], folders: tuple[str, ...], patterns: tuple[str, ...], everything: bool,
    space: str | None, index: bool, dry_run: bool, yes: bool,
) -> None:  # fmt: skip
    """Give your notes an id, commit them, and let jobs maintain them. Paths are relative to the vault.

    Only a line with the id is added, or, if there is no frontmatter, a block with id, type and date. Templates,
    drawings, broken notes and notes with secrets are left out; with --folder or --all, a broken note is committed as
    it is. `ormahctl undo` undoes an adoption, also for future notes.
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
        _say(found, params)


def _name_it(kept: KeptChoice, *, index: bool) -> str:
    """Return the command that changes the folder's choice to what was asked for."""
    return f"ormahctl vault adopt --folder {shlex.quote(kept.path)}{' --index' if index else ''}"


def _place(given: str) -> str:
    """Return a path as given, or if it exists only relative to the current directory, that path."""
    path = paths.expand(Path(given))
    return os.path.realpath(path) if path.is_absolute() else given


def _call(session: Session, params: AdoptParams) -> AdoptResult:
    with Bar("adopting") as bar:

        def draw(at: Progress) -> None:
            bar.set(at.done, at.total, what=at.stage)

        return session.client.call("admin.adopt", params, AdoptResult, on_progress=draw, timeout=LONG_SECONDS)


def _say_what_follows(found: AdoptResult, params: AdoptParams) -> None:
    """Say what becomes of notes that are added to the folders later."""
    where = ", ".join(f"{render.line(folder)}/" if folder else "the vault" for folder in found.folders)
    verb = "only indexed" if params.index else "adopted"
    said = f"would be {verb} from then on" if params.dry_run else f"are {verb} from now on"
    space = f", in the space {render.line(params.space)}" if params.space is not None else ""
    render.out(f"new notes in {where} {said}{space}")


def _say(found: AdoptResult, params: AdoptParams) -> None:
    dry_run, index = params.dry_run, params.index
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
    if index and found.already:
        single, several = "note is a memory already, and stays one", "notes are memories already, and stay memories"
        render.out(f"{render.count(found.already, single, several)} that Ormah looks after")
    elif not found.adopt and not found.waiting:
        render.out("nothing to adopt" if not found.already else "nothing to adopt: Ormah looks after all of it already")
    elif found.adopt and found.already:
        render.out(f"{render.count(found.already, 'note is', 'notes are')} looked after already")
    if found.folders and not found.adopt:
        _say_what_follows(found, params)
    for change in found.spaces:
        verb = "would change" if dry_run else "changed"
        spaces = " to ".join(render.line(space or "global") for space in (change.before, change.after))
        render.out(f"the space of {render.count(change.notes, 'note')} {verb} from {spaces}")
    if found.left_out:
        render.out(f"left out: {render.count(len(found.left_out), 'file')}")
        for left in found.left_out[:SHOWN]:
            render.out(f"  {render.line(left.path)}: {render.line(left.why)}")
        if len(found.left_out) > SHOWN:
            render.out(f"  … and {len(found.left_out) - SHOWN} more (--json lists all)")
    for kept in found.kept:
        said = _CHOSEN.get(kept.adopt, f"is set to {kept.adopt}")
        render.note(
            f"{render.line(kept.path)}/ {said}, as was chosen for it earlier: {_name_it(kept, index=index)}",
            label="kept",
        )
    if found.waiting:
        render.note(
            f"{render.count(len(found.waiting), 'file was', 'files were')} saved a moment ago, and follow when they rest"
        )
    if found.done and (found.run or found.op):
        back = f"--run {found.run}" if found.run else found.op
        render.note(f"to take it back: ormahctl undo {back}", label="hint", colour="cyan")
