"""`ormahctl vault release`: Ormah out of files, folders, or the whole vault."""

from __future__ import annotations

import os
import sys

import click

from ormahctl import render
from ormahctl.progress import Bar
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahd.api import Progress, ReleaseParams, ReleaseResult

LONG_SECONDS = 6 * 3600.0
SHOWN = 10
"""Of a long list of files so many are named; all of them: --json."""
DECLINED = 1


@click.command(
    cls=Verb,
    short_help="Take Ormah's lines out of your files.",
    example="ormahctl vault release --all --dry-run\normahctl vault release Diary\normahctl vault release --all --remove-data",
)
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every file that you made, and adopt nothing here any more.")
@click.option(
    "--remove-data", is_flag=True, help="With --all: remove .ormah and the settings in git, and stop the daemon."
)
@click.option("--dry-run", is_flag=True, help="Say what would be released, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_session
def release(
    session: Session, paths: tuple[str, ...], everything: bool, remove_data: bool, dry_run: bool, yes: bool
) -> int:
    """Take out of the files at or below each PATH (or of all) what Ormah wrote into them, and leave them to you.

    Ids, types, links and whatever else Ormah added goes; your own edits stay. Git knows the files as it did before Ormah came:
    what it did not track is untracked again, what you had not committed is not committed. They are not adopted again. It is
    an op like any other: `ormahctl undo` takes it back, unless the data went too.
    """
    context = click.get_current_context()
    if everything == bool(paths):
        raise click.UsageError("name files or folders, or give --all", context)
    params = ReleaseParams(paths=[_inside(path) for path in paths], everything=everything, remove_data=remove_data)
    if not yes:
        params.dry_run = True
        would = _call(session, params)
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
    done = _call(session, params)
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
    """A path that is there is meant from here; another one from the vault's root."""
    return os.path.abspath(path) if os.path.exists(path) else path


def _call(session: Session, params: ReleaseParams) -> ReleaseResult:
    with Bar("releasing") as bar:

        def draw(at: Progress) -> None:
            bar.set(at.done, at.total, what=at.stage)

        return session.client.call("admin.release", params, ReleaseResult, on_progress=draw, timeout=LONG_SECONDS)


def _show(done: ReleaseResult) -> None:
    verb = "would release" if done.dry_run else "released"
    render.out(f"{verb} {render.paint(render.count(len(done.released), 'file'), 'bold')}")
    for path in done.released[:SHOWN]:
        render.out(f"  {render.line(path)}")
    if len(done.released) > SHOWN:
        render.out(f"  and {len(done.released) - SHOWN:,} more")
    for what in done.removed:
        render.out(f"removed  {render.line(what)}")
    sys.stdout.flush()
    for what in done.kept:
        render.note(what, label="kept")
    for what in done.stays:
        render.note(what, label="stays")
    if done.run and not done.stopped:
        render.note(f"to take it back: ormahctl undo --run {done.run}", label="hint", colour="cyan")
