"""Administration: counts, index checks, the findings of the doctor and of `config check`, and repairs."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from ormahd import paths
from ormahd.actions.amend import PERSON, Caller, Progress, transaction
from ormahd.actions.evidence import without_files
from ormahd.actions.views import headline, of_row
from ormahd.api import DayStats, Finding, RebuildResult, StatsParams, StatsResult, VerifyResult, WhisperStats
from ormahd.config import Config, load
from ormahd.embedding.model_files import is_default
from ormahd.errors import NoRoom, OrmahError
from ormahd.index.rows import MEMORIES
from ormahd.model.change import Kind
from ormahd.model.judgement import FOLDER
from ormahd.note.edit import edit
from ormahd.note.read import digest, parse
from ormahd.note.values import NoteKind
from ormahd.ormah import Ormah
from ormahd.process import own_files
from ormahd.state import whispers
from ormahd.text.language import languages
from ormahd.text.words import is_unspaced
from ormahd.vault import conflicts, merge_driver

WORST_FIRST = {"error": 0, "warning": 1, "info": 2}
LATEST, FEWEST = 100, 20
"""Number of the newest memories whose languages are looked at, and the least number that says something."""


def stats(ormah: Ormah, params: StatsParams) -> StatsResult:
    """Return the numbers of memories by tier, type and space, of edges by type, of whispers, and of feedback on
    whispers. The result also has the numbers of each of the last `days` days, and the `tags` most used tags."""
    lacking, counted = ormah.lacking(), ormah.index.stats(params.tags)
    logged, judgements = whispers.figures(ormah.state), ormah.learned.judgements
    (useful, useless), (asked, answered) = judgements.counts, whispers.counts(ormah.state)
    judged = {
        "useful": useful,
        "not_useful": useless,
        "idle": len(judgements.idle),
        "asked": asked,
        "answered": answered,
    }
    totals = {"total_nodes": counted.nodes, "total_edges": counted.edges, "plain_files": counted.plain}
    whisper, daily = of_row(WhisperStats, logged, **judged), _daily_stats(ormah, params.days)
    return of_row(StatsResult, counted, **totals, whisper=whisper, degraded=lacking, daily=daily)


def _daily_stats(ormah: Ormah, days: int) -> list[DayStats]:
    """Return the numbers of whispers, silences and new memories for each of the last `days` local days, oldest first."""
    now = ormah.clock().astimezone()
    names = [(now - timedelta(days=back)).date().isoformat() for back in reversed(range(days))]
    since = now - timedelta(days=days + 1)
    made, logged = (ormah.index.created_per_day(since), whispers.daily(ormah.state, since)) if days else ({}, {})
    counts = {name: logged.get(name, (0, 0)) for name in names}
    return [
        DayStats(day=name, whispers=count, silences=silences, new=made.get(name, 0))
        for name, (count, silences) in counts.items()
    ]


def verify(ormah: Ormah, progress: Progress) -> VerifyResult:
    """Compare the index with the vault, and return the differences. Changes nothing."""
    found = ormah.verify(progress)
    return VerifyResult(ok=not found, differences=found)


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
    return RebuildResult(status="rebuilt", nodes_indexed=count, seconds=round(time.monotonic() - begun, 3))


def doctor(ormah: Ormah, progress: Progress) -> list[Finding]:
    """Return a finding for each problem that needs a person's attention, worst first: in files, index, git and
    models."""
    # Without a readable repository nothing else can be examined
    if (fault := ormah.vault.git_error()) is not None:
        what = f"git cannot read the vault's repository: {fault}"
        mend = "`git fsck` in the vault says more; mend it, or bring .git back from a backup or a clone"
        return [Finding(level="error", what=what, mend=mend)]

    # Verifying reads every file, so the scan's findings are fresh afterwards
    differences, full = [], []
    try:
        differences = ormah.verify(progress) if ormah.phase == "ready" else []
    except NoRoom as exc:
        full = [Finding(level="error", what=exc.message, mend="make room; everything goes on by itself then")]

    # Files, configuration and disks
    read = ormah.phase == "ready" and not any(difference.what == "damaged" for difference in differences)
    found = [Finding(**problem) for problem in ormah.reconciler.problems(fresh=not read)]
    found += [*full, *current_findings(ormah.config), *(Finding(level="warning", what=text) for text in ormah.warnings)]
    room = "make room; everything goes on by itself then"
    found += [Finding(level="error", what=what, mend=room) for what in ormah.full_disks()]
    writable = "make it writable for the user that runs the daemon; it goes on by itself then"
    found += [Finding(level="error", what=what, mend=writable) for what in ormah.vault.unwritable_folders()]
    if (aside := own_files.aside(ormah.state.path)).exists():  # no memory was in it
        what = "it could not be used and was set aside; what stands in its place was begun anew, and no memory is lost"
        mend = "delete it when you have looked at it"
        found.append(Finding(level="warning", what=what, path=str(aside), mend=mend))
    found += [Finding(**problem) for problem in merge_driver.findings(ormah.vault)]

    # Sync, and what machines or people disagree about
    if ormah.syncing.trouble and not ormah.syncing.offline_since:
        what = f"the last sync failed: {ormah.syncing.trouble}"
        found.append(Finding(level="warning", what=what, mend="mend that, then: ormahctl sync"))
    found += _set_aside(ormah.vault.root)
    found += _judgements(ormah)
    found += _languages(ormah)

    # Git, the watcher and the models
    if (lock := ormah.vault.blocking_lock()) is not None:
        found.append(_lock_finding(lock, ormah.clock()))
    elif busy := ormah.vault.busy():
        mend = "finish it (git status); writes wait until then"
        found.append(Finding(level="warning", what=f"git is held: {busy}", mend=mend))
    if why := ormah.why_polling():
        what = f"the vault's folder is not watched but scanned every two seconds: {why}"
        mend = "on Linux, raise fs.inotify.max_user_watches or max_user_instances (sysctl)"
        found.append(Finding(level="warning", what=what, mend=mend))
    found += [
        Finding(level="warning", what=f"degraded: {part}", mend=_MENDS.get(part, "look into the log (ormahctl logs)"))
        for part in ormah.degraded()
    ]

    # Evidence that is gone, and the index
    for row, missing in without_files(ormah):
        what = f"{headline(row.title, row.content)}: it rests on {', '.join(missing)}, gone from its project"
        mend = f"if it still holds: ormahctl update {row.short_id} --clear evidence; if not: ormahctl outdated {row.short_id}"
        found.append(Finding(level="warning", what=what, path=row.path, mend=mend))
    for one in differences:
        what = f"the index differs from the vault ({one.what}): {one.detail}"
        found.append(Finding(level="error", what=what, path=one.path, mend="ormahctl rebuild"))
    return sorted(found, key=worst_first)


def _lock_finding(lock: Path, now: datetime) -> Finding:
    """Return the finding that another git program holds the lock file `lock`, with the file's age."""
    try:
        minutes = max(0, int(now.timestamp() - lock.lstat().st_mtime) // 60)
    except FileNotFoundError:
        minutes = 0
    what = f"a lock of another git program stands in the vault, {minutes} minutes old: {lock}"
    mend = f"end that program; if none runs any more: rm {shlex.quote(str(lock))}; writes wait until then"
    return Finding(level="warning", what=what, mend=mend)


def _set_aside(root: Path) -> list[Finding]:
    """Return a finding for each file that Ormah moved aside in the vault's `.ormah`, such as a version that conflicted."""
    found = []
    for one in conflicts.waiting(root):
        name = one.path if one.kept else next(iter(one.files.values()))
        if one.kept == "theirs" and one.by:
            mend = f"to have yours back: ormahctl sync --take-back {shlex.quote(name)}; if it is right so: --resolve"
            found.append(Finding(level="warning", what=conflicts.describe(one), path=name, mend=mend))
            continue
        look = "ormahctl review names all versions" if one.kept else "compare it with the note"
        mend = f"{look}; take over what is missing, then: ormahctl sync --resolve {shlex.quote(name)}"
        found.append(Finding(level="error", what=conflicts.describe(one), path=name, mend=mend))
    return found


def _judgements(ormah: Ormah) -> list[Finding]:
    """Return findings for unreadable lines of judgements and tombstones, and for judgements made with another model."""
    found = []
    for path, line, why in ormah.learned.bad_lines():
        kind = "a judgement" if path.startswith(FOLDER) else "a line on what is not learned again"
        what, mend = f"{kind} cannot be read: {why}", "mend the line, or delete it"
        found.append(Finding(level="warning", what=what, path=path, line=line, mend=mend))
    idle = len(ormah.learned.judgements.idle)
    if idle and ormah.index.embedder is not None:
        what = f"{idle} judgements on whispers were made with another embedding model, and are not counted"
        mend = "nothing is lost: they count again with their model, or where feedback.commit_prompts kept the prompts' texts"
        found.append(Finding(level="info", what=what, path=FOLDER, mend=mend))
    return found


def _languages(ormah: Ormah) -> list[Finding]:
    """Return a finding if most of the newest memories are in a language that the default model hardly reads."""
    if not is_default(ormah.settings.embedding.model):
        return []
    rows = ormah.index.notes(ormah.index.newest(MEMORIES, LATEST))
    foreign = sum(bool(languages(row.content)) or any(map(is_unspaced, row.content)) for row in rows.values())
    if len(rows) < FEWEST or 2 * foreign <= len(rows):
        return []
    newest = f"{foreign} of your {len(rows)} newest memories"
    what = f"{newest} are not in English, the language that the embedding model reads"
    mend = "to find them by meaning too (80 MB more, twice the time): ormahctl model use multilingual"
    return [Finding(level="info", what=what, mend=mend)]


def worst_first(finding: Finding) -> tuple[int, str, int]:
    """Return the sort key of a finding: level, then path and line."""
    return WORST_FIRST.get(finding.level, len(WORST_FIRST)), finding.path or "", finding.line or 0


def fix(ormah: Ormah) -> list[str]:
    """Repair what needs no decision of a person: git's merge driver, and notes that share an id.

    Of several notes with one id, the one that the index has for the id keeps it. Each of the others gets a new id, in
    a commit of its own. Return the paths of these others.
    """
    ormah.install_merge_driver()
    if ormah.phase == "ready":
        # A scan names a copy before the index has its row, and `_copies` asks the index: let a running scan end first.
        ormah.reconciler.scan()
    changed = []
    with ormah.writing:
        for path in sorted(_copies(ormah)):
            data = ormah.vault.read(path)
            if data is None:
                continue
            node_id = ormah.index.new_id()
            with transaction(ormah, f"A new id for the copy {path}", kind=Kind.EDIT, caller=Caller(PERSON)) as tx:
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
        faults = exc.data.get("faults") or [{"what": exc.message, "mend": exc.hint or ""}]
        return [Finding(level="error", **one) for one in faults]
    too_long = config.settings.daemon.socket
    if too_long is not None and len(os.fsencode(paths.expand(too_long))) > paths.MAX_SOCKET_PATH:
        what = f"daemon.socket has more than {paths.MAX_SOCKET_PATH} bytes: {too_long}"
        return [Finding(level="error", what=what, mend="set a shorter path")]
    return []


def current_findings(config: Config) -> list[Finding]:
    """Return the findings for the configuration file and the environment as they are now, and for the command-line
    flags with which the daemon was started (taken from `config`)."""
    flags = {}
    for key in [key for key, origin in config.origins.items() if origin == "flag"]:
        group, name = key.split(".", 1)
        flags[key] = getattr(getattr(config.settings, group), name)
    return config_findings(lambda: load(config.file if config.file.exists() else None, flags=flags))


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
