"""Keeps the memories made from a document up to date with its file.

A new section becomes a memory. If a section was edited, its memory is edited too. If a section is gone, its memory
moves to the archive. Nothing is ever written into the file. A memory that was edited in the vault is not changed any
more. A memory that was forgotten or undone is not made again while its section stays the same. Each file is updated
in one commit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, Struct, UnsetType

from ormahd import paths
from ormahd.actions import projects
from ormahd.actions.amend import Caller, amending, clean, commit, see
from ormahd.actions.tombstones import statement
from ormahd.api import IngestedDocument
from ormahd.ingest.documents.origin import LONGEST_PATH, FileOrigin, origin_of, same_place, short, with_origin
from ormahd.ingest.documents.reading import Unreadable, read_document
from ormahd.ingest.documents.sections import Section, key_of
from ormahd.model.change import Kind
from ormahd.model.node import NodeType, Tier
from ormahd.note.edit import edit
from ormahd.note.markdown import normalise
from ormahd.note.write import compose
from ormahd.process import priority

if TYPE_CHECKING:
    from ormahd.ormah import Ormah
    from ormahd.vault.transaction import Transaction

GONE: Final = "gone-from-file"
"""The tag of a memory that was moved to the archive because its section is gone from the file."""
STEP: Final = 128
"""Number of texts that are embedded at once."""
ADD, UPDATE, ARCHIVE, RESTORE, MOVE = "added", "updated", "archived", "restored", "moved"
SAME, KEPT, FORGOTTEN, KNOWN = "same", "kept", "forgotten", "known"
CHANGES: Final = (ADD, UPDATE, ARCHIVE, RESTORE, MOVE)


class FollowStep(Struct, frozen=True):
    """What is to be done for one section, or for the memory of a section that is gone. `does`: `ADD`, `UPDATE`,
    `ARCHIVE`, `RESTORE` or `MOVE`; or if nothing is to be changed, the reason: `SAME`, `KEPT`, `FORGOTTEN` or
    `KNOWN`. `node_id`: the memory, if there is one already."""

    does: str
    section: Section | None = None
    node_id: str | None = None
    here: str = ""
    """The present title of the memory; "" if there is none yet."""


class _Follower(Struct, frozen=True):
    """A memory that was made from a section of a file. `gone`: whether it has the tag `GONE`, because its section is
    gone."""

    id: str
    origin: FileOrigin
    title: str | None
    tier: Tier
    gone: bool
    edited: bool
    """Whether the memory was edited in the vault: its text differs from the section from which it was made."""


def follow(
    ormah: Ormah,
    path: Path | None,
    caller: Caller,
    *,
    read: Path,
    space: str | UnsetType | None = UNSET,
    dry_run: bool,
    run: str | None,
) -> IngestedDocument:
    """Change the memories that were made from a file so that they match its present sections. `read`: the file to
    read; `path`: the path that is stored in the memories as their origin, None for a text that has no file of its
    own.

    `space`: the space of new memories; if not given, that of the project in which the file lies. `dry_run`: only
    return what would change. `run`: id of the run to which the commit belongs; None: a new run.
    """
    out = IngestedDocument(str(path) if path else "-", run=run or (None if dry_run else ormah.new_run()))
    name = path.stem if path else "A text"
    redacted: list[str] = []
    try:
        if path is not None and len(short(path)) > LONGEST_PATH:
            raise Unreadable(f"its path has more than {LONGEST_PATH} characters")
        found = read_document(
            read, clean(ormah, name, redacted) or name, lambda text: clean(ormah, text, redacted) or ""
        )
    except Unreadable as error:
        out.status, out.error = "failed", str(error)
        return out
    out.kind = found.kind
    sections = [Section(one.place, one.title, normalise(one.text)) for one in found.sections]
    for kind in redacted:
        out.redacted[kind] = out.redacted.get(kind, 0) + 1
    if isinstance(space, UnsetType):
        space = _space(ormah, path.parent, settle=not dry_run) if path is not None else None
    if not dry_run:
        for at in priority.giving(range(0, len(sections), STEP)):
            ormah.index.embed_ahead([(one.title, one.text) for one in sections[at : at + STEP]], urgent=False)
    _carry_out(ormah, path, sections, caller, space, out, dry_run=dry_run)
    return out


def let_go(ormah: Ormah, path: Path, caller: Caller, *, run: str | None, dry_run: bool = False) -> IngestedDocument:
    """Move the memories that were made from a deleted file to the archive. `run`, `dry_run`: as for `follow`."""
    out = IngestedDocument(str(path), status="gone", run=run or (None if dry_run else ormah.new_run()))
    _carry_out(ormah, path, [], caller, None, out, dry_run=dry_run)
    return out


def gone_from(ormah: Ormah, folder: Path, there: Collection[Path]) -> list[Path]:
    """Return the deleted files of a folder from which memories were made. `there`: the files that are still in the
    folder.

    Only files that this machine has read count, because other files may be on another machine of the person.
    """
    kept = {short(file) for file in there}
    before = f"{short(folder)}/"
    lost = [paths.expand(Path(one)) for one in followed(ormah) if one.startswith(before) and one not in kept]
    return [file for file in lost if not file.exists() and ormah.sessions.was_read(cursor(file))]


def cursor(file: Path) -> str:
    """Return the name of a document as the argument `source` of `SessionArchive.is_read`."""
    return f"document:{file}"


def followed(ormah: Ormah) -> dict[str, list[str]]:
    """Return path of a file, in the form of `FileOrigin.path` -> ids of the memories that were made from this
    file."""
    found: dict[str, list[str]] = {}
    for node_id, said_in in ormah.index.extracted().items():
        origin = origin_of(said_in)
        if origin is not None:
            found.setdefault(origin.path, []).append(node_id)
    return found


def _space(ormah: Ormah, folder: Path, *, settle: bool) -> str | None:
    caller = Caller("system:files", str(folder))
    return projects.settle(ormah, caller) if settle else projects.space_of(ormah, caller)


# ------------------------------------------------------------ planning


def plan(ormah: Ormah, path: Path | None, sections: Sequence[Section], space: str | None) -> list[FollowStep]:
    """Return the steps that make the memories of a file match its sections: one for each section, in order, then
    those for the memories of sections that are gone.

    The memory of a section is found by the section's title and text, or if these changed, by its headings
    (`Section.place`).
    """
    listed = followed(ormah)
    known = _followers(ormah, listed.get(short(path), []) if path else [])
    by_key = {one.origin.key: one for one in known}
    there = {section.key for section in sections}
    left = [one for one in known if one.origin.key not in there]
    orphans: dict[str, _Follower] | None = None
    steps: list[FollowStep] = []
    seen: set[str] = set()
    for section in sections:
        if section.key in seen:
            steps.append(FollowStep(KNOWN, section))
            continue
        seen.add(section.key)
        one = by_key.get(section.key)
        if one is not None:
            steps.append(FollowStep(RESTORE if one.gone else SAME, section, one.id, one.title or ""))
            continue
        at = next((other for other in left if same_place(other.origin.place, section.place)), None)
        if at is not None:
            left.remove(at)
            steps.append(FollowStep(KEPT if at.edited else UPDATE, section, at.id, at.title or ""))
            continue
        if orphans is None:
            orphans = _orphans(ormah, listed) if path else {}
        moved = orphans.pop(section.key, None)
        if moved is not None:
            steps.append(FollowStep(MOVE, section, moved.id, moved.title or ""))
        elif _forgotten(ormah, section):
            steps.append(FollowStep(FORGOTTEN, section))
        elif ormah.index.equal(space, NodeType.FACT, section.title, section.text) is not None:
            steps.append(FollowStep(KNOWN, section))
        else:
            steps.append(FollowStep(ADD, section))
    steps += [
        FollowStep(KEPT if one.edited else ARCHIVE, None, one.id, one.title or "") for one in left if not one.gone
    ]
    return steps


def _followers(ormah: Ormah, ids: Sequence[str]) -> list[_Follower]:
    found = []
    for row in ormah.index.notes(ids, connections=False).values():
        origin = origin_of(row.said_in)
        if origin is not None:
            edited = key_of(row.title, row.content) != origin.key
            found.append(_Follower(row.id, origin, row.title, row.tier, GONE in row.tags, edited))
    return found


def _orphans(ormah: Ormah, listed: dict[str, list[str]]) -> dict[str, _Follower]:
    """Return key of a section -> the memory made from it, for all memories of deleted files. `listed`: from
    `followed`. If a file was renamed, the memories of its sections are found here, because they name the old path."""
    ids = [node for path, some in listed.items() if not FileOrigin(path, "", "").file.exists() for node in some]
    return {one.origin.key: one for one in _followers(ormah, ids)}


def _forgotten(ormah: Ormah, section: Section) -> bool:
    """Return whether there is a tombstone for this section or its text: a person forgot or undid its memory."""
    tombstones = ormah.learned.forgotten()
    return tombstones.turn(section.key) or tombstones.statement(statement(section.text))


# ------------------------------------------------------------ acting


def _carry_out(
    ormah: Ormah, path: Path | None, sections: Sequence[Section], caller: Caller, space: str | None, out: IngestedDocument, *, dry_run: bool
) -> None:  # fmt: skip
    def attempt() -> list[FollowStep]:
        steps = plan(ormah, path, sections, space)
        changing = [step for step in steps if step.does in CHANGES]
        if not changing or dry_run:
            return steps
        said = ", ".join(
            f"{number} {what}" for what in CHANGES if (number := sum(step.does == what for step in changing))
        )
        body = "\n".join(f"{step.does}: {step.section.title if step.section else step.here}" for step in changing[:100])
        done = commit(
            ormah, f"Ingest {path.name if path else 'a text'}: {said}", kind=Kind.INGEST, caller=caller, body=body, run=out.run,
            fill=lambda tx: _fill(ormah, tx, path, changing, space),
        )  # fmt: skip
        out.commit, out.op, out.stored = done.commit, done.op, done.stored
        return steps

    steps = attempt() if dry_run else amending(ormah, attempt)
    out.sections = len(sections)
    for step in steps:
        setattr(out, step.does, getattr(out, step.does) + 1)
    out.kept_titles = [step.here for step in steps if step.does == KEPT][:20]


def _fill(ormah: Ormah, tx: Transaction, path: Path | None, steps: Sequence[FollowStep], space: str | None) -> None:
    now = ormah.moment()
    taken: set[str] = set()
    for step in priority.giving(steps):
        section = step.section
        if step.node_id is None:
            assert section is not None
            node_id = ormah.new_id(taken)
            taken.add(node_id[:8])
            data = compose(
                id=node_id, type=NodeType.FACT, tier=Tier.WORKING, space=space, title=section.title, tags=[],
                source=f"file:{path.name if path else '-'}", confidence=1.0, created=now, updated=now,
                content=section.text, said_in=_origin(path, section).written if path else None,
            )  # fmt: skip
            place = ormah.place(
                node_id, type=NodeType.FACT, space=space, title=section.title, content=section.text, created=now
            )
            tx.put(place, data, node_id=node_id, expect=None)
            continue
        seen = see(ormah, step.node_id)
        if step.does == ARCHIVE:
            tags = [*seen.note.tags, GONE]
            data = edit(seen.data, seen.path, set={"tier": Tier.ARCHIVAL, "tags": tags, "updated": now})
        else:
            assert section is not None
            assert path is not None
            fields: dict[str, object] = {"updated": now}
            if GONE in seen.note.tags:
                fields |= {"tier": Tier.WORKING, "tags": [tag for tag in seen.note.tags if tag != GONE]}
            text = None
            if step.does == UPDATE:
                fields["title"], text = section.title, section.text
            data = with_origin(edit(seen.data, seen.path, set=fields, content=text), _origin(path, section))
        if data != seen.data:
            tx.put(seen.path, data, node_id=seen.id, expect=seen.digest)


def _origin(path: Path, section: Section) -> FileOrigin:
    return FileOrigin(short(path), section.place, section.key)
