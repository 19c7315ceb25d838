"""Versions of a file as git's merge driver has them: blobs. Of a filtered path (git-crypt, transcrypt) the files are behind a filter."""

from __future__ import annotations

import hashlib

from ormahd.vault.attributes import Attributes
from ormahd.vault.conversion import Conversion
from ormahd.vault.files import Worktree
from ormahd.vault.git import Git


class BlobFiles:
    """Of one repository. Paths are relative to its top. Takes no lock that a git may hold meanwhile."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._attributes = Attributes(git, "")
        self._conversion = Conversion(git, self._attributes, Worktree(git.top), "", self._oid)

    def _oid(self, data: bytes) -> str:
        kind = hashlib.sha256 if self._git.object_format == "sha256" else hashlib.sha1
        return kind(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()

    def filtered(self, path: str) -> bool:
        """Whether the blobs of a path are not the text of its file."""
        rule = self._attributes.rule(path)
        return rule is not None and rule.filter is not None and not rule.missing

    def file(self, path: str, blob: bytes) -> bytes:
        """The file that a blob with these bytes is. Raises FilterFailed."""
        oid = self._oid(blob)
        if self._git.resolve(oid) is None:  # of a common ancestor that git has just made up
            self._git.run("hash-object", "-w", "--stdin", "--no-filters", input=blob)
        return self._conversion.checked_out(path, oid)

    def blob(self, path: str, data: bytes) -> bytes:
        """The blob that git makes of a file. Raises FilterFailed."""
        return self._conversion.checked_in(path, data)
