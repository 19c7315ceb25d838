"""`ormahctl history`: list the changes of the vault, and show one change or the versions of one memory."""

from __future__ import annotations

import click

from ormahctl import render
from ormahctl.options import DAYS, limit_option
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahctl.times import TimeOrCommit, When
from ormahd import api

_COLOURS = {"added": "green", "removed": "red", "edited": "yellow", "moved": "cyan"}
_LABEL = 8
"""Width in columns of the labels before an op's values."""


def print_op(op: api.ShowOpResult) -> None:
    """Print one op in full: its data, its reason, and the difference of each note that it changed."""
    _print_heading(op)
    render.out()
    render.out(f"{render.count(op.total, 'file')} changed" if op.total else "no file of the vault changed")
    for note in op.notes:
        render.out()
        _print_note(note)
    if op.total > len(op.notes):
        more = op.total - len(op.notes)
        verb = "is" if more == 1 else "are"
        render.note(f"{more:,} more {verb} not shown (--limit); in the vault: git show --stat {op.commit[:8]}")


def print_versions(found: api.LifeResult, limit: int) -> None:
    """Print the versions of one memory, newest first. `limit`: the number of versions that was asked for."""
    if found.versions:
        newest = next((version.change for version in found.versions if version.change is not None), None)
        if newest is not None:
            render.out(render.paint(render.line(newest.title), "bold"))
            removed = "  forgotten" if newest.change == "removed" else ""
            render.out(f"{found.node_id}{render.paint(removed, 'red')}")
            render.out(render.paint(render.line(newest.path), "dim"))
    for version in found.versions:
        render.out()
        _print_version(version)
    if not found.versions:
        render.note("nothing was changed that fits")
    elif len(found.versions) == limit:
        oldest = found.versions[-1]
        older = f"ormahctl history {found.node_id[:8]} --before {oldest.commit[:8]}"
        render.note(f"there may be older versions: {older}")


def _print_heading(op: api.OpResult) -> None:
    """Print an op's subject, commit, time, source and kind, by which op it was undone, and its reason."""
    render.out(render.paint(render.line(op.subject), "bold"))
    facts = {"commit": op.commit[:8], "when": render.moment(op.time), "who": op.source}
    facts |= {"kind": op.kind or "(a commit by hand)", "undone": f"by {op.undone_by[:8]}" if op.undone_by else ""}
    for label, value in facts.items():
        if value:
            text = f"{render.pad(label, _LABEL)}{render.line(value)}"
            render.out(render.paint(text, "yellow") if label == "undone" else text)
    if op.body.strip():
        render.out()
    _print_reason(op)


def _print_version(version: api.VersionResult) -> None:
    """Print one version of a memory: the op that made it, that op's reason, and the difference of the note."""
    when, commit = render.moment(version.time), render.paint(version.commit[:8], "dim")
    who = render.cut(render.line(version.source), 40)
    render.out(f"{when}  {commit}  {render.line(version.kind or '-')}  {who}  {render.line(version.subject)}")
    if version.undone_by:
        render.out(render.paint(f"  undone by {render.line(version.undone_by)[:8]}", "yellow"))
    _print_reason(version)
    change = version.change
    if change is None:
        render.out("  (the note itself did not change)")
        return
    if change.old_path:
        render.out(f"  moved from {render.line(change.old_path)}")
        render.out(f"          to {render.line(change.path)}")
    elif change.change != "edited":
        render.out(f"  {render.paint(render.line(change.change), _COLOURS.get(change.change, 'dim'))}")
    _print_diff(change)


def _print_reason(op: api.OpResult) -> None:
    """Print the body of an op's commit message, indented. Prints nothing if there is none."""
    text = op.body.strip()
    for line in render.safe(text).split("\n") if text else ():
        render.out(f"  {line}".rstrip())


def _print_note(note: api.NoteChange) -> None:
    """Print how an op changed one note: the kind of change, id, title, path (with the old one if it was moved), and
    the difference."""
    word = render.paint(render.pad(render.line(note.change), _LABEL), _COLOURS.get(note.change, "dim"))
    name = f"{note.node_id[:8]}  " if note.node_id else ""
    title = "" if note.title == note.path else render.line(note.title)
    render.out(f"{word}{name}{render.paint(title, 'bold')}".rstrip())
    space = " " * _LABEL
    if note.old_path:
        render.out(render.paint(f"{space}{render.line(note.old_path)} ->", "dim"))
    render.out(render.paint(f"{space}{render.line(note.path)}", "dim"))
    _print_diff(note)


def _print_diff(note: api.NoteChange) -> None:
    """Print the difference of a note with added lines green and removed lines red."""
    for line in note.diff.split("\n") if note.diff else []:
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        text = render.safe(line)
        render.out("    " + (render.paint(text, colour) if colour else text))
    if note.cut and not note.diff:
        render.out("    (too much to show)")


@click.command(
    cls=Verb,
    short_help="List changes, newest first.",
    example="ormahctl history --since yesterday\normahctl history 97acbe8e\normahctl history show c04131a3\n"
    "ormahctl history --source job:duplicate_merger",
)
@click.argument("words", metavar="[ID | show COMMIT]", nargs=-1)
@click.option("--source", metavar="WHO", help="Only changes by: person, agent, job (any), agent:NAME, job:NAME.")
@click.option("--space", metavar="NAME", help="Only changes of this space's memories; 'global': without a space.")
@click.option("--since", type=When(), help=f"Only changes since: {DAYS}.")
@click.option("--before", type=TimeOrCommit(), metavar="WHEN|COMMIT", help="Only changes before (a day is included).")
@limit_option(10_000, default=50, what="changes; with `show`, of files whose differences are shown")
@pass_session
def history(
    session: Session,
    words: tuple[str, ...],
    source: str | None,
    space: str | None,
    since: str | None,
    before: str | None,
    limit: int,
) -> None:
    """List the changes to the vault, newest first; or the versions of the memory ID; or show one change.

    With an ID (also of a forgotten memory), it lists every version with the reason and the differences. `show COMMIT`
    prints everything that a change did.
    """
    narrowed = any(value is not None for value in (source, space, since, before))

    # one change
    if words[:1] == ("show",):
        if len(words) != 2 or narrowed:
            wrong = "no filter" if len(words) == 2 else "one commit"
            raise click.UsageError(f"history show takes {wrong}: ormahctl history show COMMIT")
        change = session.client.call("history.show", api.ShowOpParams(op=words[1], limit=limit), api.ShowOpResult)
        if session.json:
            render.emit(change)
        else:
            print_op(change)
        return

    # versions of one memory; filters other than times need the list of changes
    if len(words) > 1:
        raise click.UsageError("give one ID, or: show COMMIT")
    node_id = words[0] if words else None
    if node_id is not None and source is None and space is None:
        life = api.LifeParams(node_id=node_id, since=since, before=before, limit=limit)
        found = session.client.call("history.life", life, api.LifeResult)
        if session.json:
            render.emit(found.versions)
        else:
            print_versions(found, limit)
        return

    # changes
    params = api.HistoryParams(node_id=node_id, source=source, space=space, since=since, before=before, limit=limit)
    ops = session.client.call("history.list", params, api.HistoryResult).ops
    if session.json:
        render.emit(ops)
        return
    for op in ops:
        _print_listed(op)
    if not ops:
        render.note("nothing was changed that fits")
    elif len(ops) == limit:
        render.note(f"there may be more; the next page: --before {ops[-1].commit[:8]}")


def _print_listed(op: api.OpResult) -> None:
    """Print one op of a list as one row: time, commit, kind, source, subject, and whether it was undone."""
    undone = render.paint("  (undone)", "yellow") if op.undone_by else ""
    kind = render.pad(render.line(op.kind or "-"), 11)
    who = render.pad(render.cut(render.line(op.source), 24), 18)
    commit = render.paint(op.commit[:8], "dim")
    render.row(f"{render.moment(op.time)}  {commit}  {kind} {who} ", render.line(op.subject), tail=undone)
