"""How the history is printed: whole, harmless, and broken between words on a narrow terminal."""

from __future__ import annotations

import click
import pytest

from ormahctl.commands import history
from ormahctl.times import TimeOrCommit, TimeOrRevision
from ormahd.api import LifeResult, NoteChange, ShowOpResult, VersionResult

EVIL = "evil \x1b[31m \x07 \u202e text"
FIELDS = {
    "op": "01m7y3vhpvbpqyz29cgv4ykf0q", "commit": "1a2b3c4d" * 5, "time": "2026-11-21T20:00:00Z", "kind": EVIL,
    "source": EVIL, "subject": EVIL, "body": f"{EVIL}\nsecond line", "nodes": [], "run": EVIL, "undone_by": EVIL,
}  # fmt: skip


def change(**more: object) -> NoteChange:
    given = {"node_id": "1a2b3c4d-0000", "title": EVIL, "path": EVIL, "old_path": EVIL, "change": "moved", "diff": EVIL}
    return NoteChange(**(given | more))  # type: ignore[arg-type]


def test_nothing_from_the_vault_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    history.print_op(ShowOpResult(**FIELDS, notes=[change()], total=2))
    history.print_versions(LifeResult(node_id="1a2b3c4d-0000", versions=[VersionResult(**FIELDS, change=change())]), 1)
    printed = capsys.readouterr()
    for stream in printed:
        assert not {"\x1b", "\x07", "\u202e"} & set(stream)
    assert printed.out.count("\\x1b") >= 9
    assert "1 more is not shown" in printed.err
    assert "--before 1a2b3c4d" in printed.err


def test_what_is_too_much_or_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    plain = FIELDS | {"kind": None, "op": None, "run": None, "undone_by": None, "body": ""}
    history.print_op(ShowOpResult(**plain, notes=[change(diff="", cut=True)], total=1))
    history.print_op(ShowOpResult(**plain, notes=[], total=0))
    history.print_versions(LifeResult(node_id="x", versions=[VersionResult(**plain, change=None)]), 50)
    history.print_versions(LifeResult(node_id="x", versions=[]), 50)
    printed = capsys.readouterr()
    for line in ("    (too much to show)", "kind    (a commit by hand)", "no file of the vault changed"):
        assert line in printed.out.split("\n")
    assert "the note itself did not change" in printed.out
    assert "nothing was changed that fits" in printed.err


def test_what_is_neither() -> None:
    for kind, word in ((TimeOrCommit(), "2026-99-99"), (TimeOrCommit(), "a b"), (TimeOrRevision(), "2026-99-99")):
        with pytest.raises(click.BadParameter):
            kind.convert(word, None, None)
