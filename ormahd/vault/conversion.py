"""Converts bytes between the folder and the history where git attributes apply (gitattributes(5), "Checking-out and
checking-in"): git itself makes the blob from the file, and the file from the blob.

Usually no attribute applies to a path: blob and file have the same bytes, and no git process is started.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
from collections import OrderedDict
from typing import Final

from ormahd.errors import Conflict, OrmahError
from ormahd.git.attributes import REFUSING, Attributes, Rule, Word
from ormahd.git.process import environment, executable
from ormahd.git.repository import Git
from ormahd.model.change import sha256
from ormahd.note.markdown import dominant_eol
from ormahd.vault.worktree import Worktree

FILTER_SECONDS: Final = 60.0
"""Seconds that a filter may take for one file. One that waits for a password in vain must not block all writes."""
KEPT: Final = 2_000
"""Number of conversions that are cached in each direction."""
KEPT_BYTES: Final = 16_000_000
"""Bytes of cached results in each direction. A result larger than a tenth of this is not cached."""
_IDENT: Final = re.compile(rb"\$Id: [^$\r\n]*\$")


class FilterFailed(Conflict):
    """Raised when git could not convert a file as its attributes say. Nothing was changed."""


class Conversion:
    """Converts files of one vault to the blobs that git makes of them, and back, as git's attributes say (filters,
    line ends, encodings). Paths are relative to the vault's root. Safe for many threads."""

    def __init__(self, git: Git, attributes: Attributes, worktree: Worktree, prefix: str) -> None:
        self._git = git
        self._attributes = attributes
        self._worktree = worktree
        self._prefix = prefix
        self._in = _Kept()
        self._out = _Kept()
        self._blobs: OrderedDict[object, str] = OrderedDict()
        """`{(path, sha256, rule, version of the attributes): blob id}` of the files that `checked_out` made from a
        blob."""
        self._lock = threading.Lock()

    # Into the history

    def checked_in(self, path: str, data: bytes) -> bytes:
        """Return the content of the blob that git makes from a file with these bytes at a path. Raises FilterFailed,
        naming the path, when git cannot convert the file, or when the attributes forbid writing there."""
        words = self._attributes.words(path)
        if not words or not _matters(words, data):
            return data
        rule = self._attributes.rule(path)
        if rule is None:
            return data
        if (why := rule.unwritable) is not None:
            raise FilterFailed(
                f"{path} is not written: {why}; nothing was changed",
                hint=_mend(path, rule),
                data={"path": path, "attribute": _said(rule)},
            )
        if rule.filter is None and not (rule.text and b"\r" in data) and not (rule.ident and b"$Id" in data):
            return data
        key = (path, sha256(data), rule, self._attributes.version)
        known = self._in.get(key)
        if known is not None:
            return known
        with self._lock:
            blob = self._blobs.get(key)
        if blob is None:
            made = self._run(
                path, rule, ["-c", "core.safecrlf=false", "hash-object", "-w", "--stdin", self._as(path)], data
            )
            blob = made.decode().strip()
        return self._in.keep(key, self._git.read(blob, "blob"))

    def blob_id(self, path: str, data: bytes) -> str:
        """Return the id of the blob that git makes of these bytes at a path. Raises FilterFailed."""
        return self._git.oid("blob", self.checked_in(path, data))

    def known_id(self, path: str, data: bytes) -> str:
        """Return `blob_id(path, data)`. When git cannot convert the bytes, return the id that a blob with the bytes
        as they are would have; no blob at the path has this id."""
        try:
            return self.blob_id(path, data)
        except FilterFailed:
            return self._git.oid("blob", data)

    # Out of the history

    def checked_out(self, path: str, oid: str) -> bytes:
        """Return the bytes of the file that git would check out from a blob at a path; `$Id$` is not expanded.
        Raises FilterFailed."""
        raw = self._git.read(oid, "blob")
        words = self._attributes.words(path)
        if not words & {Word.FILTER, Word.ENCODING, Word.CRLF, Word.PIPE}:
            return raw
        rule = self._attributes.rule(path)
        if rule is None or rule.pipe or rule.missing or not (rule.filter or rule.encoding or rule.crlf):
            return raw
        key = (path, oid, rule, self._attributes.version)
        known = self._out.get(key)
        if known is not None:
            return known
        data = self._run(path, rule, ["cat-file", "--filters", self._as(path), oid], b"")
        if rule.ident:
            data = _IDENT.sub(b"$Id$", data)
        if data != raw:  # if the filter changed nothing, the file must be filtered when it is committed again
            with self._lock:
                self._blobs[path, sha256(data), rule, self._attributes.version] = oid
                while len(self._blobs) > KEPT:
                    self._blobs.popitem(last=False)
        return self._out.keep(key, data)

    def in_folder(self, path: str, oid: str) -> bytes:
        """Return the bytes of the file that git makes from a blob at a path, with the line ends that the file in the
        folder has now. Versions of one file are compared and merged in this form, so that the file keeps its line
        ends. Raises FilterFailed."""
        data = self.checked_out(path, oid)
        if not self._attributes.words(path) & {Word.TEXT, Word.IDENT} or b"\0" in data:
            return data
        now = None
        with contextlib.suppress(OrmahError, OSError):  # a path that is no regular file has no line ends
            now = self._worktree.read(path)
        if now is None or now == data or b"\0" in now or (rule := self._attributes.rule(path)) is None:
            return data
        with contextlib.suppress(FilterFailed):
            if self.is_version(path, now, oid):
                return now
        if not rule.text or b"\n" not in now or b"\r" in data.replace(b"\r\n", b""):
            return data
        if dominant_eol(now.decode("utf-8", "replace")) == "\n":
            styled = data.replace(b"\r\n", b"\n")
        else:
            styled = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        return styled if self.is_version(path, styled, oid) else data

    def is_version(self, path: str, data: bytes, oid: str) -> bool:
        """Whether git considers a file with these bytes at a path unchanged against a blob: the file converts to that
        blob, or the blob to that file. Raises FilterFailed."""
        if self.is_raw(data, oid):
            return True
        if not self._attributes.words(path):
            return False
        return self._git.oid("blob", self.checked_in(path, data)) == oid or self.checked_out(path, oid) == data

    def reopen(self) -> None:
        """Clear the caches, because the history was replaced."""
        self._in, self._out = _Kept(), _Kept()
        with self._lock:
            self._blobs.clear()

    def _as(self, path: str) -> str:
        return f"--path={self._prefix}{path}"

    def is_raw(self, data: bytes, oid: str | None) -> bool:
        """Whether the blob `oid` has exactly these bytes, unconverted."""
        return oid is not None and self._git.oid("blob", data) == oid

    def stands(self, path: str, data: bytes, oid: str | None) -> bool:
        """Whether a file is unchanged against the blob `oid` that HEAD has at its path (None: HEAD has none). Raises
        FilterFailed, also for a new file that git could not convert."""
        if oid is not None:
            return self.is_version(path, data, oid)
        self.checked_in(path, data)
        return False

    def _run(self, path: str, rule: Rule, arguments: list[str], data: bytes) -> bytes:
        """Run git and return its stdout. Git runs the person's filters with the person's locale, for at most
        `FILTER_SECONDS`. Raises FilterFailed."""
        env = environment()
        for name in ("LC_ALL", "LANGUAGE"):
            env.pop(name, None)
            if name in os.environ:
                env[name] = os.environ[name]
        child = subprocess.Popen(
            [executable(), "--git-dir", str(self._git.git_dir), "--work-tree", str(self._git.top), *arguments],
            cwd=self._git.top, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        try:
            out, complaint = child.communicate(data, timeout=FILTER_SECONDS)
            why = " ".join(complaint.decode("utf-8", "replace").split()) if child.returncode else None
        except subprocess.TimeoutExpired:
            why = f"it did not end within {FILTER_SECONDS:.0f} seconds"
        finally:
            if child.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.communicate()
        if why is None:
            return out
        raise FilterFailed(
            f"{path}: git could not apply {_said(rule)} to it ({why[:300]}); nothing was changed",
            hint=f"mend what git runs for it (git config --get-regexp '^filter'), or exempt the path in .gitattributes: `{_pattern(path)} {_undone(rule)}`",
            data={"path": path, "attribute": _said(rule)},
        )


class BlobFiles:
    """Converts between blobs, which git hands to its merge driver, and the files that git checks out from them. Where
    a filter applies (git-crypt, transcrypt) the two differ, and only the files have the text to merge.

    For one repository. Paths are relative to its top. Takes no lock that a running git process may hold.
    """

    def __init__(self, git: Git) -> None:
        self._git = git
        self._attributes = Attributes(git, "")
        self._conversion = Conversion(git, self._attributes, Worktree(git.top), "")

    def filtered(self, path: str) -> bool:
        """Whether a filter applies to a path, so that its blobs are not the text of the file."""
        rule = self._attributes.rule(path)
        return rule is not None and rule.filter is not None and not rule.missing

    def file(self, path: str, blob: bytes) -> bytes:
        """Return the bytes of the file that git would check out from a blob with these bytes. Raises FilterFailed."""
        oid = self._git.oid("blob", blob)
        if self._git.resolve(oid) is None:  # a merged common ancestor, which git made in memory only
            self._git.run("hash-object", "-w", "--stdin", "--no-filters", input=blob)
        return self._conversion.checked_out(path, oid)

    def blob(self, path: str, data: bytes) -> bytes:
        """Return the content of the blob that git makes from a file with these bytes. Raises FilterFailed."""
        return self._conversion.checked_in(path, data)


class _Kept:
    """A least-recently-used cache of conversion results."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[object, bytes] = OrderedDict()
        self._bytes = 0

    def get(self, key: object) -> bytes | None:
        with self._lock:
            found = self._found.get(key)
            if found is not None:
                self._found.move_to_end(key)
            return found

    def keep(self, key: object, data: bytes) -> bytes:
        if len(data) * 10 <= KEPT_BYTES:
            with self._lock:
                if key not in self._found:
                    self._found[key] = data
                    self._bytes += len(data)
                while len(self._found) > KEPT or self._bytes > KEPT_BYTES:
                    self._bytes -= len(self._found.popitem(last=False)[1])
        return data


def as_it_stands(now: bytes, data: bytes) -> bytes:
    """Return `now`, the file in the folder, if it differs from `data` only in line ends and `$Id$` keywords, else
    `data`. Such a difference may come from the history, which need not record a file's line ends."""
    one, other = (_IDENT.sub(b"$Id$", text.replace(b"\r\n", b"\n")) for text in (now, data))
    return now if one == other else data


def _matters(words: frozenset[Word], data: bytes) -> bool:
    """Whether any of these attributes would change these bytes when they are committed, or forbid the commit."""
    return bool(words & REFUSING) or (Word.TEXT in words and b"\r" in data) or (Word.IDENT in words and b"$Id" in data)


def _said(rule: Rule) -> str:
    """Return the attribute that this rule comes from, as it is written in .gitattributes; for error messages."""
    if rule.pipe:
        return "a pipe for .gitattributes"
    if rule.filter is not None:
        return f"filter={rule.filter}"
    if rule.encoding is not None:
        return f"working-tree-encoding={rule.encoding}"
    return "ident" if rule.ident else "text"


def _pattern(path: str) -> str:
    """Return a .gitattributes pattern for all files in the path's top folder, or for the path itself when it is in no
    folder."""
    return f"{path.partition('/')[0]}/**" if "/" in path else path


def _undone(rule: Rule) -> str:
    """Return the attributes that cancel the given rule, for a line of .gitattributes."""
    return (
        "!filter"
        if rule.filter is not None
        else "!working-tree-encoding"
        if rule.encoding is not None
        else "-text !ident"
    )


def _mend(path: str, rule: Rule) -> str:
    pattern = _pattern(path)
    if rule.pipe:
        return "remove the pipe, and repeat"
    if rule.missing:
        return f"set the filter up (`git-crypt unlock`, `git lfs install` or the like), or exempt what Ormah writes in .gitattributes: `{pattern} !filter`"
    return f"exempt what Ormah writes in .gitattributes: `{pattern} !working-tree-encoding`"
