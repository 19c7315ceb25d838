"""List and find ops in the history, find past states, and tell whether the person or Ormah made a file.

`git.oplog` holds all ops in memory, and which are undone; the messages of listed ops are read from git. A past state is
named by a date, an op, a commit, a branch or a tag (DESIGN section 12, "History").

The person made a file if the first op that names its memory is a person's edit; or, when no op names it,
if the commit that first added its path is one or was made by hand. Ormah made it if it came by `remember`, an
import, a merge or any other op.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import dropwhile, islice
from typing import TypedDict, Unpack

from msgspec import Struct

from ormahd.errors import Ambiguous, BadRequest, NotFound
from ormahd.git import oplog
from ormahd.git.oplog import UNTOLD, LogEntry, LogView
from ormahd.model.change import Kind, is_op
from ormahd.model.node import is_node_id
from ormahd.note.read import parse
from ormahd.note.values import GLOBAL_FOLDER, space_folder, stem_short_id
from ormahd.vault.vault import Vault

MIN_PREFIX = 4
"""Minimum length of a prefix, as for ids of nodes."""
SHOWN = 10
"""How many matches of an ambiguous prefix are named."""

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_MONTH = re.compile(r"\d{4}-\d{2}")
_ID = re.compile(r"[0-9a-zA-Z]{4,64}")


class Op(Struct, frozen=True):
    """One commit that changed the vault. `op`, `kind` and `run` are None for a commit made by hand, whose source is
    "person". `undone_by`: the commit that undid it and was not undone itself."""

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

    @property
    def name(self) -> str:
        return self.op or self.commit


class OpFilter(TypedDict, total=False):
    """Which ops are wanted; a value that is absent or None is no condition.

    `node_id`: a full id; matches ops that name it, and commits by hand that changed its note. `source`: `person`,
    `agent:NAME`, `job:NAME`, or only `agent` or `job`. `space`: a space (`global`: none), and the ids of the memories
    that it has now; matches ops that name one of them, or changed a file in the space's folder. `since` and `before`:
    ISO times (`since` included, `before` excluded), or dates or months (whole, both included); local unless a time zone
    is given. `before` may also be a unique prefix of an op or a commit: then the ops after it in the list, its next page.
    """

    node_id: str | None
    kind: str | None
    job: str | None
    run: str | None
    source: str | None
    space: tuple[str, frozenset[str]] | None
    since: str | None
    before: str | None


def list_ops(vault: Vault, *, limit: int = 50, **wanted: Unpack[OpFilter]) -> list[Op]:
    """Return the newest `limit` ops that match, newest first. Ops of kind `init`, which only make files for others, are
    left out, unless `kind` or `node_id` asks for them.

    Raises:
        BadRequest: an unknown kind, a date that cannot be read, a limit below 1.
        NotFound, Ambiguous: the op that `before` names.
    """
    if limit < 1:
        raise BadRequest(f"limit is {limit}", hint="give a number from 1")
    narrowed = any(value is not None for value in wanted.values())
    view = vault.oplog.view() if narrowed else vault.oplog.recent(2 * limit)  # with an `init` before each
    return read_ops(vault, view, list(islice(_fitting(vault, view, **wanted), limit)))


def count_months(vault: Vault, **wanted: Unpack[OpFilter]) -> dict[str, int]:
    """Return {month of local time, as `2026-11`: number of ops that match}, newest first. Raises as `list_ops`."""
    entries = _fitting(vault, vault.oplog.view(), **wanted)
    found = Counter(f"{datetime.fromtimestamp(entry.time, UTC).astimezone():%Y-%m}" for entry in entries)
    return dict(sorted(found.items(), reverse=True))


def _fitting(
    vault: Vault,
    view: LogView,
    *,
    node_id: str | None = None,
    kind: str | None = None,
    job: str | None = None,
    run: str | None = None,
    source: str | None = None,
    space: tuple[str, frozenset[str]] | None = None,
    since: str | None = None,
    before: str | None = None,
) -> Iterator[LogEntry]:
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
    members, filed = frozenset[str](), frozenset[str]()
    if space is not None:
        folder, members = space_folder(None if space[0] == GLOBAL_FOLDER else space[0]), space[1]
        if folder not in view.filed:  # a search of the whole history
            view.filed[folder] = frozenset(
                vault.git.run("log", "--format=%H", view.head or "HEAD", "--", folder).decode().split()
            )
        filed = view.filed[folder]
    entries = iter(view.entries)
    if behind is not None:
        entries = islice(dropwhile(lambda entry: entry.commit != behind, entries), 1, None)
    return (
        entry for entry in entries
        if (latest is None or entry.time < latest)
        and (earliest is None or entry.time >= earliest)
        and (entry.kind == kind if kind is not None else entry.kind != Kind.INIT or node_id is not None)
        and (job is None or entry.source == f"job:{job}")
        and (run is None or entry.run == run)
        and (source is None or source in (entry.source, entry.source.partition(":")[0]))
        and (space is None or entry.commit in filed or not members.isdisjoint(entry.nodes))
        and (node_id is None or node_id in entry.nodes or entry.commit in touched)
    )  # fmt: skip


def find_op(vault: Vault, prefix: str, *, kind: Kind | None = None) -> Op:
    """Return the op whose id, or whose commit's id, begins with `prefix`. Only ops of this `kind` count, if given.

    Raises:
        BadRequest: the prefix is shorter than four characters or cannot be an id.
        NotFound: no op has the prefix.
        Ambiguous: several have it; `data["ids"]` names them.
    """
    wanted = prefix.strip().lower()
    if not re.fullmatch(rf"[0-9a-z]{{{MIN_PREFIX},64}}", wanted):
        raise BadRequest(f"{prefix!r} is no id of a change", hint=f"give at least {MIN_PREFIX} characters of its id")
    view = vault.oplog.view()
    found: list[LogEntry] = []
    for entry in view.entries:
        if kind is not None and entry.kind != kind:
            continue
        if wanted in (entry.op, entry.commit):
            found = [entry]
            break
        if entry.commit.startswith(wanted) or (entry.op or "").startswith(wanted):
            found.append(entry)
    if not found:
        raise NotFound(f"no {kind or 'change'} begins with '{wanted}'", hint="`ormahctl history` lists them")
    # `git cherry-pick` keeps the trailers: two commits of one op count as one op, and its latest commit is returned.
    if len({entry.op or entry.commit for entry in found}) > 1:
        shown = [entry.op if (entry.op or "").startswith(wanted) else entry.commit for entry in found[:SHOWN]]
        raise Ambiguous(f"'{wanted}' names {len(found)} changes", hint="give more of the id", data={"ids": shown})
    return read_ops(vault, view, found)[0]


def find_node(vault: Vault, prefix: str) -> str:
    """Return the full id of the node whose id begins with `prefix`. Only the history is searched, so that removed
    nodes are found too.

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


def read_ops(vault: Vault, view: LogView, entries: Sequence[LogEntry]) -> list[Op]:
    """Return the ops of these log entries, in the same order, with the messages of their commits."""
    return [_op(view, entry, said) for entry, said in zip(entries, _messages(vault, entries), strict=True)]


def _messages(vault: Vault, entries: Sequence[LogEntry]) -> Iterator[oplog.Message]:
    if not entries:
        return
    names = "".join(f"{entry.commit}\n" for entry in entries).encode()
    out = vault.git.run(
        "log", "-z", "--no-color", "--no-show-signature", "--no-walk=unsorted", "--stdin", "--format=%B", input=names
    )
    for record in out.split(b"\0")[: len(entries)]:
        yield _message(record)


def _op(view: LogView, entry: LogEntry, said: oplog.Message) -> Op:
    return Op(
        op=entry.op, commit=entry.commit, time=datetime.fromtimestamp(entry.time, UTC), kind=entry.kind,
        source=entry.source, subject=said.subject, body=said.body, nodes=entry.nodes, run=entry.run,
        undone_by=view.undone_by(entry),
    )  # fmt: skip


def _message(record: bytes) -> oplog.Message:
    return oplog.parse(os.fsdecode(record).lstrip("\n"))


def moment(text: str, *, end: bool = False) -> datetime:
    """Parse an ISO time, date or month; local unless it has a time zone. With `end` a date or month means its end.
    Raises BadRequest."""
    given = text.strip()
    try:
        if _MONTH.fullmatch(given):
            first = datetime.fromisoformat(f"{given}-01")
            return ((first + timedelta(days=31)).replace(day=1) if end else first).astimezone(UTC)
        found = datetime.fromisoformat(given)
        if end and _DATE.fullmatch(given):
            found += timedelta(days=1)
        return found.astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise BadRequest(f"{text!r} is no time", hint="for example 2026-11-21 or 2026-11-21T20:00:00Z") from exc


def _touching(vault: Vault, node_id: str) -> frozenset[str]:
    found = vault.touched.commits(node_id)
    return found or vault.touched.commits(node_id, also=_paths_at_head(vault, node_id))


def _paths_at_head(vault: Vault, node_id: str) -> set[str]:
    """Return the paths at which HEAD has the note with this id, found by a search for the id in all files. Needed
    for a note that a person wrote and committed: no op names it, and its file name may lack the short id."""
    if vault.head() is None:
        return set()
    found = set()
    for record in vault.git.run("grep", "-z", "-l", "-F", "-e", node_id, "HEAD", ok=(0, 1)).split(b"\0")[:-1]:
        path = os.fsdecode(record).partition(":")[2]
        if _id_at(vault, "HEAD", path) == node_id:
            found.add(path)
    return found


def _id_at(vault: Vault, revision: str, path: str) -> str | None:
    """Return the id of the note that a revision has at a path, or None."""
    oid = vault.git.resolve(f"{revision}:{path}")
    return None if oid is None else parse(vault.blob(oid), path).id


_AGO = re.compile(r"(\d{1,5})\s*(min|h|d|w)")
_UNITS = {"min": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_DAYS = {"today": 0, "yesterday": 1}
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}([T ].*)?", re.IGNORECASE)


class PastState(Struct, frozen=True):
    """One past state of the vault: that of a commit. `time`: when the commit was made. `moment`: the time that counts
    as now in this state: the requested time, or else `time`. `op`: the commit's op; None for a commit made by hand or
    not in HEAD's history."""

    commit: str
    op: str | None
    time: datetime
    moment: datetime


def find_standing(vault: Vault, text: str, now: datetime) -> PastState:
    """Return the past state that `text` names.

    A time is an ISO date (the end of that day) or time, `today`, `yesterday`, or an age (`12h`, `7d`, `2w`); local
    unless a time zone is given. It means the last commit made until then, along HEAD's first parents. Anything else
    is a revision: a unique prefix of an op or commit, a branch, a tag, or whatever git accepts.

    Raises:
        BadRequest: the text is no time and no revision.
        Ambiguous: the prefix matches several.
        NotFound: nothing has that name, or the history begins later.
    """
    asked = text.strip()
    if not asked or len(asked) > 500 or not asked.isprintable():
        raise BadRequest(
            f"{text[:60]!r} is no time and no revision", hint="for example 2026-11-21, yesterday, 7d, a change"
        )
    time = _time(asked, now)
    return _by_name(vault, asked) if time is None else _by_time(vault, _named(asked), min(time, now))


def _time(text: str, now: datetime) -> datetime | None:
    word = text.lower()
    try:
        if word in _DAYS:
            text = (now.astimezone() - timedelta(days=_DAYS[word])).date().isoformat()
        if ago := _AGO.fullmatch(word):
            return now - int(ago[1]) * _UNITS[ago[2]]
        if _TIME.fullmatch(text):
            whole_day = len(text) == len("2026-11-21")
            return moment(text, end=True) - timedelta(seconds=int(whole_day))
    except OverflowError:
        raise BadRequest(f"{text!r} is no time", hint="for example 2026-11-21, yesterday, 7d") from None
    return None


def _by_time(vault: Vault, asked: str, time: datetime) -> PastState:
    seconds = int(time.timestamp())
    found = ""
    if vault.head() is not None and seconds > 0:
        arguments = ["rev-list", "-1", "--first-parent", f"--min-age={seconds}", "HEAD"]
        found = vault.git.run(*arguments).decode().strip()
    if not found:
        raise NotFound(
            f"nothing was known at {asked}: {_beginning(vault)}", hint="`ormahctl history` lists the changes"
        )
    return _there(vault, asked, found, time)


def _by_name(vault: Vault, asked: str) -> PastState:
    commit = None if is_op(asked.lower()) else vault.git.resolve(f"{asked}^{{commit}}")
    if commit is None:
        try:
            commit = find_op(vault, asked).commit
        except (NotFound, BadRequest) as exc:
            raise NotFound(
                f"{asked!r} is no time, and no change, branch or tag of the vault",
                hint="write 2026-11-21, yesterday, 7d, or the id of a change from `ormahctl history`",
            ) from exc
    return _there(vault, asked, commit, None)


def _there(vault: Vault, asked: str, commit: str, time: datetime | None) -> PastState:
    """Return the past state at a commit. `asked`: what the caller asked for, for errors. `time`: the time that it
    means; None: it names a commit. Raises NotFound when the commit has no vault."""
    card = vault.git.resolve(f"{commit}:.ormah/vault.toml")
    if card is None and not vault.tree(commit):
        raise NotFound(
            f"the vault was not there yet at {asked}: {_beginning(vault)}", hint="name a later time or commit"
        )
    line = next(line for line in vault.git.read(commit, "commit").split(b"\n") if line.startswith(b"committer "))
    made = datetime.fromtimestamp(int(line.rsplit(b" ", 2)[1]), UTC)
    entry = next((entry for entry in vault.oplog.view().entries if entry.commit == commit), None)
    return PastState(commit, None if entry is None else entry.op, made, time or made)


def _beginning(vault: Vault) -> str:
    entries = vault.oplog.view().entries
    if not entries:
        return "the vault has no history yet"
    first = datetime.fromtimestamp(min(entry.time for entry in entries), UTC)
    return f"the vault's history begins at {readable(first)}"


def _named(asked: str) -> str:
    """Return a requested time as error messages show it: a word or a date as written, else to the minute in its own
    time zone."""
    try:
        return asked if len(asked) <= len("2026-11-21") else readable(datetime.fromisoformat(asked))
    except ValueError:
        return asked


def readable(time: datetime) -> str:
    """Return a time for people, to the minute: `2026-11-21 20:00 UTC`, `2026-11-21 21:00 +01:00`."""
    offset = f"{time:%z}"
    zone = f"{offset[:3]}:{offset[3:5]}" if time.utcoffset() else "UTC"
    return f"{time:%Y-%m-%d %H:%M} {zone}"


NAMED = 200
"""Largest number of paths for which git lists only the commits that changed them; for more, it lists the whole history.
"""


def made_by_person(vault: Vault, files: Iterable[tuple[str, str | None]]) -> set[str]:
    """Return the paths of those files that a person made. `files`: (path, id of the memory or None).

    A file with an id counts as a person's when the first op that names the id is a person's edit. If no op
    names it, the commit that first added the path decides: a person's edit or a commit made by hand. A file that was never committed is a person's too.
    """
    asked = {path: node for path, node in files if not path.startswith(".ormah/")}
    first = vault.oplog.view().came_by if any(node is not None for node in asked.values()) else {}
    told = {path: first[node] for path, node in asked.items() if node is not None and node in first}
    found = {path for path, kind in told.items() if kind is None or kind == Kind.EDIT}
    untold = [path for path in asked if path not in told]
    return found | _added_by_person(vault, untold)


def _added_by_person(vault: Vault, paths: list[str]) -> set[str]:
    """Return those of `paths` that a person's commit added first, or that were never in the history."""
    if not paths:
        return set()
    only = paths if len(paths) <= NAMED else []
    kinds: dict[str, str] = {}
    kind = ""
    arguments = ["--format=%x01%(trailers:key=Ormah-Kind,valueonly)", "--name-only", "--no-renames", "--diff-filter=A"]
    for record in vault.git.log(*arguments, "HEAD", "--", *only):
        for line in os.fsdecode(record).split("\n"):
            if line.startswith("\x01"):
                kind = line[1:].strip()
            elif line:
                kinds[line] = kind  # commits come newest first, so the oldest one wins
    return {path for path in paths if kinds.get(path, "") in {"", Kind.EDIT, *UNTOLD}}
