"""Release a folder, or some files, from Ormah: its lines are removed, and the person's files stay as they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ormahd.actions.partly import saying
from ormahd.api import ReleaseParams, ReleaseResult
from ormahd.errors import BadRequest, NotFound
from ormahd.model.change import Kind, sha256
from ormahd.note.note import parse
from ormahd.paths import released_marker
from ormahd.process.disk import write_durably
from ormahd.vault import merge_driver, releasing
from ormahd.vault.create import CARD, read_card, write_card
from ormahd.vault.custody import LEFT_OUT
from ormahd.vault.origin import made_by_person
from ormahd.vault.released import PATH, Released, with_files
from ormahd.vault.worktree import safe_path
from ormahd.watch.decide import label, subject

if TYPE_CHECKING:
    from ormahd.actions.caller import Caller
    from ormahd.ormah import Ormah
    from ormahd.vault.releasing import Release

AT_ONCE = 500
"""Number of files in one op."""
DATA = ".ormah/"


def release(
    ormah: Ormah, params: ReleaseParams, caller: Caller, progress: Callable[[int, int, str], None]
) -> ReleaseResult:
    """Release the person's files at or below the chosen `paths`, or `everything`: then nothing is adopted in this
    folder any more.

    `remove_data`: also remove `.ormah` and Ormah's settings in git's files; the folder is no vault then.

    Raises:
        BadRequest: no path, or paths and `everything`. NotFound: Ormah has changed nothing there. Conflict: a file is being
        edited.
    """
    chosen, everything, dry_run = params.paths, params.everything, params.dry_run
    if everything == bool(chosen):
        raise BadRequest("name files or folders, or everything", hint="ormahctl vault release PATH…, or --all")
    if params.remove_data and not everything:
        raise BadRequest("the data of Ormah goes only when everything is released", hint="give --all too")
    progress(0, 0, "looking at the history")
    ormah.vault.wait_for_git()
    if not dry_run:
        ormah.reconciler.scan()
    files = releasing.plan(ormah.vault, None if everything else [_inside(ormah, path) for path in chosen])
    if not files and not everything:
        raise NotFound(
            f"there is nothing of Ormah's in {', '.join(chosen)}", hint="`ormahctl history` says what was done"
        )
    out = ReleaseResult(
        dry_run, [one.path for one in files], [f"{one.path}: {why}" for one in files for why in one.kept],
        [], [], [], None, False,
    )  # fmt: skip
    out.stays = _stays(ormah, files, params.remove_data) if everything else []
    if not dry_run:
        before = lambda: "some of the files were released before that; repeat the command" if out.ops else ""  # noqa: E731
        with ormah.writing, saying(before):
            _carry_out(ormah, files, caller, out, progress, everything=everything)
            if params.remove_data:
                _remove(ormah, caller, out)
    return out


def _inside(ormah: Ormah, path: str) -> str:
    """Return a path relative to the vault's root; absolute paths are converted."""
    root = ormah.vault.root
    given = Path(path)
    inside = (
        given.relative_to(root).as_posix() if given.is_absolute() and given.is_relative_to(root) else given.as_posix()
    )
    return safe_path(inside.rstrip("/"))


def _carry_out(
    ormah: Ormah, files: Sequence[Release], caller: Caller, out: ReleaseResult, progress: Callable[[int, int, str], None], *,
    everything: bool,
) -> None:  # fmt: skip
    vault = ormah.vault
    out.run = ormah.new_run()
    card = vault.read(CARD)
    for at in range(0, max(len(files), 1), AT_ONCE):
        some = files[at : at + AT_ONCE]
        last = at + AT_ONCE >= len(files)
        progress(at, len(files), "releasing")
        names = [label(parse(one.wanted, one.path)) for one in some]
        words = subject("Release", names) if names else "Release the folder"
        tx = vault.transaction(
            words, kind=Kind.RELEASE, source=caller.source, person=True, run=out.run, queue=False, trailers=[LEFT_OUT],
            first=subject("Take Ormah's lines out", names) if names else None,
            body="The files stay in the folder, without Ormah's lines, and are not adopted again.",
        )  # fmt: skip
        with tx:
            for one in some:
                tx.leave(
                    one.path, one.wanted, node_id=one.node_id, expect=sha256(one.now), held=one.held, first=one.wanted
                )
            listed = vault.read(PATH)
            lines = with_files(listed or b"", [Released(one.path, sha256(one.wanted), one.node_id) for one in some])
            if some:
                tx.put(PATH, lines, node_id=None, expect=None if listed is None else sha256(listed))
            if everything and last and card is not None:
                closed = write_card(replace(read_card(card, vault.root), released=True, folders={}))
                tx.put(CARD, closed, node_id=None, expect=sha256(card))
        if tx.committed is not None:
            out.ops.append(tx.op)
    if everything and card is not None:
        vault.become(read_card(vault.read(CARD) or card, vault.root))
        ormah.reconciler.renew()


def _remove(ormah: Ormah, caller: Caller, out: ReleaseResult) -> None:
    """Remove Ormah's own files from the folder, and its lines from git's settings. Nothing may be written in the
    folder afterwards."""
    vault = ormah.vault
    marker = released_marker(vault.root)
    marker.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_durably(marker, os.fsencode(vault.root) + b"\n")  # first: no daemon may create a new vault here later
    going = {path: vault.read(path) for path in vault.tree() if path.startswith(DATA)}
    rules = merge_driver.without_ours(vault)
    with vault.transaction(
        "Release: remove Ormah's data from the folder", kind=Kind.RELEASE, source=caller.source, person=True,
        run=out.run, queue=False,
    ) as tx:  # fmt: skip
        for path, now in going.items():
            tx.remove(path, node_id=None, expect=None if now is None else sha256(now))
        for path, (now, then) in rules.items():
            if then:
                tx.put(path, then, node_id=None, expect=sha256(now))
            else:
                tx.remove(path, node_id=None, expect=sha256(now))
    out.ops.append(tx.op)
    out.removed = [DATA, *rules, *merge_driver.remove(vault)]
    out.stopped = vault.gone = True


def _stays(ormah: Ormah, files: Sequence[Release], remove_data: bool) -> list[str]:
    """Return a sentence for each thing of Ormah that remains, with the way to remove it."""
    vault = ormah.vault
    going = {one.path for one in files}
    theirs = made_by_person(vault, [(path, None) for path in vault.tree() if path not in going])
    ours = [path for path in vault.tree() if path[-3:].lower() == ".md" and path not in going and path not in theirs]
    where = f"{vault.home}/" if vault.home else "the folder"
    found = (
        [f"{len(ours)} memories that Ormah wrote, below {where}: delete the files if you do not want them"]
        if ours
        else []
    )
    ops = sum(entry.op is not None for entry in vault.oplog.view().entries)
    found.append(f"{ops:,} commits of Ormah's in the history of {vault.git.top}; they change nothing in the folder")
    if not remove_data:
        found.append(".ormah/ and Ormah's lines in git's settings: ormahctl vault release --all --remove-data")
    return found
