"""How `history` shows an op and a memory's versions: who, when, why, and what changed."""

from __future__ import annotations

from ormahctl import render
from ormahd.api import LifeResult, NoteChange, OpResult, ShowOpResult, VersionResult

_COLOURS = {"added": "green", "removed": "red", "edited": "yellow", "moved": "cyan"}
_LABEL = 8
"""Columns of the words before an op's facts."""


def show_op(shown: ShowOpResult) -> None:
    """An op in full: its facts, its reason, then each note that it changed."""
    _heading(shown)
    render.out()
    render.out(f"{render.count(shown.total, 'file')} changed" if shown.total else "no file of the vault changed")
    for note in shown.notes:
        render.out()
        _note(note)
    if shown.total > len(shown.notes):
        left = shown.total - len(shown.notes)
        render.note(f"{left:,} more are not shown (--limit); in the vault: git show --stat {shown.commit[:8]}")


def show_life(found: LifeResult, limit: int) -> None:
    """A memory's versions, newest first."""
    if found.versions:
        newest = next((version.change for version in found.versions if version.change is not None), None)
        if newest is not None:
            render.out(render.paint(render.line(newest.title), "bold"))
            gone = "  forgotten" if newest.change == "removed" else ""
            render.out(f"{found.node_id}{render.paint(gone, 'red')}")
            render.out(render.paint(render.line(newest.path), "dim"))
    for version in found.versions:
        render.out()
        _version(version)
    if not found.versions:
        render.note("nothing was changed that fits")
    elif len(found.versions) == limit:
        oldest = found.versions[-1]
        older = f"ormahctl history {found.node_id[:8]} --before {(oldest.op or oldest.commit)[:26]}"
        render.note(f"there may be older versions: {older}")


def _heading(op: OpResult) -> None:
    render.out(render.paint(render.line(op.subject), "bold"))
    facts = [
        ("op", op.op or "(a commit by hand)"), ("commit", op.commit), ("when", render.moment(op.time)),
        ("who", op.source), ("kind", op.kind), ("run", op.run), ("undone", op.undone_by and f"by {op.undone_by}"),
    ]  # fmt: skip
    for label, value in facts:
        if value:
            text = f"{render.pad(label, _LABEL)}{render.line(value)}"
            render.out(render.paint(text, "yellow") if label == "undone" else text)
    _reason(op, indent="  ", above=True)


def _version(version: VersionResult) -> None:
    when, commit = render.moment(version.time), render.paint(version.commit[:8], "dim")
    who = render.cut(render.line(version.source), 40)
    render.out(f"{when}  {commit}  {render.line(version.kind or '-')}  {who}  {render.line(version.subject)}")
    if version.undone_by:
        render.out(render.paint(f"  undone by {render.line(version.undone_by)}", "yellow"))
    _reason(version, indent="  ", above=False)
    change = version.change
    if change is None:
        render.out("  (the note itself did not change)")
        return
    if change.old_path:
        render.out(f"  moved from {render.line(change.old_path)}")
        render.out(f"          to {render.line(change.path)}")
    elif change.change != "edited":
        render.out(f"  {render.paint(render.line(change.change), _COLOURS.get(change.change, 'dim'))}")
    _diff(change, "    ")


def _reason(op: OpResult, *, indent: str, above: bool) -> None:
    text = op.body.strip()
    if not text:
        return
    if above:
        render.out()
    for line in render.safe(text).split("\n"):
        render.out((indent + line).rstrip())


def _note(note: NoteChange) -> None:
    word = render.paint(render.pad(render.line(note.change), _LABEL), _COLOURS.get(note.change, "dim"))
    name = f"{note.node_id[:8]}  " if note.node_id else ""
    title = "" if note.title == note.path else render.line(note.title)
    render.out(f"{word}{name}{render.paint(title, 'bold')}".rstrip())
    space = " " * _LABEL
    if note.old_path:
        render.out(render.paint(f"{space}{render.line(note.old_path)} ->", "dim"))
    render.out(render.paint(f"{space}{render.line(note.path)}", "dim"))
    _diff(note, "    ")


def _diff(note: NoteChange, indent: str) -> None:
    for line in note.diff.split("\n") if note.diff else []:
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        shown = render.safe(line)
        render.out(indent + (render.paint(shown, colour) if colour else shown), hang=2)
    if note.cut and not note.diff:
        render.out(f"{indent}(too much to show)")
