"""Bytes on their way between folder and history, where attributes of the person's have git change them (gitattributes(5), "Checking-out
and checking-in"): git itself makes the blob, and git makes the file of a blob.

Nearly always nothing is said of a path: then blob and file have the same bytes, and no git is started.
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
"""How long a filter may take over one file: one that waits for a password in vain must not hold up all writes."""
KEPT: Final = 2_000
"""Conversions that are remembered, each way."""
KEPT_BYTES: Final = 16_000_000
"""Bytes of what they gave, each way; one that is larger than a tenth of this is not remembered."""
_IDENT: Final = re.compile(rb"\$Id: [^$\r\n]*\$")


class FilterFailed(Conflict):
    """Git could not convert a file by its attributes. Nothing was changed."""


class Conversion:
    """Of one vault. Paths are relative to its root. Safe for many threads."""

    def __init__(self, git: Git, attributes: Attributes, worktree: Worktree, prefix: str) -> None:
        self._git = git
        self._attributes = attributes
        self._worktree = worktree
        self._prefix = prefix
        self._in = _Kept()
        self._out = _Kept()
        self._blobs: OrderedDict[object, str] = OrderedDict()
        """By path, digest and rule of what was read out of a blob: that blob."""
        self._lock = threading.Lock()

    # Into the history

    def checked_in(self, path: str, data: bytes) -> bytes:
        """The blob that git makes of a file with these bytes at a path. Raises FilterFailed, naming the path, where git cannot, or
        where what it would make is not what the person wants."""
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
        """The id of the blob that git makes of these bytes at a path. Raises FilterFailed."""
        return self._git.oid("blob", self.checked_in(path, data))

    def known_id(self, path: str, data: bytes) -> str:
        """As `blob_id`; of bytes that git cannot convert now, their own, which is no blob's of the path."""
        try:
            return self.blob_id(path, data)
        except FilterFailed:
            return self._git.oid("blob", data)

    # Out of the history

    def checked_out(self, path: str, oid: str) -> bytes:
        """What git would put into the folder of a blob at a path; `$Id$` is not expanded. Raises FilterFailed."""
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
        if data != raw:  # what a filter let through as it is goes through the filter when it is written again
            with self._lock:
                self._blobs[path, sha256(data), rule, self._attributes.version] = oid
                while len(self._blobs) > KEPT:
                    self._blobs.popitem(last=False)
        return self._out.keep(key, data)

    def in_folder(self, path: str, oid: str) -> bytes:
        """A blob as it would stand in the folder, with the line ends that the file there has now: so versions of one file are compared
        and merged, and a file keeps its line ends. Raises FilterFailed."""
        data = self.checked_out(path, oid)
        if not self._attributes.words(path) & {Word.TEXT, Word.IDENT} or b"\0" in data:
            return data
        now = None
        with contextlib.suppress(OrmahError, OSError):  # what is no regular file has no line ends
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
        """Whether git has a file with these bytes at a path for unchanged against a blob: it would make that blob of it, or the file of
        that blob. Raises FilterFailed."""
        if self.is_raw(data, oid):
            return True
        if not self._attributes.words(path):
            return False
        return self._git.oid("blob", self.checked_in(path, data)) == oid or self.checked_out(path, oid) == data

    def reopen(self) -> None:
        """Forget what was converted: the history was replaced."""
        self._in, self._out = _Kept(), _Kept()
        with self._lock:
            self._blobs.clear()

    def _as(self, path: str) -> str:
        return f"--path={self._prefix}{path}"

    def is_raw(self, data: bytes, oid: str | None) -> bool:
        """Whether a blob has these very bytes."""
        return oid is not None and self._git.oid("blob", data) == oid

    def stands(self, path: str, data: bytes, oid: str | None) -> bool:
        """Whether a file is the blob that HEAD has at its path (None: HEAD has none). Raises FilterFailed, also of a file that git could
        not take in."""
        if oid is not None:
            return self.is_version(path, data, oid)
        self.checked_in(path, data)
        return False

    def _run(self, path: str, rule: Rule, arguments: list[str], data: bytes) -> bytes:
        """What git prints; it runs the person's filters, in the person's language and with an end of our patience."""
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
    """Versions of a file as git's merge driver has them: blobs, and of a filtered path (git-crypt, transcrypt) the files behind the filter.

    Of one repository. Paths are relative to its top. Takes no lock that a git may hold meanwhile.
    """

    def __init__(self, git: Git) -> None:
        self._git = git
        self._attributes = Attributes(git, "")
        self._conversion = Conversion(git, self._attributes, Worktree(git.top), "")

    def filtered(self, path: str) -> bool:
        """Whether the blobs of a path are not the text of its file."""
        rule = self._attributes.rule(path)
        return rule is not None and rule.filter is not None and not rule.missing

    def file(self, path: str, blob: bytes) -> bytes:
        """The file that a blob with these bytes is. Raises FilterFailed."""
        oid = self._git.oid("blob", blob)
        if self._git.resolve(oid) is None:  # of a common ancestor that git has just made up
            self._git.run("hash-object", "-w", "--stdin", "--no-filters", input=blob)
        return self._conversion.checked_out(path, oid)

    def blob(self, path: str, data: bytes) -> bytes:
        """The blob that git makes of a file. Raises FilterFailed."""
        return self._conversion.checked_in(path, data)


class _Kept:
    """The results of conversions that were asked for last."""

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
    """`data`; where the file has the same text `now`, that: of a file's line ends, and of `$Id$`, the history may know less than the folder."""
    one, other = (_IDENT.sub(b"$Id$", text.replace(b"\r\n", b"\n")) for text in (now, data))
    return now if one == other else data


def _matters(words: frozenset[Word], data: bytes) -> bool:
    """Whether any of it would change these bytes on their way into the history."""
    return bool(words & REFUSING) or (Word.TEXT in words and b"\r" in data) or (Word.IDENT in words and b"$Id" in data)


def _said(rule: Rule) -> str:
    """The rule as a person wrote it."""
    if rule.pipe:
        return "a pipe for .gitattributes"
    if rule.filter is not None:
        return f"filter={rule.filter}"
    if rule.encoding is not None:
        return f"working-tree-encoding={rule.encoding}"
    return "ident" if rule.ident else "text"


def _pattern(path: str) -> str:
    """What names the folder of a path in .gitattributes."""
    return f"{path.partition('/')[0]}/**" if "/" in path else path


def _undone(rule: Rule) -> str:
    """What takes a rule back in .gitattributes."""
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
