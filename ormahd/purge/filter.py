"""A program that rewrites the repository in the current directory by a plan: `python -m ormahd.purge.filter PLAN`.

It decides nothing. git-filter-repo keeps state in its module, uses the current directory and exits on errors, so it
cannot run in the daemon.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import git_filter_repo as fr
import msgspec

from ormahd.git import commit_message
from ormahd.purge.survey import PurgeSurvey

_COMMIT_ID = re.compile(rb"(?<![0-9a-z])([0-9a-f]{40}(?:[0-9a-f]{24})?)(?![0-9a-z])")
"""Matches whole commit ids only. git-filter-repo's own pattern would take eight hex digits of a node id for an
abbreviated commit id."""


class Rewriter:
    """Changes each file, commit and tag as a survey says. git-filter-repo calls its methods."""

    def __init__(self, found: PurgeSurvey) -> None:
        self.found = found
        self.forgotten = found.forgotten
        self.rewritten: dict[tuple[bytes, str], Any] = {}

    def file(self, name: bytes, mode: bytes, blob: bytes, value: Any) -> tuple[bytes, bytes | None, Any]:
        """Return (name, mode, blob) for one file of one commit: unchanged, rewritten, or removed (mode None).
        `value`: the object by which git-filter-repo lets the blob be read and a new one be stored."""
        path, oid = _text(name), blob.decode()
        if oid in self.found.drop:
            return name, None, blob
        if oid in self.found.rewrite:
            key = blob, path if path.startswith(".ormah/") else path.rpartition(".")[2]
            if key not in self.rewritten:
                data = self.forgotten.without(path, value.get_contents_by_identifier(blob))
                self.rewritten[key] = value.insert_file_with_contents(data)
            blob = self.rewritten[key]
        return _bytes(self.found.names.get(path, path)), mode, blob

    def commit(self, commit: Any, metadata: Mapping[str, Any]) -> None:
        """Change one commit: its message, the names of its people and the paths of its files. `metadata`:
        git-filter-repo's; it has the function that returns a commit's new id."""
        by_hand = not commit_message.parse(_text(commit.message)).trailers and len(commit.parents) < 2
        own = by_hand and any(_text(change.filename) in self.found.own_paths for change in commit.file_changes)
        self._remove_memory(commit, "author_name", "author_email", "committer_name", "committer_email", whole=own)

        # git-filter-repo calls `file` only for files that exist. Where a file takes the new name of a deleted one, it stays.
        changes = {}
        for change in sorted(commit.file_changes, key=lambda change: change.type != b"D"):
            path = _text(change.filename)
            change.filename = _bytes(self.found.names.get(path, path) if change.type == b"D" else path)
            changes[change.filename] = change
        commit.file_changes = list(changes.values())

        renamed: Callable[[re.Match[bytes]], bytes] = metadata["commit_rename_func"]
        commit.message = _COMMIT_ID.sub(renamed, commit.message)

    def tag(self, tag: Any, _metadata: Mapping[str, Any]) -> None:
        """Change one annotated tag: its message and the name of its tagger."""
        self._remove_memory(tag, "tagger_name", "tagger_email", whole=False)

    def _remove_memory(self, item: Any, *people: str, whole: bool) -> None:
        """Remove the memory from the message of a commit or tag, and from the attributes `people`, which hold names.
        `whole`: nothing but trailers remains of the message."""
        message = _text(item.message)
        if whole or self.forgotten.mentions(item.message) or self.forgotten.quoted(message):
            item.message = _bytes(commit_message.purged(message, self.forgotten, whole=whole))
        for name in filter(lambda name: getattr(item, name), people):  # a tag may have no tagger
            setattr(item, name, _bytes(self.forgotten.text(_text(getattr(item, name)))))


def _text(data: bytes) -> str:
    """Return the text that `data` encodes; bytes that are not UTF-8 survive the way back by `_bytes`."""
    return data.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    """Return the bytes from which `_text` made the text."""
    return text.encode("utf-8", "surrogateescape")


def main(plan_file: str) -> None:
    """Rewrite the bare repository in the current directory as the survey in `plan_file` (JSON) says. On errors
    git-filter-repo raises SystemExit with a message."""
    rewriter = Rewriter(msgspec.convert(json.loads(Path(plan_file).read_text("utf-8")), PurgeSurvey))
    options = fr.FilteringOptions.default_options()
    options.force = True  # skip its check for a fresh clone, which expects a remote `origin`
    options.quiet = True
    options.repack = False
    options.replace_refs = "delete-no-add"
    options.prune_empty = "never"  # an op's commit that became empty still records its time and source
    options.prune_degenerate = "never"
    options.preserve_commit_hashes = True  # see _COMMIT_ID
    options.preserve_commit_encoding = True
    fr.RepoFilter(
        options, file_info_callback=rewriter.file, commit_callback=rewriter.commit, tag_callback=rewriter.tag
    ).run()


if __name__ == "__main__":
    main(sys.argv[1])
