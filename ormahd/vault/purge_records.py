"""Records of purges: a committed line for each, which does not say what was purged.

The lines show whether something was purged from only one of two histories of a vault. Joining such histories would
restore what was purged.
"""

from __future__ import annotations

import json
from datetime import datetime

from ormahd.errors import Conflict
from ormahd.git.refs import is_ancestor
from ormahd.vault.vault import Vault

FILE = ".ormah/purged.jsonl"


def with_record(data: bytes | None, op: str, when: datetime) -> bytes:
    """Return `data`, the content of `.ormah/purged.jsonl`, with a line for the purge `op` added."""
    line = json.dumps({"id": op, "time": when.isoformat().replace("+00:00", "Z")})
    return (data or b"") + line.encode() + b"\n"


def ids(data: bytes | None) -> set[str]:
    """Return the ids of the purges that are listed in `data`, the content of `.ormah/purged.jsonl`. Unreadable lines
    are ignored."""
    found = set()
    for line in (data or b"").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("id"), str):
            found.add(row["id"])
    return found


def check_same(vault: Vault, other: str, remote: str, branch: str) -> None:
    """Raise Conflict when one side's history still has what was purged on the other. The sides are HEAD and the commit
    `other`, the tip of `branch` of `remote`. Raises nothing when one history is a continuation of the other."""
    oid = vault.git.resolve(f"{other}:{FILE}")
    here, there = ids(vault.committed(FILE)), ids(None if oid is None else vault.blob(oid))
    head = vault.head()
    if here == there or head is None or is_ancestor(vault.git, head, other) or is_ancestor(vault.git, other, head):
        return
    if here - there and there - here:
        raise Conflict(
            f"something was purged here that {remote}/{branch} still holds, and the other way round; nothing was taken in",
            hint="here too, of what was purged there: ormahctl forget --purge ID; then, in the vault: "
            f"git push --force-with-lease {remote} HEAD:{branch}",
            data={"reason": "rewritten"},
        )
    if here - there:
        raise Conflict(
            f"{remote}/{branch} still holds what was purged here: a sync would bring it back; nothing was taken in",
            hint=f"to rewrite it there too, in the vault: git push --force-with-lease {remote} HEAD:{branch}",
            data={"reason": "rewritten"},
        )
    if there - here:
        raise Conflict(
            f"something was purged from {remote}/{branch} that is still in this vault's history: a sync would bring it "
            "back; nothing was taken in",
            hint=f"to go on from theirs, in the vault: git reset --keep {remote}/{branch} "
            f"(git log {remote}/{branch}..HEAD shows what only you have), then here too: ormahctl forget --purge ID",
            data={"reason": "rewritten"},
        )
