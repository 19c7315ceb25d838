"""Administration: counts, index checks, the findings of the doctor and of `config check`, and repairs."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from ormahd import paths
from ormahd.actions.views import iso
from ormahd.api import DayStats, Finding, RebuildResult, StatsResult, VerifyResult, WhisperStats
from ormahd.config import Config, load
from ormahd.errors import NoRoom, OrmahError
from ormahd.model.change import Kind
from ormahd.model.judgement import FOLDER
from ormahd.note.edit import edit
from ormahd.note.read import digest, parse
from ormahd.note.values import NoteKind
from ormahd.ormah import Ormah
from ormahd.process import own_files
from ormahd.state import whispers
from ormahd.vault import conflicts, merge_driver

WORST_FIRST = {"error": 0, "warning": 1, "info": 2}
Progress = Callable[[int, int, str], None]


def stats(ormah: Ormah, *, days: int = 0, tags: int = 0) -> StatsResult:
    """Count the memories (by tier, type and space), the edges (by type), the whispers, and the feedback on whispers.
    Also the last `days` days one by one, and the `tags` most used tags."""
    lacking, counted = ormah.lacking(), ormah.index.stats(tags)
    return StatsResult(
        counted.nodes, counted.by_tier, counted.by_type, counted.by_space, counted.edges, counted.by_edge,
        counted.plain, _whispers(ormah), lacking, counted.by_tag, _daily(ormah, days),
    )  # fmt: skip


def _daily(ormah: Ormah, days: int) -> list[DayStats]:
    now = ormah.clock().astimezone()
    names = [(now - timedelta(days=back)).date().isoformat() for back in reversed(range(days))]
    since = now - timedelta(days=days + 1)
    made, logged = (ormah.index.made(since), whispers.daily(ormah.state, since)) if days else ({}, {})
    return [DayStats(name, *logged.get(name, (0, 0)), made.get(name, 0)) for name in names]


def _whispers(ormah: Ormah) -> WhisperStats:
    logged, judgements = whispers.figures(ormah.state), ormah.judgements
    (useful, useless), (asked, answered) = judgements.counts, whispers.counts(ormah.state)
    return WhisperStats(
        iso(logged.since), logged.prompts, logged.spoken, logged.silent, logged.median_ms, useful, useless,
        len(judgements.idle), asked, answered,
    )  # fmt: skip


def verify(ormah: Ormah, progress: Progress) -> VerifyResult:
    """Compare the index with the vault."""
    found = ormah.verify(progress)
    return VerifyResult(not found, found)


def rss_mb() -> float:
    """Return the resident memory of this process in MB; its peak if the system does not report the present value."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return round(int(line.split()[1]) / 1024, 1)
    except OSError:
        pass
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / 1_048_576, 1)


def rebuild(ormah: Ormah, progress: Progress) -> RebuildResult:
    """Rebuild the index from the vault. Embeddings of unchanged texts are kept."""
    begun = time.monotonic()
    count = ormah.rebuild(progress)
    return RebuildResult("rebuilt", count, round(time.monotonic() - begun, 3))


def doctor(ormah: Ormah, progress: Progress = lambda *_: None) -> list[Finding]:
    """Return a finding for each problem that needs a person's attention, worst first: in files, index, git and
    models."""
    if (said := ormah.vault.git_says()) is not None:
        what = f"git cannot read the vault's repository: {said}"
        mend = "`git fsck` in the vault says more; mend it, or bring .git back from a backup or a clone"
        return [Finding("error", what, mend=mend)]
    # verifying reads every file, so the scan's findings are fresh afterwards
    differences, full = [], []
    try:
        differences = ormah.verify(progress) if ormah.phase == "ready" else []
    except NoRoom as exc:
        full = [Finding("error", exc.message, mend="make room; everything goes on by itself then")]
    read = ormah.phase == "ready" and not any(one.what == "damaged" for one in differences)
    found = [Finding(**problem) for problem in ormah.reconciler.problems(fresh=not read)]
    found += [*full, *current_findings(ormah.config), *(Finding("warning", text) for text in ormah.warnings)]
    found += [Finding("error", what, mend="make room; everything goes on by itself then") for what in ormah.troubles()]
    writable = "make it writable for the user that runs the daemon; it goes on by itself then"
    found += [Finding("error", what, mend=writable) for what in ormah.vault.unwritable()]
    found += [_aside(path) for path in [own_files.aside(ormah.state.path)] if path.exists()]
    found += [Finding(**problem) for problem in merge_driver.findings(ormah.vault)]
    if ormah.syncing.trouble and not ormah.syncing.offline_since:
        what = f"the last sync failed: {ormah.syncing.trouble}"
        found.append(Finding("warning", what, mend="mend that, then: ormahctl sync"))
    found += _set_aside(ormah.vault.root)
    found += _judgements(ormah)
    if (lock := ormah.vault.standing_lock()) is not None:
        found.append(_standing(lock, ormah.clock()))
    elif busy := ormah.vault.busy():
        found.append(Finding("warning", f"git is held: {busy}", mend="finish it (git status); writes wait until then"))
    if why := ormah.polling():
        what = f"the vault's folder is not watched but scanned every two seconds: {why}"
        mend = "on Linux, raise fs.inotify.max_user_watches or max_user_instances (sysctl)"
        found.append(Finding("warning", what, mend=mend))
    found += [
        Finding("warning", f"degraded: {part}", mend=_MENDS.get(part, "look into the log (ormahctl logs)"))
        for part in ormah.degraded()
    ]
    for one in differences:
        what = f"the index differs from the vault ({one.what}): {one.detail}"
        found.append(Finding("error", what, one.path, mend="ormahctl rebuild"))
    return sorted(found, key=worst_first)


def _standing(lock: Path, now: datetime) -> Finding:
    """Return the finding that a lock of another git program stands, and for how long."""
    try:
        minutes = max(0, int(now.timestamp() - lock.lstat().st_mtime) // 60)
    except FileNotFoundError:
        minutes = 0
    what = f"a lock of another git program stands in the vault, {minutes} minutes old: {lock}"
    mend = f"end that program; if none runs any more: rm {shlex.quote(str(lock))}; writes wait until then"
    return Finding("warning", what, mend=mend)


def _set_aside(root: Path) -> list[Finding]:
    """Return a finding for each version that conflicted, and was set aside in the vault's `.ormah`."""
    found = []
    for one in conflicts.waiting(root):
        name = one.path if one.kept else next(iter(one.files.values()))
        if one.kept == "theirs" and one.by:
            mend = f"to have yours back: ormahctl sync --take-back {shlex.quote(name)}; if it is right so: --resolve"
            found.append(Finding("warning", conflicts.describe(one), name, mend=mend))
            continue
        look = "ormahctl review names all versions" if one.kept else "compare it with the note"
        mend = f"{look}; take over what is missing, then: ormahctl sync --resolve {shlex.quote(name)}"
        found.append(Finding("error", conflicts.describe(one), name, mend=mend))
    return found


def _aside(path: Path) -> Finding:
    """Return the finding that `path`, a file of the state, was unusable and was set aside. No memory was in it."""
    what = "it could not be used and was set aside; what stands in its place was begun anew, and no memory is lost"
    return Finding("warning", what, str(path), mend="delete it when you have looked at it")


def _judgements(ormah: Ormah) -> list[Finding]:
    """Return findings for unreadable lines of judgements and tombstones, and for judgements made with another model."""
    found = []
    for path, line, why in ormah.learned.bad_lines():
        kind = "a judgement" if path.startswith(FOLDER) else "a line on what is not learned again"
        found.append(Finding("warning", f"{kind} cannot be read: {why}", path, line, "mend the line, or delete it"))
    idle = len(ormah.judgements.idle)
    if idle and ormah.index.embedder is not None:
        what = f"{idle} judgements on whispers were made with another embedding model, and are not counted"
        mend = "nothing is lost: they count again with their model, or where feedback.commit_prompts kept the prompts' texts"
        found.append(Finding("info", what, FOLDER, mend=mend))
    return found


def worst_first(finding: Finding) -> tuple[int, str, int]:
    """Sort key of findings: by level, then by path and line."""
    return WORST_FIRST.get(finding.level, len(WORST_FIRST)), finding.path or "", finding.line or 0


def fix(ormah: Ormah) -> list[str]:
    """Repair what needs no decision of a person: git's merge driver, and notes that share an id.

    Of several notes with one id, the one that the index has for the id keeps it. Each of the others gets a new id, in
    a commit of its own. Return the paths of these others.
    """
    ormah.mend_git()
    if ormah.phase == "ready":
        # A scan names a copy before the index has its row, and `_copies` asks the index: let a running scan end first.
        ormah.reconciler.scan()
    changed = []
    with ormah.writing:
        for path in sorted(_copies(ormah)):
            data = ormah.vault.read(path)
            if data is None:
                continue
            node_id = ormah.new_id()
            with ormah.vault.transaction(
                f"A new id for the copy {path}", kind=Kind.EDIT, source="person", person=True
            ) as tx:
                tx.put(path, edit(data, path, set={"id": node_id}), node_id=node_id, expect=digest(data))
            changed.append(path)
    return changed


def config_findings(read: Callable[[], Config]) -> list[Finding]:
    """Return findings for faults in the configuration file, the environment and the command-line flags.

    `read`: loads the configuration.
    """
    try:
        config = read()
    except OrmahError as exc:
        told = exc.data.get("faults") or [{"what": exc.message, "mend": exc.hint or ""}]
        return [Finding(level="error", **one) for one in told]
    too_long = config.settings.daemon.socket
    if too_long is not None and len(os.fsencode(paths.expand(too_long))) > paths.MAX_SOCKET_PATH:
        what = f"daemon.socket has more than {paths.MAX_SOCKET_PATH} bytes: {too_long}"
        return [Finding(level="error", what=what, mend="set a shorter path")]
    return []


def current_findings(config: Config) -> list[Finding]:
    """Return the findings for the configuration file and the environment as they are now, and for the command-line
    flags with which the daemon was started (taken from `config`)."""
    flags = {key: _value(config, key) for key, origin in config.origins.items() if origin == "flag"}
    return config_findings(lambda: load(config.file if config.file.exists() else None, flags=flags))


def _value(config: Config, key: str) -> object:
    group, name = key.split(".", 1)
    return getattr(getattr(config.settings, group), name)


def _copies(ormah: Ormah) -> list[str]:
    """Return the paths of files that have the id of another note, and so are not memories of their own."""
    found = []
    for path, kind in ormah.index.kinds().items():
        if kind == NoteKind.NOTE:
            continue
        data = ormah.vault.read(path)
        note = parse(data, path) if data is not None else None
        if note is not None and note.kind is NoteKind.NOTE and note.id is not None:
            holder = ormah.index.notes([note.id]).get(note.id)
            if holder is not None and holder.path != path:
                found.append(path)
    return found


_MENDS = {
    "vectors": "wait until the model is loaded (ormahctl status), or look into the log (ormahctl logs)",
    "index": "wait: it follows the vault by itself (ormahctl status)",
    "watcher": "edits are still found by the periodic scan; look into the log (ormahctl logs)",
}
"""Unavailable part -> what to do about it."""
