"""What two histories released: a person's file that git forgot on one side stays in the folder on both, and is never in the
way of a join.

A release has two commits, the first without our lines in the file, the second without the file; one where there were no lines.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cached_property

from ormahd.git import message
from ormahd.vault.custody import join_left
from ormahd.vault.released import PATH, Released, read
from ormahd.vault.three_way import Version, node_of
from ormahd.vault.vault import Vault


class Releases:
    """The lists of released files of `head` (here) and `other` (there), and what is left of a file that one of them names."""

    def __init__(self, vault: Vault, head: str, other: str) -> None:
        self._vault = vault
        self._head = head
        self._other = other

    def here(self, key: str, before: Version) -> bool:
        """Whether this side released the file that was `before`."""
        return _entry(self._here, key, before.path) is not None

    def there(self, key: str, before: Version, ours: Version) -> Version | None:
        """What stays of `ours` in the folder, where the other side released the file that was `before`; None: it did not."""
        entry = _entry(self._there, key, before.path)
        if entry is None:
            return None
        vault, path = self._vault, self._vault.prefix + entry.path
        log = ["log", "-1", "--format=%H", "--diff-filter=D", self._other, "--", path]
        removed = vault.git.run(*log).decode().strip()
        theirs = vault.git.resolve(f"{removed}^1:{path}") if removed else None
        if theirs is None:
            return None
        made = message.parse(vault.git.run("log", "-1", "--format=%B", f"{removed}^1").decode("utf-8", "replace"))
        adopted = vault.git.resolve(f"{removed}^1^1:{path}") if message.FIRST[0] in made.trailers else theirs
        base = Version(ours.path, vault.blob(adopted or theirs, entry.path))
        joined = join_left(base, ours, Version(ours.path, vault.blob(theirs, entry.path)))
        return joined.version or ours

    def changed_here(self, path: str) -> str:
        """What a person is told whose file another machine released."""
        return (
            f"{path} was changed here and released on another machine: your version stays in the folder, and is no longer synced"
            f" (to have it looked after again: ormahctl vault adopt {shlex.quote(path)})"
        )

    def changed_there(self, theirs: Version) -> str:
        """What a person is told who released a file that another machine changed."""
        return (
            f"{theirs.path} was released here and changed on another machine: your file is untouched, and the change stays there"
            f" (to see it: git show {shlex.quote(f'{self._other[:8]}:{self._vault.prefix}{theirs.path}')})"
        )

    @cached_property
    def _here(self) -> Mapping[str, Released]:
        return self._listed(self._head)

    @cached_property
    def _there(self) -> Mapping[str, Released]:
        return self._listed(self._other)

    def _listed(self, commit: str) -> Mapping[str, Released]:
        blob = self._vault.git.resolve(f"{commit}:{self._vault.prefix}{PATH}")
        return {} if blob is None else read(self._vault.blob(blob, PATH))


def _entry(listed: Mapping[str, Released], key: str, path: str) -> Released | None:
    """The line of a file: by the id that it had, whatever it was called by then, or by its path."""
    node = node_of(key)
    found = (one for one in listed.values() if node is not None and one.node_id == node)
    return next(found, None) or listed.get(path)
