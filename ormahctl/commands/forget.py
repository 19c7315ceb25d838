"""`ormahctl forget`: remove a memory's note, or with `--purge` the memory from the history too."""

from __future__ import annotations

import sys

import click

from ormahctl import render
from ormahctl.commands.write import peek, print_written
from ormahctl.options import text_or_stdin
from ormahctl.registry import Verb
from ormahctl.session import Session, interactive, pass_session
from ormahd.api import ForgetParams, PurgeParams, PurgeResult, WriteResult
from ormahd.rpc.wire import NotFound

MAX_LISTED = 5
"""Number of files named of a long list; `--json` has all."""
DECLINED = 1


@click.command(
    cls=Verb,
    short_help="Remove a memory; git keeps it, unless --purge.",
    example="ormahctl forget 97acbe8e\normahctl forget --purge 97acbe8e --dry-run\normahctl forget --purge --text -",
)
@click.argument("node_id", metavar="[ID]", required=False)
@click.option(
    "--purge", is_flag=True, help="Remove it from the history too: rewrites every commit since. Cannot be undone."
)
@click.option(
    "--text",
    "texts",
    metavar="SECRET",
    multiple=True,
    help="With --purge: an exact text, wherever it occurs; - asks for it, or reads stdin.",
)
@click.option("--dry-run", is_flag=True, help="With --purge: say what would be rewritten, and change nothing.")
@click.option("--yes", is_flag=True, help="With --purge: do not ask.")
@pass_session
def forget(session: Session, node_id: str | None, purge: bool, texts: tuple[str, ...], dry_run: bool, yes: bool) -> int:
    """Remove the note of the memory ID. It does not ask, because `ormahctl undo` restores it.

    With --purge the memory is removed from the whole history, the index and the state, with all links to it. Other
    clones and backups are not reached: the command names the remotes, and the commands to type.
    """
    if purge:
        hidden = sys.stdin is not None and sys.stdin.isatty()  # a prompt keeps a secret out of the shell's history
        secrets = [
            click.prompt("text to purge (not shown)", hide_input=True, err=True)
            if text == "-" and hidden
            else text_or_stdin(text, "a text to purge").rstrip("\r\n")
            for text in texts
        ]
        return _purge(session, node_id, secrets, dry_run, yes)
    only = {"--text": bool(texts), "--dry-run": dry_run, "--yes": yes}
    for name, given in only.items():
        if given:
            raise click.UsageError(f"{name} goes with --purge")
    if node_id is None:
        raise click.UsageError("missing argument 'ID'")
    before = peek(session, node_id) if session.json else None
    done = session.client.call("agent.forget", ForgetParams(node_id=node_id), WriteResult)
    print_written(session, done, "forgotten", before=before)
    if not session.json and done.commit:
        render.note(f"git keeps it; to bring it back: ormahctl undo {done.commit[:8]}", label="hint")
    return 0


def _purge(session: Session, node_id: str | None, texts: list[str], dry_run: bool, yes: bool) -> int:
    """Purge a memory, or exact texts, from the whole history, after a preview and a question. Return the exit
    status: `DECLINED` if the person answers no.

    With `dry_run` only the preview is printed. With `yes` nothing is asked or previewed.

    Raises:
        UsageError: neither memory nor text is named, or there is no terminal to ask on.
    """
    if node_id is None and not texts:
        raise click.UsageError("name a memory (ID) or a text (--text)")
    asks = not (yes or dry_run)
    if asks and not interactive():
        raise click.UsageError(
            "a purge cannot be undone, and there is no terminal to ask on: give --yes (or --dry-run)"
        )

    # preview
    params = PurgeParams(node_id=node_id, texts=texts, dry_run=True)
    if asks or dry_run:
        plan = session.follow("purging", "admin.purge", params, PurgeResult, counts=True)
        if not session.json:
            _print_plan(session, plan)
        elif dry_run:
            render.emit(plan)
        if dry_run:
            return 0
        session.reconnect()
    if asks and not click.confirm("This cannot be undone. Purge it?", err=True):
        render.note("nothing was changed")
        return DECLINED

    # purge
    params.dry_run = False
    done = session.follow("purging", "admin.purge", params, PurgeResult, counts=True)
    if session.json:
        render.emit(done)
    else:
        _print_outcome(done)
    return 0


def _print_plan(session: Session, plan: PurgeResult) -> None:
    """Print what a purge would remove, with a line for each place: the memory, its note, other files, stores beside
    the history. `plan`: the result of the dry run."""
    if plan.node_id is not None:
        try:
            node = peek(session, plan.node_id)
            title = render.cut(render.line(node.title or node.content), 60)
        except NotFound:
            title = "(forgotten already)"
        render.out(f"memory    {plan.node_id[:8]}  {title}")
        render.out(f"its note  {render.count(plan.versions, 'version')}  {_first_paths(plan.paths)}".rstrip())
    if plan.others:
        render.out(
            f"others    {render.count(len(plan.others), 'file')} had it in some version  {_first_paths(plan.others)}"
        )
    render.out(f"beside    {_removed_counts(plan)}")
    sys.stdout.flush()
    _print_beyond(plan)


def _first_paths(paths: list[str]) -> str:
    """Return the first `MAX_LISTED` paths, separated by commas, and the number of the others."""
    more = f" and {len(paths) - MAX_LISTED:,} more" if len(paths) > MAX_LISTED else ""
    return ", ".join(paths[:MAX_LISTED]) + more


def _removed_counts(done: PurgeResult) -> str:
    """Return what a purge removed (or would remove) beside the history, as `sessions 3, log 2`; `nothing` if that is
    empty."""
    return ", ".join(f"{name} {count:,}" for name, count in done.kept.items()) or "nothing"


def _print_outcome(done: PurgeResult) -> None:
    """Print what a purge rewrote and removed, and the size of the repository before and after."""
    what = render.paint(done.node_id[:8], "bold") if done.node_id else "the text"
    render.out(f"purged {what}: {done.commits:,} of {render.count(done.commits_total, 'commit')} written anew")
    if done.kept:
        render.out(f"  beside the history: {_removed_counts(done)}")
    if done.commit:
        render.out(
            f"  commit {done.commit[:8]}, {render.size(done.size_before)} before, {render.size(done.size_after or 0)} now"
        )
    sys.stdout.flush()
    _print_beyond(done)


def _print_beyond(done: PurgeResult) -> None:
    """Print on stderr what a purge does not reach: files that it left alone, remotes with the commands to push to
    them, other clones and backups."""
    for remainder in done.left[:MAX_LISTED]:
        render.note(f"{remainder.path} {remainder.why}", label="left")
    if len(done.left) > MAX_LISTED:
        render.note(f"and {render.count(len(done.left) - MAX_LISTED, 'more file')}; all of them: --json", label="left")
    for remote in done.remotes:
        verb = "has" if not done.dry_run else "would still have"
        render.note(f"{remote.name} ({remote.url}) {verb} the old history; in the vault, type:", label="remote")
        for command in remote.push:
            sys.stderr.write(f"  {render.line(command)}\n")
    if not done.dry_run:
        clones = "other clones hold it still, and a pull from one brings it back: replace them by new clones"
        render.note(f"{clones}. Backups and snapshots of the disk hold it too", label="copies")
