"""`ormahctl export`: every memory as a JSON line, to stdout or into a file that is there whole or not at all."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from ormahctl import render
from ormahctl.progress import Bar
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahd.api import ExportParams, ExportResult, NoParams, StatsResult
from ormahd.rpc.wire import BadRequest

PAGE = 500


@click.command(
    cls=Verb,
    short_help="Every memory as a JSON line.",
    example="ormahctl export --output memories.jsonl\normahctl export | jq -r .title",
)
@click.option(
    "-o", "--output", metavar="FILE", help="Write here instead of to stdout; the file appears when it is whole."
)
@pass_session
def export(session: Session, output: str | None) -> None:
    """Write every memory as a JSON object, one a line, in the order of their ids. `ormahctl import` takes them back."""
    if output is None or output == "-":
        _write(session, sys.stdout.buffer)
        return
    with _whole(Path(output)) as stream:
        number = _write(session, stream)
    if session.json:
        render.emit({"exported": number, "output": output})
    else:
        render.out(f"{render.count(number, 'memory', 'memories')} in {render.line(output)}")


def _write(session: Session, stream: BinaryIO) -> int:
    client = session.client
    number, after = 0, None
    with Bar("exporting") as bar:
        total = client.call("admin.stats", NoParams(), StatsResult).total_nodes if bar.seen else None
        while True:
            page = client.call("admin.export", ExportParams(after=after, limit=PAGE), ExportResult)
            stream.writelines(render.encode(item, pretty=False).encode() + b"\n" for item in page.items)
            number += len(page.items)
            bar.set(number, total, f"{number:,}")
            after = page.next
            if after is None:
                break
    stream.flush()
    return number


@contextmanager
def _whole(file: Path) -> Iterator[BinaryIO]:
    """A file that replaces `file` when all is written and synced; a pipe or device is written to as it is."""
    target = Path(os.path.realpath(file))
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        if target.is_dir():
            raise BadRequest(f"{file} is a directory", hint="name a file in it, such as memories.jsonl")
        with target.open("wb") as stream:
            yield stream
        return
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as exc:
        raise BadRequest(f"{file} cannot be written: {exc.strerror}") from exc
    try:
        with os.fdopen(handle, "wb") as stream:  # mode 0600: memories are private
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise
