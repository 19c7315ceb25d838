"""`ormahctl sync`: the same vault on several machines, through a git remote."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec

from ormahctl import render
from ormahctl.registry import Verb
from ormahctl.session import Session, interactive, pass_session
from ormahd import api, paths

TEXT_COLUMNS = 100
"""Width of a version in the list of conflicts, in columns."""
SIDES = {"base": "before"}
DECLINED = 1
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*::?//|[^/]*:")
"""Matches addresses that are no paths: `https://…`, and `host:path` as in ssh."""


@click.command(
    cls=Verb,
    short_help="Synchronise the vault with other machines.",
    example="ormahctl sync setup git@example.org:me/memory.git\normahctl sync\n"
    "ormahctl sync --take-back 1a2b3c4d\normahctl sync --resolve global/fact/2026-11/fact_tea_1a2b3c4d.md",
)
@click.argument("words", metavar="[setup URL]", nargs=-1)
@click.option("--replace", is_flag=True, help="With setup: replace another configured remote.")
@click.option("--yes", is_flag=True, help="With setup: do not ask before joining the remote's vault.")
@click.option("--resolve", metavar="OP|PATH|ID", help="Mark a conflict as resolved.")
@click.option(
    "--take-back", metavar="OP|PATH|ID", help="Restore this machine's text where a sync on another machine replaced it."
)
@pass_session
def sync(
    session: Session, words: tuple[str, ...], replace: bool, yes: bool, resolve: str | None, take_back: str | None
) -> int:
    """Fetch what other machines pushed, merge it note by note, and push what is new here.

    If two machines changed the same text, the note keeps this machine's text. `ormahctl review` lists all versions: edit
    the note, then `--resolve` the conflict. The other machine's next sync names its texts that were replaced.

    `setup URL` sets the vault's remote: an empty repository, or one with a vault of yours, which this vault then joins.
    """
    setup = words[:1] == ("setup",)
    chosen = sum((bool(words), resolve is not None, take_back is not None))
    if (words and not (setup and len(words) == 2)) or chosen > 1 or ((replace or yes) and not setup):
        raise click.UsageError("give nothing, or: setup URL, or --resolve or --take-back")
    if setup:
        url = words[1]
        if url and not url.startswith("-") and not _ADDRESS.match(url):
            url = os.path.abspath(paths.expand(Path(url)))  # the daemon runs in another folder
        return _set_up_remote(session, url, replace=replace, yes=yes)
    if resolve is not None:
        params = api.ResolveConflictParams(name=resolve.strip())
        resolved = session.client.call("admin.sync_resolve", params, api.ResolveConflictResult)
        _print_settled(session, resolved, "settled")
    elif take_back is not None:
        params = api.ResolveConflictParams(name=take_back.strip())
        restored = session.client.call("admin.sync_take_back", params, api.TakeBackResult)
        _print_settled(session, restored, "taken back", restored.commits)
    else:
        done = session.follow("syncing", "admin.sync", api.NoParams(), api.SyncResult)
        if session.json:
            render.emit(done)
        else:
            _print_sync(done)
    return 0


def _print_sync(done: api.SyncResult) -> None:
    """Print how many commits a sync fetched and pushed, the conflicts that it found, and the texts that another
    machine replaced."""
    place = f"{render.line(done.remote)}/{render.line(done.branch)}"
    if not (done.pulled or done.pushed):
        render.out(f"nothing new, here and at {place}")
    else:
        came, went = render.count(done.pulled, "commit"), render.count(done.pushed, "commit")
        render.out(f"synced with {place}: {came} came in, {went} went out")
    sys.stdout.flush()
    for conflict in done.conflicts:
        render.note(f"{conflict.path}: {conflict.what}", label="conflict")
    for replaced in done.replaced:
        _print_replaced(replaced)
    if done.waiting:
        waiting = render.count(done.waiting, "conflict waits", "conflicts wait")
        render.note(f"{waiting} for you: ormahctl review")


def _print_replaced(replaced: api.ConflictItem) -> None:
    """Print which texts of this machine the sync on another machine replaced, and the command that restores them."""
    render.note(f"{replaced.path}, by the sync on {replaced.by or 'another machine'}:", label="replaced")
    for field, side, text in _differing_texts(replaced):
        if side != "base":
            render.aside(f"  {render.line(field)}  {'yours' if side == 'ours' else 'now  '}  {text}")
    render.note(f"ormahctl sync --take-back {(replaced.node or replaced.op)[:8]}", label="hint")


def _set_up_remote(session: Session, url: str, *, replace: bool, yes: bool) -> int:
    """Set the vault's remote to `url`, and sync with it. Return the exit status: `DECLINED` if the person does not
    want to join the vault that the remote holds.

    `replace`: replace another configured remote. `yes`: join without asking.

    Raises:
        UsageError: the remote holds another vault, and there is no terminal to ask on.
    """
    params = api.SyncSetupParams(url=url, replace=replace, ask=not yes)
    done = session.follow("syncing", "admin.sync_setup", params, api.SyncSetupResult)

    # the remote holds another vault: nothing was done yet
    if done.state == "would_join":
        what = f"{render.line(done.url)} holds another vault, with {render.count(done.memories, 'memory', 'memories')}"
        if session.json or not interactive():
            raise click.UsageError(f"{what}; this one would join it, and there is no terminal to ask on: give --yes")
        render.note(f"{what}. This one would join it: both come together there, and both histories are kept.")
        if not click.confirm("Join them?", err=True):
            render.note("nothing was changed")
            return DECLINED
        session.reconnect()
        params.ask = False
        done = session.follow("syncing", "admin.sync_setup", params, api.SyncSetupResult)
    if session.json:
        row = msgspec.to_builtins(done)
        render.emit({**{name: value for name, value in row.items() if name != "synced"}, **(row["synced"] or {})})
        return 0

    # report
    what = {
        "empty": "the remote was empty and has this vault now",
        "ours": "the remote has this vault already",
        "joined": f"this vault joined the one there ({render.count(done.memories, 'memory', 'memories')})",
    }[done.state]
    render.out(f"{what}: {render.paint(render.line(done.remote), 'bold')} is {render.line(done.url)}")
    if done.synced is not None:
        _print_sync(done.synced)
    return 0


def print_conflict(conflict: api.ConflictItem) -> None:
    """Print one conflict: the text of each version where they differ, and the paths of all versions."""
    name = f"{render.paint(conflict.node[:8], 'bold')}  " if conflict.node else ""
    render.out(f"{name}{render.line(conflict.path)}")
    render.out(f"  {render.line(conflict.what)}")
    for field, side, text in _differing_texts(conflict):
        mark = "  (in the vault)" if side == conflict.kept else ""
        render.out(f"    {render.line(field)}  {SIDES.get(side, side):6}  {text}{mark}")
    for side, file in conflict.files.items():
        commit = (conflict.commits.get(side) or "")[:8]
        render.out(render.paint(f"  {SIDES.get(side, side):6}  {commit}  {render.line(file)}", "dim"))


def _differing_texts(conflict: api.ConflictItem) -> Iterator[tuple[str, str, str]]:
    """Yield (field, version, text) for each version of each field in conflict. Lines that all versions have are left
    out of the texts; a text without other lines is `-`."""
    for field, values in conflict.values.items():
        texts = {side: (text or "").split("\n") for side, text in values.items()}
        shared_lines = set.intersection(*map(set, texts.values()))
        for side, lines in texts.items():
            differing = " / ".join(text for text in lines if text.strip() and text not in shared_lines)
            yield field, side, render.cut(render.line(differing), TEXT_COLUMNS) or "-"


def _print_settled(
    session: Session, done: api.ResolveConflictResult | api.TakeBackResult, verb: str, commits: Sequence[str] = ()
) -> None:
    """Print which conflicts were settled, the commits that were made for it, and how many conflicts are left."""
    if session.json:
        render.emit(done)
        return
    for conflict in done.settled:
        render.out(f"{verb} {render.line(conflict.path)}")
    for commit in commits:
        render.out(f"  commit {commit[:8]}; the next sync brings it to the other machines")
    if done.waiting:
        render.out(f"{render.count(done.waiting, 'conflict waits', 'conflicts wait')} still")
