"""What `setup` and `uninstall` share: asking before a settings file is changed, and telling what became of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

import click

from ormahctl import render
from ormahctl.session import Session
from ormahd.rpc.wire import BadRequest, Unavailable

if TYPE_CHECKING:
    from ormahctl.setup.change import FileChange
    from ormahctl.setup.connect import Change

AGENTS = ("claude-code", "codex", "gemini")
SERVICE = "service"
DECLINED = 1
HELLO_SECONDS = 2.0


def interactive() -> bool:
    """Whether there is a person to ask."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def agreed(
    changes: Sequence[FileChange], *, dry_run: bool, yes: bool, quiet: bool, question: str | None = None
) -> bool:
    """Whether to go on. Shows the changes where a person is asked, and with `dry_run`, unless `quiet`; then there is
    nothing to go on with.

    Raises:
        BadRequest: there is nobody to ask.
    """
    real = [change for change in changes if change.changed]
    if dry_run:
        for change in [] if quiet else real:
            show(change, sys.stdout)
        if not real and not quiet:
            render.out("nothing would change")
        return False
    if yes or not real:
        return True
    if not interactive():
        raise BadRequest(
            f"this changes {', '.join(str(change.path) for change in real)}, and there is no terminal to ask on",
            hint="give --yes, or --dry-run to see the change",
        )
    for change in real:
        show(change, sys.stderr)
    if click.confirm(question or ("Change it?" if len(real) == 1 else "Change them?"), err=True):
        return True
    render.note("nothing was changed")
    return False


def show(change: FileChange, stream: TextIO) -> None:
    """The change as a unified diff."""
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for text in diff(change):
        colour = colours.get(text[:1]) if not text.startswith(("+++", "---")) else "bold"
        text = render.safe(text)
        stream.write((render.paint(text, colour, stream) if colour else text) + "\n")


def diff(change: FileChange) -> list[str]:
    """Lines of a unified diff of the settings file."""
    import difflib

    before, after = _lines(change.seen.data), _lines(change.after)
    names = [str(change.path) if data is not None else "/dev/null" for data in (change.seen.data, change.after)]
    found: list[str] = []
    for text in difflib.unified_diff(before, after, names[0], names[1]):
        found.append(text.removesuffix("\n").removesuffix("\r"))
        if not text.endswith("\n"):
            found.append("\\ No newline at end of file")
    return found


def _lines(data: bytes | None) -> list[str]:
    return (data or b"").decode("utf-8", "backslashreplace").splitlines(keepends=True)


def told(change: Change, *, dry_run: bool = False) -> dict[str, Any]:
    """A change for programs."""
    fields = {
        "agent": change.harness.name,
        "file": str(change.path),
        "changed": change.changed,
        "added": change.added,
        "replaced": change.replaced,
        "removed": change.removed,
    }
    return fields | ({"dry_run": True, "diff": "\n".join(diff(change))} if dry_run else {})


def daemon(session: Session) -> tuple[str | None, str | None, str | None]:
    """The daemon's phase and vault, where it answers; else what to do."""
    from ormahctl import supervise

    try:
        hello = supervise.hello(session.socket_path, HELLO_SECONDS)
    except Unavailable as exc:
        return None, None, exc.message
    return (hello.phase, hello.vault, None) if hello else (None, None, None)
