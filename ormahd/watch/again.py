"""Find files that need a new decision although they did not change, because the card or the history changed. Also
commits the vault's own data (the card and the `.jsonl` files in `.ormah/`) where it differs from HEAD.

An adoption that a person reverted with plain `git revert` is completed here, as `ormahctl undo` would do it.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ormahd.errors import Conflict, OrmahError, VaultBusy
from ormahd.git.process import GitFailed
from ormahd.model.change import Kind, finding, sha256
from ormahd.note.markdown import conflict_line
from ormahd.note.merge import is_lines, merge_file
from ormahd.vault.conversion import FilterFailed
from ormahd.vault.create import CARD, read_card
from ormahd.watch.decide import BUSY_S
from ormahd.watch.reading import read_stable
from ormahd.watch.scan import FileStat, WalkResult, seen

if TYPE_CHECKING:
    from ormahd.watch.round import Round
from collections.abc import Mapping

from ormahd.git.oplog import FOLLOWS, TAKEN, LogEntry, LogView
from ormahd.note.read import parse
from ormahd.vault import releasing, three_way
from ormahd.vault.history import read_ops
from ormahd.vault.releasing import Released
from ormahd.vault.three_way import changed, node_of
from ormahd.vault.vault import Vault
from ormahd.watch.decide import label, subject


def led_elsewhere(scan: Round, found: WalkResult) -> set[str]:
    """Return the paths of known notes whose content in HEAD has changed since the last scan, and add to `found.changed`
    those that the walk found unchanged.

    A person may have moved the branch without the files (`git reset --soft`, `--mixed`), or to a commit that lacks
    these notes. The stat of the files does not show that.
    """
    owner = scan.owner
    before, now = owner.position(), owner.walked
    if scan.paths is not None or before is None or before == now:
        return set()
    others = owner.look.differing(before, now)
    paths = {path for path in scan.known if others is None or path in others}
    found.changed.update(_seen(scan, filter(owner.identity.present, paths - found.changed.keys())))
    return paths


def decided_anew(scan: Round) -> None:
    """Decide again on files that have not changed, but may now get another decision.

    These are files whose release was recorded or cancelled, files that were staged and are now committed, files that
    git's filters can convert again, and those in `scan.again`. Files that have to wait are tried again by the next
    scan.
    """
    owner = scan.owner
    committed = owner.staged - owner.look.staged() if owner.staged else set()
    owner.staged -= committed
    owner.undecided |= _released_anew(scan) | committed | owner.given_back_by_git()
    paths = owner.undecided.union(scan.again).difference(scan.decided)
    scan.take(_seen(scan, filter(scan.owner.identity.present, paths)), forced=True)


def _released_anew(scan: Round) -> set[str]:
    """Return the files that were added to the list of released files, or removed from it, since the last call.

    Files that Ormah itself released are left out: the index has them as only indexed already.
    """
    owner = scan.owner
    changed = owner.released.take_changed()
    listed = owner.released.files() if changed else {}
    return {
        path
        for path in changed
        if path not in listed or ((row := scan.known.get(path)) is not None and row.lent is None)
    }


def copies_of_the_taken(scan: Round) -> None:
    """Decide again on unchanged files whose id this scan gave to another file: they now count as copies of it."""
    paths = scan.outdone.difference(scan.decided, scan.moved)
    scan.take(_seen(scan, filter(scan.owner.identity.present, paths)), forced=True)
    scan.feed()


def copies_of_the_vanished(scan: Round) -> None:
    """Decide again on copies of notes that lost their id or were deleted in this scan: a copy may now have the id."""
    again: dict[str, FileStat] = {}
    identity = scan.owner.identity
    maybe = {path for path in scan.known if path not in scan.tree}
    maybe.update(path for node_id in scan.vanished for path in identity.paths(node_id))
    for path in maybe.difference(scan.decided, scan.moved):
        if scan.owner.context.ours(path, None) and identity.present(path):
            with scan.guard.file(path):
                met = seen(path, (scan.vault.root / path).lstat())
                file = scan.owner.read(met, scan.tree)
                if file is not None and file.note.id in scan.vanished:
                    again[path] = met
    scan.take(again, forced=True)
    scan.feed()
    scan.commit_all()


def _seen(scan: Round, paths: Iterable[str]) -> dict[str, FileStat]:
    found: dict[str, FileStat] = {}
    for path in paths:
        with scan.guard.file(path):
            found[path] = seen(path, (scan.vault.root / path).lstat())
    return found


# ---------------------------------------------------------------- the vault's own data

DATA = ".ormah"
RACY_NS = 2_000_000_000
"""A file whose mtime is less than so many nanoseconds before the time of reading may change again and keep its mtime:
FAT has a resolution of 2 s. Such a file is read again. Git has the same rule."""
_PASSED_BY = frozenset({"intent", "tmp", "conflicts"})
"""Folders in `.ormah/` that only the daemon uses and that are not committed."""


class OwnData(Struct):
    """What the reconciler remembers between scans about the vault's own data: the card and the `.jsonl` files in
    `.ormah/`."""

    since: str | None = None
    """The last commit of which the folder had all own data; None: unknown. A later commit of Ormah's replaces it."""
    settled: dict[str, tuple[str, int, int, int]] = {}
    """{path of a file that is as in HEAD: (blob, size, mtime in ns, inode)}. Such a file is not read again."""
    said: dict[str, dict[str, Any]] = {}
    """{path: finding for `doctor`}."""
    waits: bool = False
    """Whether a file has to wait: it is not at rest yet, or another git is at work."""


class _Differs(Struct):
    path: str
    now: bytes | None
    """The bytes in the folder; None: the file was deleted."""
    blob: str | None
    """The blob in HEAD; None: HEAD has no such file."""


def bring_in_own_data(scan: Round) -> None:
    """Commit the card and the `.jsonl` files in `.ormah/` where the folder differs from HEAD.

    They differ if a person edited them, or moved the branch without the files (`git reset --mixed`). A `.jsonl` file
    then gets the lines of both sides (`merge_file`).
    """
    owner, vault, own = scan.owner, scan.vault, scan.owner.own
    head = owner.walked
    if head is None or scan.half_done or CARD not in scan.tree or not os.path.lexists(vault.root / CARD):
        return
    own.said, own.waits = {}, False
    differing = [one for path in sorted(_own_paths(scan)) for one in _differing(scan, path)]
    if not differing:
        own.since = own.since if own.waits else head
        return
    if scan.why_busy is not None:
        _later(scan, BUSY_S)
        return
    base = _base(scan, own.since, head)
    staged = owner.look.staged()
    changes: dict[str, tuple[_Differs, bytes]] = {}
    for one in differing:
        if one.path in staged:
            own.said[one.path] = finding(one.path, "info", "it is staged for a commit of yours",
                                         "commit it, or take it out of the index: git restore --staged")  # fmt: skip
        elif (data := _brought_together(scan, one, base.get(one.path))) is not None:
            changes[one.path] = one, data
    done = _commit_own_data(scan, changes) if changes else None
    if done is not None and len(changes) == len(differing) and not own.waits:
        own.since = done


def _later(scan: Round, seconds: float) -> None:
    """Schedule a full scan in `seconds`, because a scan of some paths does not examine the vault's own data."""
    scan.owner.own.waits = True
    scan.out.wait("", seconds)


def _own_paths(scan: Round) -> set[str]:
    """Return the paths of the card and of all `.jsonl` files in `.ormah/` that are in HEAD or in the folder."""
    found = {path for path in scan.tree if path == CARD or (path.startswith(f"{DATA}/") and is_lines(path))}
    top = os.path.join(scan.vault.root, DATA)
    with scan.guard.file(DATA):
        for name in os.listdir(top):
            if name.endswith(".jsonl"):
                found.add(f"{DATA}/{name}")
            elif name not in _PASSED_BY and stat.S_ISDIR(os.lstat(os.path.join(top, name)).st_mode):
                inside = os.listdir(os.path.join(top, name))
                found.update(f"{DATA}/{name}/{one}" for one in inside if one.endswith(".jsonl"))
    return found


def _differing(scan: Round, path: str) -> Iterator[_Differs]:
    """Yield one `_Differs` if the file differs from HEAD and is at rest; else nothing.

    If it is not at rest, a scan is scheduled. Things that are not regular files are ignored.
    """
    owner, own, blob = scan.owner, scan.owner.own, scan.tree.get(path)
    with scan.guard.file(path):
        try:
            met = seen(path, found := os.lstat(scan.vault.root / path))
        except FileNotFoundError:
            own.settled.pop(path, None)
            if blob is None or path == CARD or path in owner.look.sparse([path]):
                return
            if (seconds := owner.rest.missing_gone(path)) > 0:
                _later(scan, seconds)
            else:
                yield _Differs(path, None, blob)
            return
        if not stat.S_ISREG(found.st_mode):
            return
        mark = (blob or "", met.size, met.mtime_ns, met.inode)
        if own.settled.get(path) == mark:
            return
        own.settled.pop(path, None)
        data = read_stable(scan.vault.root, met)
        try:
            same = data is not None and scan.vault.conversion.stands(path, data, blob)
        except FilterFailed as exc:
            own.said[path] = finding(path, "warning", exc.message, exc.hint or "")
            return
        if data is None:
            _later(scan, owner.settings.quiet_seconds)
        elif same:
            if abs(time.time_ns() - met.mtime_ns) >= RACY_NS:
                own.settled[path] = mark
        elif not scan.vault.writes(path, data):
            if (seconds := owner.rest.missing(met)) > 0:
                _later(scan, seconds)
            else:
                yield _Differs(path, data, blob)


def _base(scan: Round, since: str | None, head: str) -> dict[str, str]:
    """Return `{path: blob id}` of the base for a merge of folder and HEAD: the merge base of the commits `since` and
    `head`."""
    if since is None or since == head:
        return scan.tree
    try:
        found = scan.vault.git.run("merge-base", since, head, ok=(0, 1)).decode().strip()
    except GitFailed:  # the commit does not exist any more: the history was rewritten
        return scan.tree
    return scan.tree if not found or found == head else scan.vault.tree(found)


def _brought_together(scan: Round, one: _Differs, base: str | None) -> bytes | None:
    """Return the new content of the file `one`, for both folder and history. `base`: the id of its blob in the merge
    base.

    None if a person has to act first; `doctor` then says so.
    """
    vault, own, path = scan.vault, scan.owner.own, one.path
    now = b"" if one.now is None else one.now
    mend = f"mend it, or have what is in the history: git -C {vault.root} restore {path}"
    try:
        if path == CARD:
            read_card(now, vault.root)
            return now
        if b"\0" in now or conflict_line(now.decode("utf-8", "strict")):
            own.said[path] = finding(
                path, "warning", "it has marks of a conflict, or is no text: it is not committed", mend
            )
            return None
        old = b"" if base is None else vault.blob(base, path)
        theirs = old if one.blob is None else vault.blob(one.blob, path)
        return merge_file(old, now, theirs, path, keep_ours=True).data
    except (UnicodeDecodeError, OrmahError) as exc:
        why = exc.message if isinstance(exc, OrmahError) else "it is no text"
        own.said[path] = finding(path, "warning", f"{why}: it is not committed", mend)
        return None


def _commit_own_data(scan: Round, changes: dict[str, tuple[_Differs, bytes]]) -> str | None:
    """Commit `{path: (difference, new content)}` and return the commit; None if the changes have to wait."""
    names = [path.removeprefix(f"{DATA}/") for path in changes]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    begins = any(one.blob is None for one, _ in changes.values())
    try:
        with scan.vault.transaction(
            f"Edit: {', '.join(names[:3])}{more}", kind=Kind.EDIT, source="person", person=True,
            first="Take in: empty files for lines" if begins else None,
            body="The folder had something else than the history: its lines and those of the history count together.",
        ) as tx:  # fmt: skip
            for path, (one, data) in changes.items():
                expect = None if one.now is None else sha256(one.now)
                tx.put(path, data, node_id=None, expect=expect, first=b"" if one.blob is None else None)
    except (Conflict, VaultBusy) as exc:  # another program writes, or wrote, them: the next scan decides again
        _later(scan, BUSY_S if isinstance(exc, VaultBusy) else scan.owner.settings.quiet_seconds)
        return None
    scan.out.edited += len(changes)
    return None if tx.committed is None else tx.committed.commit


class Reverted(Struct, frozen=True):
    """A file whose adoption a person reverted by hand.

    `data` and `node_id`: its bytes and id before the adoption. `held`: its content in the history before the adoption
    (None: it was not in the history). `by`: the reverting commit.
    """

    data: bytes
    node_id: str | None
    held: bytes | None
    by: str


class Reverts:
    """Finds the adoptions in one vault's history that a person reverted by hand (`git revert`), and releases their
    files."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._head: str | None = None
        self._files: Mapping[str, Reverted] = {}

    def files(self) -> Mapping[str, Reverted]:
        """Return `{path: Reverted}` of the files that are not released yet. Cached until HEAD changes."""
        view = self._vault.oplog.view()
        if view.head != self._head:
            self._files = self._read(view)
            self._head = view.head
        return self._files

    def _read(self, view: LogView) -> dict[str, Reverted]:
        by_hand = {entry.commit for entry in view.entries if entry.op is None}
        followed = {entry.follows for entry in view.entries}
        firsts = {op: commit for commit, op in view.firsts.items()}
        found: dict[str, Reverted] = {}
        for entry in reversed(view.entries):
            if entry.kind != Kind.ADOPT and entry.files != TAKEN:
                continue
            by = _by(view, entry, firsts)
            if by in by_hand and by not in followed:
                did = three_way.read(self._vault, read_ops(self._vault, view, [entry])[0])
                places = self._places(by)
                for key, held in did.held.items():
                    before, _ = did.pairs[key]
                    if before is not None:
                        found[places.get(key, before.path)] = Reverted(before.data, node_of(key), held, by)
        return found

    def _places(self, by: str) -> dict[str, str]:
        """Return `{key: path}` of the notes that the commit `by` changed, with the path in that commit.

        The key identifies the note, which may have moved since its adoption.
        """
        pairs = changed(self._vault, self._vault.git.resolve(f"{by}^1"), by)
        return {key: stood.path for key, (before, after) in pairs.items() if (stood := after or before) is not None}

    def follow(self, paths: list[str]) -> set[str]:
        """Release these files, with one commit per reverting commit. Return those that were released.

        If a file changes meanwhile, or another git is at work, no file of the same reverting commit is released.
        """
        files = self.files()
        done: set[str] = set()
        for by in dict.fromkeys(files[path].by for path in paths):
            some = {path: files[path] for path in paths if files[path].by == by}
            if self._leave(by, some):
                done.update(some)
        return done

    def _leave(self, by: str, files: Mapping[str, Reverted]) -> bool:
        vault = self._vault
        now = {path: vault.read(path) for path in files}
        names = [label(parse(one.data, path)) for path, one in files.items()]
        body = f"Their adoption was reverted by hand ({by[:12]}). The files stay in the folder, without Ormah's lines."
        tx = vault.transaction(
            subject("Release", names), kind=Kind.UNDO, source="person", person=True, body=body,
            trailers=[three_way.LEFT_OUT, (FOLLOWS, by)],
        )  # fmt: skip
        listed = vault.read(releasing.PATH)
        lines = []
        try:
            with tx:
                for path, one in files.items():
                    there = now[path]
                    data = one.data if there is None else there
                    expect = None if there is None else sha256(there)
                    tx.leave(path, data, node_id=one.node_id, expect=expect, held=one.held)
                    lines.append(Released(path, sha256(data), one.node_id))
                new = releasing.with_files(listed or b"", lines)
                tx.put(releasing.PATH, new, node_id=None, expect=None if listed is None else sha256(listed))
        except (Conflict, VaultBusy):
            return False
        return tx.committed is not None


def _by(view: LogView, entry: LogEntry, firsts: Mapping[str, str]) -> str | None:
    """Return the op or commit that undid the op of `entry`, or that undid the commit before the op's main commit;
    None if nothing did. `firsts`: {op: commit before its main commit}."""
    by = view.undone_by(entry)
    if by is None and entry.op is not None and entry.op in firsts:
        by = view.taken_back.get(firsts[entry.op])
    return by
