"""Lists and finds ops in the history (DESIGN section 12, "History").

`git.oplog` holds all ops in memory, and which are undone. The messages of the listed ops are read from git.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import dropwhile, islice

from msgspec import Struct

from ormahd.errors import Ambiguous, BadRequest, NotFound
from ormahd.git import message
from ormahd.git.oplog import Entry, View
from ormahd.model.change import Kind
from ormahd.model.node import is_node_id
from ormahd.note.note import parse, stem_short_id
from ormahd.vault.vault import Vault

MIN_PREFIX = 4
"""Minimum length of a prefix, as for ids of nodes."""
SHOWN = 10
"""How many matches of an ambiguous prefix are named."""

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_ID = re.compile(r"[0-9a-zA-Z]{4,64}")


class Op(Struct, frozen=True):
    """One commit that changed the vault. `op`, `kind` and `run` are None for a commit made by hand, whose source is
    "person". `undone_by`: the op or commit that undid it and was not undone itself."""

    op: str | None
    commit: str
    time: datetime
    kind: str | None
    source: str
    subject: str
    body: str
    nodes: tuple[str, ...]
    run: str | None
    undone_by: str | None
    files: str | None = None
    """Whether the op adopted or released files of the person, as in `oplog.Entry`."""

    @property
    def name(self) -> str:
        return self.op or self.commit


def list_ops(
    vault: Vault,
    *,
    node_id: str | None = None,
    kind: str | None = None,
    job: str | None = None,
    run: str | None = None,
    since: str | None = None,
    before: str | None = None,
    limit: int = 50,
) -> list[Op]:
    """Return the newest `limit` ops that match, newest first.

    `node_id`: a full id; matches ops that name it, and commits by hand that changed its note. `since` and `before`: ISO
    times (`since` included, `before` excluded) or dates (whole days, both included); UTC unless a time zone is given.
    `before` may also be a unique prefix of an op or a commit: then the ops after it in the list, its next page.

    Raises:
        BadRequest: an unknown kind, a date that cannot be read, a limit below 1.
        NotFound, Ambiguous: the op that `before` names.
    """
    if limit < 1:
        raise BadRequest(f"limit is {limit}", hint="give a number from 1")
    if kind is not None and kind not in set(Kind):
        raise BadRequest(f"there is no kind '{kind}'", hint=f"there are: {', '.join(Kind)}")
    if node_id is not None and not is_node_id(node_id):
        raise BadRequest(f"{node_id!r} is no full id", hint="`ormahctl show` gives the full id")
    first = None if since is None else moment(since)
    behind = find_op(vault, before).commit if before is not None and _ID.fullmatch(before.strip()) else None
    last = None if before is None or behind is not None else moment(before, end=True)
    touched = _touching(vault, node_id) if node_id is not None else frozenset()
    earliest = None if first is None else first.timestamp()
    latest = None if last is None else last.timestamp()
    narrowed = any(value is not None for value in (node_id, kind, job, run, since, before))
    view = vault.oplog.view() if narrowed else vault.oplog.recent(limit)
    entries = iter(view.entries)
    if behind is not None:
        entries = islice(dropwhile(lambda entry: entry.commit != behind, entries), 1, None)
    fitting = (
        entry for entry in entries
        if (latest is None or entry.time < latest)
        and (earliest is None or entry.time >= earliest)
        and (kind is None or entry.kind == kind)
        and (job is None or entry.source == f"job:{job}")
        and (run is None or entry.run == run)
        and (node_id is None or node_id in entry.nodes or entry.commit in touched)
    )  # fmt: skip
    return read_ops(vault, view, list(islice(fitting, limit)))


def find_op(vault: Vault, prefix: str, *, kind: Kind | None = None) -> Op:
    """Return the op (of this kind) whose id, or whose commit's id, has this unique prefix.

    Raises:
        BadRequest: the prefix is shorter than four characters or cannot be an id.
        NotFound, Ambiguous (`data["ids"]`).
    """
    wanted = prefix.strip().lower()
    if not re.fullmatch(rf"[0-9a-z]{{{MIN_PREFIX},64}}", wanted):
        raise BadRequest(f"{prefix!r} is no op and no commit", hint=f"give at least {MIN_PREFIX} characters of its id")
    view = vault.oplog.view()
    found: list[Entry] = []
    for entry in view.entries:
        if kind is not None and entry.kind != kind:
            continue
        if wanted in (entry.op, entry.commit):
            found = [entry]
            break
        if entry.commit.startswith(wanted) or (entry.op or "").startswith(wanted):
            found.append(entry)
    if not found:
        ops = {op for commit, op in view.firsts.items() if commit.startswith(wanted)}
        found = [entry for entry in view.entries if entry.op in ops and kind in (None, entry.kind)]
    if not found:
        raise NotFound(f"no {kind or 'op'} begins with '{wanted}'", hint="`ormahctl history` lists them")
    # `git cherry-pick` keeps the trailers: two commits of one op count as one op, and its latest commit is returned.
    if len({entry.op or entry.commit for entry in found}) > 1:
        shown = [entry.op if (entry.op or "").startswith(wanted) else entry.commit for entry in found[:SHOWN]]
        raise Ambiguous(f"'{wanted}' names {len(found)} ops", hint="give more of the id", data={"ids": shown})
    return read_ops(vault, view, found)[0]


def find_node(vault: Vault, prefix: str) -> str:
    """Return the full id of the node with this unique prefix, from the history alone; finds removed nodes too.

    Raises BadRequest, NotFound, Ambiguous, as `find_op`.
    """
    wanted = prefix.strip().lower()
    if not re.fullmatch(rf"[0-9a-f-]{{{MIN_PREFIX},36}}", wanted):
        raise BadRequest(f"{prefix!r} is no id", hint=f"give at least {MIN_PREFIX} characters of it")
    found: dict[str, None] = {}
    for entry in vault.oplog.view().entries:
        found.update((node, None) for node in entry.nodes if node.startswith(wanted))
    found |= dict.fromkeys(sorted(vault.touched.nodes(wanted)))
    for path in vault.tree():
        if (short := stem_short_id(path)) and (short.startswith(wanted) or wanted.startswith(short)):
            node = _id_at(vault, "HEAD", path)
            if node is not None and node.startswith(wanted):
                found[node] = None
    if not found:
        raise NotFound(f"no memory's id begins with '{wanted}', now or earlier", hint="`ormahctl history` names ids")
    if len(found) > 1:
        raise Ambiguous(
            f"'{wanted}' begins {len(found)} ids", hint="give more of it", data={"ids": list(found)[:SHOWN]}
        )
    return next(iter(found))


def read_ops(vault: Vault, view: View, entries: Sequence[Entry]) -> list[Op]:
    """Return the ops of these entries, in their order, with the messages of their commits."""
    return [_op(view, entry, said) for entry, said in zip(entries, _messages(vault, entries), strict=True)]


def _messages(vault: Vault, entries: Sequence[Entry]) -> Iterator[message.Message]:
    if not entries:
        return
    names = "".join(f"{entry.commit}\n" for entry in entries).encode()
    out = vault.git.run(
        "log", "-z", "--no-color", "--no-show-signature", "--no-walk=unsorted", "--stdin", "--format=%B", input=names
    )
    for record in out.split(b"\0")[: len(entries)]:
        yield _message(record)


def _op(view: View, entry: Entry, said: message.Message) -> Op:
    return Op(
        op=entry.op, commit=entry.commit, time=datetime.fromtimestamp(entry.time, UTC), kind=entry.kind,
        source=entry.source, subject=said.subject, body=said.body, nodes=entry.nodes, run=entry.run,
        undone_by=view.undone_by(entry), files=entry.files,
    )  # fmt: skip


def _message(record: bytes) -> message.Message:
    return message.parse(os.fsdecode(record).lstrip("\n"))


def moment(text: str, *, end: bool = False) -> datetime:
    """Parse an ISO time or date; UTC is assumed without a time zone. With `end` a date means the end of that day.
    Raises BadRequest."""
    given = text.strip()
    try:
        found = datetime.fromisoformat(given)
        whole_day = _DATE.fullmatch(given) is not None
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
        return found + timedelta(days=1) if end and whole_day else found
    except (ValueError, OverflowError) as exc:
        raise BadRequest(f"{text!r} is no time", hint="for example 2026-11-21 or 2026-11-21T20:00:00Z") from exc


def _touching(vault: Vault, node_id: str) -> frozenset[str]:
    found = vault.touched.commits(node_id)
    return found or vault.touched.commits(node_id, also=_paths_at_head(vault, node_id))


def _paths_at_head(vault: Vault, node_id: str) -> set[str]:
    """Return the paths where HEAD has a note that a person wrote and committed, found by a search for its id in all
    files."""
    if vault.head() is None:
        return set()
    found = set()
    for record in vault.git.run("grep", "-z", "-l", "-F", "-e", node_id, "HEAD", ok=(0, 1)).split(b"\0")[:-1]:
        path = os.fsdecode(record).partition(":")[2].removeprefix(vault.prefix)
        if _id_at(vault, "HEAD", path) == node_id:
            found.add(path)
    return found


def _id_at(vault: Vault, revision: str, path: str) -> str | None:
    """Return the id of the note that a revision has at a path, or None."""
    oid = vault.git.resolve(f"{revision}:{vault.prefix}{path}")
    return None if oid is None else parse(vault.blob(oid, path), path).id
