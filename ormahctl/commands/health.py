"""`doctor`, `verify`, `rebuild`: is all as it should be, and what to do about it."""

from __future__ import annotations

import re
import sys

import click
import msgspec

from ormahctl import offline, render
from ormahctl.progress import Bar
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahd.api import (
    DoctorParams,
    DoctorResult,
    Finding,
    HealthResult,
    HelloParams,
    HelloResult,
    NoParams,
    Progress,
    RebuildResult,
    VerifyResult,
)
from ormahd.rpc.wire import Unavailable

FOUND = 1
LONG_SECONDS = 6 * 3600.0
EXAMPLES = 3
"""Findings of one kind that are named; from one more on they are counted."""
_PARTICULAR = re.compile(r"'[^']*'|\b[0-9a-f]{8}(?:-[0-9a-f-]{27})?\b|\b\d+\b|\S+\.md\b")
"""What tells two findings of one kind apart: values in quotes, ids, numbers, files."""
_COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}


@click.command(
    cls=Verb, short_help="Name what needs a hand, with the mend.", example="ormahctl doctor\normahctl doctor --fix"
)
@click.option("--fix", is_flag=True, help="Mend what can be mended without a decision.")
@click.option("--verbose", is_flag=True, help="Each finding by itself, also where many are of one kind.")
@pass_session
def doctor(session: Session, fix: bool, verbose: bool) -> int:
    """Look over vault, index, git and models, also while the daemon is down.

    Of findings of one kind three are named, with how many there are.

    Exit status 1 when an error or a warning was found; what is only worth knowing (info) does not count.
    """
    session.starts = False
    try:
        with Bar("examining") as bar:
            found = session.client.call(
                "admin.doctor",
                DoctorParams(fix=fix),
                DoctorResult,
                on_progress=lambda at: _draw(bar, at),
                timeout=LONG_SECONDS,
            )
        daemon = session.client.call("hello", HelloParams(client="ormahctl"), HelloResult).version
    except Unavailable as exc:
        if exc.data.get("reason") not in {"absent", "refused"}:
            raise
        if not session.json:
            render.note("the daemon is not running; looking without it")
        said = offline.answer("doctor", "--json", *(["--fix"] if fix else []), fine={0, FOUND})
        found = msgspec.json.decode(said, type=DoctorResult)
        daemon = None
    from ormahctl.setup import look

    found.findings += look.findings(daemon)
    if session.json:
        render.emit(found)
    else:
        for kind in _kinds(found.findings):
            if verbose or len(kind) <= EXAMPLES:
                for finding in kind:
                    _print(finding)
            else:
                _print_kind(kind)
        if not found.findings:
            render.out("all is well")
        if verbose and daemon is not None:
            _model(session)
    return FOUND if any(finding.level != "info" for finding in found.findings) else 0


def _model(session: Session) -> None:
    """What runs the embedding model, and what was measured of it."""
    health = session.client.call("admin.health", NoParams(), HealthResult)
    found = health.embedding
    if found is None:
        return
    about = [f"{found.runtime} {found.version}", found.precision, *([found.why] if found.why else [])]
    if found.vectors is not None and found.tokens is not None:
        digits = 7 if found.precision == "fp32" else 4
        about.append(f"as sentence-transformers: cosine {min(found.vectors, found.tokens):.{digits}f}")
    if found.milliseconds is not None:
        about.append(f"{found.milliseconds} ms a short note, not {found.full_milliseconds}")
    render.out(f"model {render.line(health.index.model)}: {render.line('; '.join(about))}")


def _kinds(findings: list[Finding]) -> list[list[Finding]]:
    """Findings that say the same of different files, together; the others alone. In the order of the first of each."""
    found: dict[tuple[str, str, str], list[Finding]] = {}
    for at, finding in enumerate(findings):
        said = _PARTICULAR.sub("…", finding.what.partition(", it says ")[0])
        key = (finding.level, said, _PARTICULAR.sub("…", finding.mend)) if finding.path else ("", str(at), "")
        found.setdefault(key, []).append(finding)
    return list(found.values())


def _print_kind(kind: list[Finding]) -> None:
    """Many findings of one kind: how many, some examples, what to do."""
    first = kind[0]
    level = render.paint(f"{render.line(first.level)}:", _COLOURS.get(first.level, "yellow"))
    said = _PARTICULAR.sub("…", first.what.partition(", it says ")[0])
    render.out(f"{level} {render.count(len(kind), 'file')}: {render.line(said)}")
    for finding in kind[:EXAMPLES]:
        says = finding.what.partition(", it says ")[2]
        line = f":{finding.line}" if finding.line else ""
        render.out(f"  {render.line(finding.path or '')}{line}{f' ({render.line(says)})' if says else ''}")
    render.out(f"  … and {len(kind) - EXAMPLES} more: ormahctl doctor --verbose")
    if first.mend:
        render.out(f"  {render.line(first.mend)}")


def _print(finding: Finding) -> None:
    line = f":{finding.line}" if finding.line else ""
    place = f"{render.line(finding.path)}{line}: " if finding.path else ""
    level = render.paint(f"{render.line(finding.level)}:", _COLOURS.get(finding.level, "yellow"))
    render.out(f"{level} {place}{render.line(finding.what)}")
    if finding.mend:
        render.out(f"  {render.line(finding.mend)}")


@click.command(cls=Verb, short_help="Compare the index with the vault.", example="ormahctl verify")
@pass_session
def verify(session: Session) -> int:
    """Compare the index with the vault, note by note. Exit status 1 when they differ."""
    with Bar("verifying") as bar:
        found = session.client.call(
            "admin.verify", NoParams(), VerifyResult, on_progress=lambda at: _draw(bar, at), timeout=LONG_SECONDS
        )
    if session.json:
        render.emit(found)
    elif found.ok:
        render.out("the index equals the vault")
    else:
        for difference in found.differences:
            place = render.line(difference.path or difference.id or "")
            values = f": {difference.detail}" if difference.detail else ""
            render.out(f"{place}: {render.line(difference.what)}{render.line(values)}")
        sys.stdout.flush()
        render.note("the index can be made anew from the vault: ormahctl rebuild", label="hint", colour="cyan")
    return 0 if found.ok else FOUND


@click.command(cls=Verb, short_help="Make the index anew from the vault.", example="ormahctl rebuild")
@pass_session
def rebuild(session: Session) -> None:
    """Make the index anew from the vault. Nothing can be lost by it; searches go on meanwhile."""
    with Bar("rebuilding") as bar:
        done = session.client.call(
            "admin.rebuild", NoParams(), RebuildResult, on_progress=lambda at: _draw(bar, at), timeout=LONG_SECONDS
        )
    if session.json:
        render.emit(done)
    else:
        render.out(f"indexed {render.count(done.nodes_indexed, 'memory', 'memories')} in {done.seconds:.1f} s")


def _draw(bar: Bar, at: Progress) -> None:
    bar.set(at.done, at.total, f"{at.done:,}", what=at.stage)
