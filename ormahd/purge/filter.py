"""A program that rewrites the repository in the current directory by a plan: `python -m ormahd.purge.filter PLAN`.

It decides nothing. git-filter-repo keeps state in its module, uses the current directory and exits on errors, so it
cannot run in the daemon.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import git_filter_repo as fr

from ormahd.git import oplog
from ormahd.note.forgetting import GONE, Forgotten

SHOWN = "\x1e"
"""Prefix of progress lines on stdout, which distinguishes them from git-filter-repo's own output."""
EVERY = 200
"""Number of commits between two lines of progress."""
_COMMIT_ID = re.compile(rb"(?<![0-9a-z])([0-9a-f]{40}(?:[0-9a-f]{24})?)(?![0-9a-z])")
"""Matches whole commit ids only. git-filter-repo's own pattern would take eight hex digits of a node id for an
abbreviated commit id."""


class Rewriter:
    """Changes each file, commit and tag as one plan says. git-filter-repo calls its methods."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        self.forgotten = Forgotten.of(plan["forgotten"])
        self.drop = {oid.encode() for oid in plan["drop"]}
        self.rewrite = {oid.encode() for oid in plan["rewrite"]}
        self.messages = {oid.encode(): oplog.Kept(kept) for oid, kept in plan["messages"].items()}
        self.names = {name.encode("utf-8", "surrogateescape") for name in plan["names"]}
        self.done: dict[tuple[bytes, bytes], Any] = {}
        self.count = 0

    def file(self, name: bytes, mode: bytes, blob: bytes, value: Any) -> tuple[bytes, bytes | None, Any]:
        """Return (name, mode, blob) for one file of one commit: unchanged, rewritten, or removed (mode None).
        `value`: the object by which git-filter-repo lets the blob be read and a new one be stored."""
        if blob in self.drop:
            return name, None, blob
        path = name.decode("utf-8", "surrogateescape")
        if blob in self.rewrite:
            kind = path.rpartition("/")[2].rpartition(".")[2], path.startswith(".ormah/")
            key = blob, repr(kind).encode()
            if key not in self.done:
                data = value.get_contents_by_identifier(blob)
                self.done[key] = value.insert_file_with_contents(self.forgotten.without(path, data))
            blob = self.done[key]
        return self._named(name), mode, blob

    def _named(self, name: bytes) -> bytes:
        """Return a file's path with every secret in it replaced. A hash of the old path makes the new one different
        from all others."""
        if name not in self.names:
            return name
        left = self._plain(name).decode("utf-8", "surrogateescape")
        return left.replace(GONE, f"purged-{sha256(name).hexdigest()[:8]}").encode("utf-8", "surrogateescape")

    def commit(self, commit: Any, metadata: Mapping[str, Any]) -> None:
        if commit.original_id in self.messages:
            commit.message = self._message(commit.message, commit.original_id)
            for part in ("author_name", "author_email", "committer_name", "committer_email"):
                setattr(commit, part, self._plain(getattr(commit, part)))
        for change in commit.file_changes:
            if change.type == b"D":  # git-filter-repo calls `file` only for files that exist
                change.filename = self._named(change.filename)
        renamed: Callable[[re.Match[bytes]], bytes] = metadata["commit_rename_func"]
        commit.message = _COMMIT_ID.sub(renamed, commit.message)
        self.count += 1
        if self.count % EVERY == 0:
            self.show()

    def show(self) -> None:
        """Print how many commits were rewritten so far; the parent process reads it from stdout."""
        sys.stdout.write(f"{SHOWN}{self.count}\n")
        sys.stdout.flush()

    def tag(self, tag: Any, _metadata: Mapping[str, Any]) -> None:
        if tag.original_id in self.messages:
            tag.message = self._message(tag.message, tag.original_id)

    def _message(self, data: bytes, oid: bytes) -> bytes:
        text = data.decode("utf-8", "surrogateescape")
        return oplog.purged(text, self.forgotten, self.messages[oid]).encode("utf-8", "surrogateescape")

    def _plain(self, data: bytes) -> bytes:
        return self.forgotten.text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def main(plan_file: str) -> None:
    """Rewrite the bare repository in the current directory by the plan in `plan_file` (JSON). On errors
    git-filter-repo raises SystemExit with a message."""
    rewriter = Rewriter(json.loads(Path(plan_file).read_text("utf-8")))
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
    rewriter.show()


if __name__ == "__main__":
    main(sys.argv[1])
