"""What every write has to say beside its result, on stderr: secrets taken out, notes moved, git busy, parts missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ormahctl import render
from ormahctl.session import Session
from ormahd.api import Near, NodeParams, NodeResult, WriteResult
from ormahd.rpc.wire import NotFound


def told(redacted: Sequence[str], demoted: Sequence[str], *, stored: bool, degraded: Sequence[str]) -> None:
    if redacted:
        kinds = ", ".join(sorted(set(redacted)))
        render.note(f"taken out before anything was written: {kinds}", label="secret", colour="red")
    if demoted:
        ids = ", ".join(name[:8] for name in demoted)
        render.note(f"core is full; moved to working: {ids}")
    if stored:
        render.note("another git operation is under way in the vault; the memory is safe and its commit follows")
    if "vectors" in degraded:
        render.note("neighbours were not looked for: the model is not loaded yet")


def close_to(near: Sequence[Near], newer: str) -> None:
    """Print the memories that are close to the one just written (short id `newer`), and what to say if it replaces one."""
    for one in near:
        render.out(f"  close to {one.short_id}  {one.created[:10]}  {render.cut(render.line(one.content), 60)}")
    if near:
        seems = "it seems to replace it; if so" if near[0].standing == "replaced" else "if it replaces one of them"
        render.out(f"  {seems}: ormahctl outdated {near[0].short_id} --by {newer}")


def fields(node: NodeResult) -> dict[str, Any]:
    """A node as `--json` shows it: its fields, `path` and `connections`."""
    found: dict[str, Any] = msgspec.to_builtins(node)
    for twin in ("text", "node_id"):
        found.pop(twin)
    return found


def peek(session: Session, node_id: str) -> NodeResult:
    """The node, without counting it as used."""
    return session.client.call("agent.get", NodeParams(node_id=node_id, touch=False), NodeResult)


def written(session: Session, done: WriteResult, verb: str, *, before: NodeResult | None = None) -> None:
    """Say what a write did. With --json: the node as it is now (`before`: as it was, when it is gone) and the commit."""
    if session.json:
        node = fields(before) if before is not None else _now(session, done.node_id)
        render.emit(
            node
            | {"changed": done.changed, "commit": done.commit, "op": done.op, "stored": done.stored}
            | {"redacted": done.redacted, "demoted": done.demoted, "degraded": done.degraded, "near": done.near}
        )
        return
    verb = verb if done.changed else "nothing to change in"
    render.out(f"{verb} {render.paint(done.short_id, 'bold')}  {render.line(done.path or '')}".rstrip())
    if done.commit:
        render.out(f"  commit {done.commit[:8]}")
    close_to(done.near, done.short_id)
    told(done.redacted, done.demoted, stored=done.stored, degraded=())


def _now(session: Session, node_id: str) -> dict[str, Any]:
    try:
        return fields(peek(session, node_id))
    except NotFound:
        return {"id": node_id, "short_id": node_id[:8]}  # somebody removed it since: the write itself was done
