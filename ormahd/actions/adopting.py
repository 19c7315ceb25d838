"""Adopt a person's notes on request, and release files from Ormah again.

Notes to adopt are named by path, folder or pattern. The report says what would be written, and what is left out and
why. A release removes Ormah's lines from files, a folder, or the whole vault, and keeps everything the person wrote.
"""

from __future__ import annotations

import fnmatch
import itertools
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from difflib import ndiff
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ormahd.actions.amend import UNASKED
from ormahd.actions.views import saying
from ormahd.api import AdoptParams, AdoptResult, KeptChoice, LeftOut, PlannedAdoption, SpaceChange
from ormahd.errors import BadRequest, NotFound, Unconfirmed
from ormahd.model.change import Kind, sha256
from ormahd.model.node import MAX_SPACE
from ormahd.note.values import NoteKind
from ormahd.process import priority
from ormahd.vault import releasing as released
from ormahd.vault.choices import Choices, agreed
from ormahd.vault.create import CARD, Adopt, Folder, with_choices
from ormahd.vault.excluded import is_note_name
from ormahd.watch.decide import FileAction, decide
from ormahd.watch.scan import FileStat, walk

if TYPE_CHECKING:
    from ormahd.ormah import Ormah
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ormahd.api import ReleaseParams, ReleaseResult
from ormahd.note.read import parse
from ormahd.paths import released_marker
from ormahd.process.disk import write_durably
from ormahd.vault import merge_driver, releasing
from ormahd.vault.create import read_card, write_card
from ormahd.vault.history import made_by_person
from ormahd.vault.releasing import PATH, Released, with_files
from ormahd.vault.three_way import LEFT_OUT
from ormahd.vault.worktree import safe_path
from ormahd.watch.decide import label, subject

if TYPE_CHECKING:
    from ormahd.actions.amend import Caller
    from ormahd.ormah import Ormah
    from ormahd.vault.releasing import Release


_WILD = re.compile(r"[*?[]")
"""Matches a wildcard in a pattern for paths."""
SETTLES_S = 10.0
"""Maximum number of seconds that an adoption waits for recently saved files."""
AS_IT_IS: Final = "nothing is written into it, and git keeps it as it is"


def adopt(
    ormah: Ormah, wish: AdoptParams, progress: Callable[[int, int, str], None] = lambda _done, _total, _stage: None
) -> AdoptResult:
    """Adopt the notes that `wish` names. With `wish.dry_run` only return what would be done.

    Raises:
        BadRequest: `wish` names nothing, a folder that is Ormah's own, or a space without a folder or without a name.
        NotFound: a file or folder does not exist.
        Unconfirmed: more than a few of the person's files would be written, and `wish.yes` is not set.
    """
    paths, folders = _named(ormah, wish)
    if not (paths or folders or wish.patterns or wish.everything):
        raise BadRequest("nothing to adopt was named", hint="give files or folders, --pattern GLOB, or --all")
    if wish.space is not None:
        if not folders or paths or wish.patterns or wish.everything:
            raise BadRequest(
                "a space belongs to a folder",
                hint="name the folder: ormahctl vault adopt --folder Projects --space NAME",
            )
        wish = replace(wish, space=_space(wish.space))
    if wish.index and (paths or wish.patterns):
        raise BadRequest("--index is said of folders, or with --all", hint="name the folder: --folder Projects --index")
    found = walk(ormah.vault.root, {}, ormah.reconciler.excluded)
    earlier = _earlier(ormah)
    met = {path for path in (*found.changed, *(path for path, _ in found.skipped))
           if _is_chosen(path, paths, folders, wish)}  # fmt: skip
    keeps = {path: folder for path in met - {*paths} if (folder := _keeps(path, folders, wish, earlier)) is not None}
    chosen = {path: file for path, file in found.changed.items() if path in met and path not in keeps}
    plan = _plan(ormah, chosen, folders, wish, progress)
    plan.kept = [KeptChoice(folder, earlier[folder]) for folder in sorted({*keeps.values()})]
    plan.left_out += [LeftOut(path, why) for path, why in found.skipped if path in met and path not in keeps]
    plan.left_out += [LeftOut(path, _why_not(ormah, path)) for path in paths if path not in found.changed]
    plan.left_out.sort(key=lambda one: one.path)
    plan.people = _people(plan)
    plan.spaces = _moves(ormah, wish, folders, [*chosen, *keeps], plan)
    plan.folders = sorted(folders) if not wish.everything else [""]
    if not wish.dry_run:
        if plan.people > UNASKED and not wish.yes:
            raise Unconfirmed(
                f"the adoption would write to {plan.people} files that you made; nothing was changed",
                hint="--dry-run lists them; if that is meant, say --yes",
                data={"count": plan.people},
            )
        _carry_out(ormah, wish, folders, chosen, plan)
        if wish.space is not None and keeps:
            ormah.reconciler.take_again({*keeps}, wanted=False)  # the space is also that of notes that are only indexed
    return plan


def _named(ormah: Ormah, wish: AdoptParams) -> tuple[list[str], list[str]]:
    """Return (files, folders) that `wish` names, as paths relative to the vault."""
    paths: list[str] = []
    folders = [_inside(ormah, folder) for folder in wish.folders]
    for given in wish.paths:
        path = _inside(ormah, given)
        place = ormah.vault.root / path
        (folders if os.path.isdir(place) and not os.path.islink(place) else paths).append(path)
    for folder in folders:
        if not os.path.isdir(ormah.vault.root / folder):  # unlike pathlib it takes a name of any length
            raise NotFound(
                f"there is no folder {folder!r} in the vault",
                hint="paths are relative to the vault",
                data={"path": folder},
            )
        _refuse_own(ormah, wish, folder)
    return paths, folders


def _inside(ormah: Ormah, given: str) -> str:
    root = str(ormah.vault.root)
    path = given[len(root) + 1 :] if f"{given}/".startswith(root + "/") else given
    parts = [part for part in path.split("/") if part not in {"", "."}]
    if path.startswith("/") or ".." in parts or not given:
        raise BadRequest(f"{given!r} is no file or folder of the vault", hint=f"the vault is {root}")
    if not parts:
        raise BadRequest(f"{given!r} is the whole vault", hint="to adopt all of its notes: ormahctl vault adopt --all")
    return "/".join(parts)


def _refuse_own(ormah: Ormah, wish: AdoptParams, folder: str) -> None:
    """Raise BadRequest if the folder cannot be adopted: it is Ormah's own, or it is never read."""
    home = ormah.vault.home
    hint = "name a folder with notes of yours, or --all for the whole vault"
    if folder.partition("/")[0] == ".ormah":
        raise BadRequest(f"{folder!r} holds Ormah's own data, and no notes", hint=hint)
    if ormah.reconciler.excluded.by_name(f"{folder}/note.md") == "dot folder":
        raise BadRequest(f"{folder!r} is a dot folder, whose notes are never read", hint=hint)
    # A folder of that name that the person had before has a choice on the card from the beginning.
    if home and folder == home and home not in ormah.vault.folders:
        raise BadRequest(f"{folder!r} is Ormah's own folder: the notes in it are memories already", hint=hint)
    if home and wish.space is not None and f"{folder}/".startswith(f"{home}/"):
        raise BadRequest(
            f"{folder!r} lies in Ormah's own folder, where each note names its space itself",
            hint="to move one memory: ormahctl update ID --space NAME",
        )


def _space(given: str) -> str:
    """Return `given` with normalised whitespace. Raises BadRequest if it cannot be the name of a space."""
    name = " ".join(given.split())
    if not name:
        raise BadRequest("the space is empty", hint="name a space, or leave --space out: the folder's space stays")
    if name in {".", ".."} or name.casefold() == "global" or len(name) > MAX_SPACE:
        raise BadRequest(
            f"{name[:MAX_SPACE]!r} is no space",
            hint=f"name a space with at most {MAX_SPACE} characters; a note without one is global",
        )
    return name


def _is_chosen(path: str, paths: Collection[str], folders: Collection[str], wish: AdoptParams) -> bool:
    if wish.everything or path in paths:
        return True
    if any(path.startswith(folder + "/") for folder in folders):
        return True
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in wish.patterns)


def _follows(path: str, folders: Collection[str], wish: AdoptParams) -> bool:
    """Whether `wish` decides how the file at `path` is treated from now on: it names the file's folder or the whole
    vault, not just the file's path or a pattern."""
    return wish.everything or _is_chosen(path, (), folders, AdoptParams())


def _earlier(ormah: Ormah) -> dict[str, Adopt]:
    """Return folder -> adoption mode in effect on this machine, for the folders for which a mode was chosen
    before."""
    here = agreed(ormah.vault).folders
    found = {path: folder.adopt for path, folder in ormah.vault.folders.items() if folder.adopt is not None}
    # Another machine may have chosen to adopt what is only indexed here.
    return {path: (here.get(path, Folder()).adopt or mode) if mode == "all" else mode for path, mode in found.items()}


def _keeps(path: str, folders: Collection[str], wish: AdoptParams, earlier: Mapping[str, Adopt]) -> str | None:
    """Return the folder whose earlier choice (in `earlier`) takes precedence over `wish` for the file at `path`.

    It is nearer to the file than the folders that `wish` names, and its mode is another one. None: `wish` applies.
    """
    fixed = (_WILD.split(pattern, maxsplit=1)[0] for pattern in wish.patterns)
    named = {*folders, *(beginning.rpartition("/")[0] for beginning in fixed)} - {""}
    while (path := path.rpartition("/")[0]) and path not in named:
        if path in earlier:
            return path if earlier[path] != _mode(wish) else None
    return None


def _plan(
    ormah: Ormah, chosen: Mapping[str, FileStat], folders: Collection[str], wish: AdoptParams,
    progress: Callable[[int, int, str], None],
) -> AdoptResult:  # fmt: skip
    """Return what adopting would do with each of the `chosen` files (path -> file status). The reconciler's own rules
    decide, as they do in a scan that may adopt these files."""
    plan = AdoptResult([], [], 0, 0, [], False, [])
    reconciler = ormah.reconciler
    kinds, known = ormah.index.kinds(), ormah.index.known()
    with reconciler.looking():
        tree = reconciler.look.tree(reconciler.head)
        context = replace(reconciler.context, wanted=set(chosen), released=lambda _path, _data: False)
        for count, (path, met) in enumerate(priority.giving(sorted(chosen.items()))):
            progress(count + 1, len(chosen), "reading")
            if kinds.get(path) == NoteKind.NOTE:
                plan.already += 1
                continue
            try:
                file = reconciler.read(met, tree)
            except OSError as exc:
                plan.left_out.append(LeftOut(path, f"cannot be read: {exc.strerror}"))
                continue
            if file is None:
                continue
            file.lent = known[path].lent if path in known else None
            decision = decide(file, context)
            if wish.index:
                plan.adopt.append(PlannedAdoption(path, []))
            elif decision.act is FileAction.ADOPT:
                plan.adopt.append(PlannedAdoption(path, _added(file.data, decision.data)))
            elif decision.node_id is not None and decision.act in {FileAction.EDIT, FileAction.INDEX}:
                plan.adopt.append(PlannedAdoption(path, []))
            else:
                why = (
                    decision.problems[0]["what"]
                    if decision.problems
                    else "it is empty"
                    if not file.data.strip()
                    else "it is no note"
                )
                # A damaged note cannot be given an id. Where all is adopted, git keeps it as the person wrote it.
                kept = decision.act is FileAction.EDIT and _follows(path, folders, wish)
                plan.left_out.append(LeftOut(path, f"{why}; {AS_IT_IS}" if kept else why, committed=kept))
    return plan


def _moves(
    ormah: Ormah, wish: AdoptParams, folders: Sequence[str], paths: Collection[str], plan: AdoptResult
) -> list[SpaceChange]:
    """Return how the spaces of the notes at `paths` change if `wish` gives their folders a space: the number of
    notes for each pair of old and new space. Notes that name a space themselves keep it."""
    if wish.space is None:
        return []
    now = ormah.reconciler.context
    then = replace(now, folders={**now.folders, **{folder: Folder(_mode(wish), wish.space) for folder in folders}})
    kinds, planned = ormah.index.kinds(), {one.path for one in plan.adopt}
    moved: Counter[tuple[str | None, str | None]] = Counter()
    for path in priority.giving(sorted(paths)):
        change = now.space_at(path), then.space_at(path)
        if change[0] == change[1] or not (path in planned or kinds.get(path) in {NoteKind.NOTE, NoteKind.INDEXED}):
            continue
        with suppress(OSError):  # a scan names what cannot be read
            note = parse(ormah.vault.read(path) or b"", path)
            if note.space is None and not note.everywhere:
                moved[change] += 1
    return [SpaceChange(*change, notes) for change, notes in sorted(moved.items(), key=lambda one: one[0][0] or "")]


def _added(before: bytes, after: bytes) -> list[str]:
    """Return the lines that an adoption adds to a file."""
    size = len(after) - len(before)
    head = [data[: 5_000 + size].decode("utf-8", "replace").splitlines() for data in (before, after)]
    return [line[2:] for line in ndiff(head[0][:40], head[1][: 40 + 8]) if line.startswith("+ ")][:8]


def _why_not(ormah: Ormah, path: str) -> str:
    file = ormah.vault.root / path
    if os.path.islink(file):
        return "it is a link"
    if not os.path.exists(file):
        raise NotFound(
            f"there is no file {path!r} in the vault", hint="paths are relative to the vault", data={"path": path}
        )
    if not file.is_file():
        return "it is no regular file"
    if not is_note_name(file.name):
        return "it is no markdown file"
    return {"templates": "it is a template", "dot folder": "it lies in a dot folder"}.get(
        ormah.reconciler.excluded.by_name(path) or "", "git ignores it")  # fmt: skip


def _carry_out(
    ormah: Ormah, wish: AdoptParams, folders: Sequence[str], chosen: Mapping[str, FileStat], plan: AdoptResult
) -> None:
    """Record the adoption mode that `wish` chooses, let the reconciler adopt the `chosen` notes, and complete `plan`
    with what was done.

    Raises VaultBusy: another git operation is under way; nothing was changed.
    """
    ormah.vault.wait_for_git()
    before = ormah.vault.head()
    run = ormah.new_run()
    redo = {one.path for one in plan.adopt} | {one.path for one in plan.left_out if one.committed}
    if folders and (wish.space is not None or wish.index):
        redo |= set(chosen)  # also notes that are memories already: their space may change
    with (
        saying(
            lambda: (
                "the choice stands, and notes may be adopted already: ormahctl history"
                if ormah.vault.head() != before
                else ""
            )
        ),
        # From the choice on, a scan of the watcher may adopt the files before this request does.
        ormah.reconciler.asked_for(redo, run),
    ):
        _choose(ormah, wish, folders, chosen, run)
        end = time.monotonic() + SETTLES_S
        while redo:
            redo = ormah.reconciler.take_again(redo, wanted=not wish.index)
            if not redo or time.monotonic() > end:
                break
            time.sleep(0.1)
    since = itertools.takewhile(lambda entry: entry.commit != before, ormah.vault.oplog.view().entries)
    entries = [entry for entry in since if entry.run == run and not entry.first]
    ops = [entry.op for entry in entries if entry.nodes]
    plan.op = ops[0] if len(ops) == 1 else None
    plan.run = run if len(entries) > 1 or (entries and not ops) else None
    _tell_apart(ormah, wish, folders, plan, redo)
    plan.done = True


def _tell_apart(
    ormah: Ormah, wish: AdoptParams, folders: Sequence[str], plan: AdoptResult, redo: Collection[str]
) -> None:
    """Divide the notes in `plan` into those adopted now, those that a later scan will adopt by itself
    (`plan.waiting`), and those left out. `redo`: paths that the reconciler has not taken in yet."""
    if wish.index:
        plan.waiting = sorted(redo)
        return
    kinds = ormah.index.kinds()
    missed = [one for one in plan.adopt if kinds.get(one.path) != NoteKind.NOTE]
    plan.adopt = [one for one in plan.adopt if kinds.get(one.path) == NoteKind.NOTE]
    follows = {one.path for one in missed if _follows(one.path, folders, wish)}
    why = ormah.vault.busy()
    said = "it is being written to" if why is None else f"git is held: {why}"
    plan.waiting = sorted(follows)
    plan.left_out += [LeftOut(one.path, f"{said}; repeat the command in a moment")
                      for one in missed if one.path not in follows]  # fmt: skip
    plan.left_out.sort(key=lambda one: one.path)
    plan.people = _people(plan)


def _people(plan: AdoptResult) -> int:
    """Return the number of files of the person that would be written."""
    return sum(1 for one in plan.adopt if one.lines)


def _mode(wish: AdoptParams) -> Adopt:
    return "index" if wish.index else "all"


def _choose(ormah: Ormah, wish: AdoptParams, folders: Sequence[str], chosen: Collection[str], run: str) -> None:
    """Commit the adoption mode that `wish` chooses: write it to the vault's card, and remove the `chosen` files from
    the list of released files."""
    vault = ormah.vault
    with ormah.writing:
        card = vault.read(CARD) or b""
        said = dict(vault.folders)
        for folder in folders:
            before = said.get(folder, Folder())
            said[folder] = Folder(_mode(wish), wish.space if wish.space is not None else before.space)
        new = with_choices(card, said, _mode(wish) if wish.everything else None)
        held = vault.read(released.PATH)
        left = None if held is None or wish.index else released.without_files(held, set(chosen))
        if new == card and left == held:
            ormah.reconciler.renew_choices(_here(ormah, wish, folders))
            return
        what = (
            "all notes"
            if wish.everything
            else ", ".join(f"{folder}/" for folder in folders) or "notes that were released"
        )
        subject = f"Choose what becomes of {what}"
        with vault.transaction(subject, kind=Kind.ADOPT, source="person", person=True, run=run, queue=False) as tx:
            if new != card:
                tx.put(CARD, new, node_id=None, expect=sha256(card))
            if left is not None and left != held and held is not None:
                tx.put(released.PATH, left, node_id=None, expect=sha256(held))
    vault.choose()
    ormah.reconciler.renew_choices(_here(ormah, wish, folders))


def _here(ormah: Ormah, wish: AdoptParams, folders: Sequence[str]) -> Choices:
    """Return this machine's adoption choices as they are once those of `wish` are added."""
    before = agreed(ormah.vault)
    said = {folder: Folder(_mode(wish)) for folder in folders}
    if not wish.everything:
        return Choices(before.home, before.mode, {**before.folders, **said})
    kept = {path: folder for path, folder in before.folders.items() if path in ormah.vault.folders}
    return Choices(ormah.vault.home, _mode(wish), {**kept, **said})


AT_ONCE = 500
"""Maximum number of files that one op releases."""
DATA = ".ormah/"


def release(
    ormah: Ormah, params: ReleaseParams, caller: Caller, progress: Callable[[int, int, str], None]
) -> ReleaseResult:
    """Release the person's files at or below `params.paths`. With `params.everything` release all files, and adopt
    nothing in this vault any more.

    `params.remove_data`: also remove `.ormah` and Ormah's settings in git's files. The folder is then no vault any
    more.

    Raises:
        BadRequest: no path, or paths and `everything`. NotFound: Ormah has changed nothing at these paths. Conflict:
        a file is being edited.
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
    files = releasing.plan(ormah.vault, None if everything else [_released_path(ormah, path) for path in chosen])
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
            _release(ormah, files, caller, out, progress, everything=everything)
            if params.remove_data:
                _remove(ormah, caller, out)
    return out


def _released_path(ormah: Ormah, path: str) -> str:
    """Return `path`, which is absolute or relative to the vault's root, as a path relative to the vault's root."""
    root = ormah.vault.root
    given = Path(path)
    inside = (
        given.relative_to(root).as_posix() if given.is_absolute() and given.is_relative_to(root) else given.as_posix()
    )
    return safe_path(inside.rstrip("/"))


def _release(
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
    """Remove Ormah's own files from the vault's folder, and Ormah's lines from git's settings. Afterwards the daemon
    writes nothing in the folder any more, and creates no vault there."""
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
    """Return sentences on what of Ormah's remains in the vault once `files` are released: notes, commits, data."""
    vault = ormah.vault
    going = {one.path for one in files}
    theirs = made_by_person(vault, [(path, None) for path in vault.tree() if path not in going])
    ours = [path for path in vault.tree() if path[-3:].lower() == ".md" and path not in going and path not in theirs]
    where = f"{vault.home}/" if vault.home else "the folder"
    found = (
        [f"memories that Ormah wrote, below {where}: {len(ours)}; delete the files if you do not want them"]
        if ours
        else []
    )
    ops = sum(entry.op is not None for entry in vault.oplog.view().entries)
    found.append(f"commits of Ormah's in the history of {vault.git.top}: {ops:,}; they change nothing in the folder")
    if not remove_data:
        found.append(".ormah/ and Ormah's lines in git's settings: ormahctl vault release --all --remove-data")
    return found
