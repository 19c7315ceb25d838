"""Checks without a running daemon: is the configuration valid, can every note be read.

`check` changes nothing and takes no lock, so it also works beside a running daemon. `doctor` opens the vault and the
index, without models.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from ormahd import paths
from ormahd.actions.admin import worst_first
from ormahd.api import Finding
from ormahd.config import Config
from ormahd.errors import NotFound, OrmahError
from ormahd.git.repository import Git
from ormahd.note.read import parse
from ormahd.note.values import NoteKind
from ormahd.vault.create import CARD, check_folder, check_repository, find_card
from ormahd.vault.excluded import Excluded
from ormahd.watch.walk import walk


def root_of(config: Config) -> Path:
    """Return the real path of the vault's folder."""
    return Path(os.path.realpath(paths.expand(config.settings.vault.path or paths.default_vault())))


def vault_findings(config: Config) -> list[Finding]:
    """Return the problems of the vault: it does not exist, its card or repository cannot be used, notes are unreadable
    or need a person's decision, or two notes have one id."""
    root = root_of(config)
    if not (root / CARD).exists():
        return [_absent(root, config.origin("vault.path"))]
    try:
        find_card(root)
    except OrmahError as exc:
        return [Finding(level="error", what=exc.message, path=CARD, mend=exc.hint or "")]
    try:
        check_repository(root)
    except OrmahError as exc:
        return [Finding(level="error", what=exc.message, mend=exc.hint or "")]
    git = Git(root)
    try:
        return sorted(_notes(root, Excluded(root, git.ignored_paths)), key=worst_first)
    finally:
        git.close()


def _absent(root: Path, origin: str) -> Finding:
    """Return the finding that there is no vault at `root`. `origin`: what set `vault.path`."""
    nearest = next(path for path in (root, *root.parents) if path.exists())
    if not nearest.is_dir():
        what = f"there can be no vault at {root}: {nearest} is no folder"
        mend = "set vault.path to a folder" + ("" if origin == "default" else f"; it is set in {origin}")
        return Finding(level="error", what=what, mend=mend)
    try:
        check_folder(root)
    except OrmahError as exc:
        return Finding(level="error", what=exc.message, mend=exc.hint or "")
    what = f"there is no vault at {root}"
    return Finding(level="warning", what=what, mend="the daemon makes one when it starts: ormahctl up")


def _notes(root: Path, excluded: Excluded) -> list[Finding]:
    """Return what is wrong with the files of the vault, each read for itself: unreadable, invalid, or with an id twice."""
    met = walk(root, {}, excluded)
    found = [msgspec.convert(one, Finding) for one in met.skipped.values()]
    first: dict[str, str] = {}
    for path in sorted(met.changed):
        try:
            note = parse((root / path).read_bytes(), path)
        except OSError as exc:
            found.append(Finding(level="warning", what=f"cannot be read: {exc.strerror}", path=path))
            continue
        found += [Finding(level=p.level, what=p.what, path=path, line=p.line, mend=p.mend) for p in note.problems]
        if note.kind is NoteKind.NOTE and note.id is not None and first.setdefault(note.id, path) != path:
            what = f"has the same id as {first[note.id]}"
            found.append(
                Finding(level="warning", what=what, path=path, mend="ormahctl doctor --fix gives one a new id")
            )
    return found


def doctor_findings(config: Config, *, fix: bool) -> list[Finding]:
    """Return what the daemon's `doctor` would find, except for what needs its models. `fix`: also repair what it can.

    Raises:
        Unavailable: a daemon has the vault open; ask that daemon for its `doctor`.
        NotFound: there is no vault yet.
    """
    from ormahd.actions.amend import silent
    from ormahd.api import DoctorParams
    from ormahd.daemon import socket_of
    from ormahd.ingest.intake import Intake
    from ormahd.jobs.judging import Judging
    from ormahd.jobs.runner import JOBS, Runner
    from ormahd.ormah import Ormah
    from ormahd.rpc.health import findings

    root = root_of(config)
    if not (root / CARD).exists():
        absent = _absent(root, config.origin("vault.path"))
        raise NotFound(absent.what, hint=absent.mend)
    ormah = Ormah.open(config)
    ormah.socket = socket_of(config, root)
    try:
        runner = Runner(ormah, JOBS)
        answer = findings(ormah, runner, Judging(ormah), Intake(ormah), DoctorParams(fix=fix), silent)
    finally:
        ormah.close()
    return [finding for finding in answer.findings if not finding.what.startswith("degraded: ")]
