"""What is known about the file that an agent edits, or the command that it runs: memories that name it, letter by letter.

An agent is told at the moment when it acts, so the gate is stricter than that of a prompt. Similar words do not count. A
memory has to spell out the file's path or name, or the command's first words. It has to be of a kind that says what to do,
and to belong to the project or to all. A name that many memories have says nothing, and each memory is shown once
a session.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import Final, Protocol

from ormahd.index.rows import GLOBAL, Filter, NodeRow
from ormahd.model.node import NodeType, Tier
from ormahd.text.harness import SHELL, Commands
from ormahd.whisper.greet import CONTENT, Greeting
from ormahd.whisper.render import WHISPERS, enclose, line, quoted
from ormahd.whisper.types import Shown, context_key

KINDS: Final = (NodeType.DECISION, NodeType.PROCEDURE, NodeType.PREFERENCE, NodeType.OBSERVATION)
"""Types of memories that say what to do, or what was tried."""
MOST: Final = 2
"""Maximum number of memories for one act."""
FEW: Final = 4
"""A name that more memories have does not single one out."""
POOL: Final = 60
"""Memories that are read for one name."""
SEGMENTS: Final = 6
"""Parts of a path, from its end, with which a memory may name a file."""
WORDS: Final = 3
"""Words of a command that name it, from its beginning, at most."""
READ: Final = 4_000
"""Characters of a command that are read."""
EVERYWHERE: Final = frozenset({
    "__init__.py", "__main__.py", "index.html", "index.js", "index.ts", "index.tsx", "init.py", "lib.rs", "main.go", "main.py",
    "main.rs", "mod.rs", "package.json", "readme.md", "setup.py",
})  # fmt: skip
"""Names that a project has many times: with them alone, a memory does not say which file it means."""
LOOKING: Final = frozenset({
    "awk", "cat", "cd", "chmod", "cp", "cut", "date", "diff", "echo", "env", "export", "find", "grep", "head", "kill", "less", "ls",
    "mkdir", "mv", "printf", "ps", "pwd", "rg", "rm", "rmdir", "sed", "sleep", "sort", "tail", "tee", "test", "touch", "tr", "true",
    "wc", "which", "xargs",
})  # fmt: skip
"""Programs whose first argument is a file or a text, and no verb."""
NESTED: Final = frozenset({
    "aws", "az", "bundle exec", "docker compose", "docker container", "docker image", "docker volume", "gcloud", "gh", "npm run", "pnpm run",
    "poetry run", "uv pip", "uv run", "uv tool", "yarn run",
})  # fmt: skip
"""Beginnings of commands that are no verb yet: what runs is said by the next word."""
_PARTS: Final = re.compile(r"&&|\|\||[;|\n&()]")
_ASSIGNED: Final = re.compile(r"\w+=\S*$")
_WORD: Final = re.compile(r"[\w.:@+-]+$")


class NamingIndex(Protocol):
    """What is needed from the index."""

    def search_text(self, query: str | Sequence[str], limit: int, chosen: Filter) -> list[tuple[str, float]]: ...
    def notes(self, ids: Sequence[str], *, connections: bool = True) -> dict[str, NodeRow]: ...


def names_of_file(path: str) -> list[str]:
    """Return how a memory may name a file: by the end of its path, the longest first, and by its name alone, unless many
    files have that name."""
    parts = [part for part in PurePosixPath(path.replace("\\", "/")).parts if part not in {"/", ".", ".."}]
    ends = ["/".join(parts[-size:]) for size in range(min(len(parts), SEGMENTS), 1, -1)]
    alone = parts[-1] if parts else ""
    return ends if not alone or alone.lower() in EVERYWHERE or len(alone) < 4 else [*ends, alone]


def names_of_command(command: str) -> list[str]:
    """Return how a memory may name what a shell command runs: by two or three words of each part, from its program on."""
    found: dict[str, None] = {}
    for part in _PARTS.split(command[:READ]):
        words = part.split()
        while words and (_ASSIGNED.match(words[0]) or words[0] in {"sudo", "time", "exec", "nohup"}):
            words.pop(0)
        if not words or PurePosixPath(words[0]).name in LOOKING:
            continue
        said = [PurePosixPath(words[0]).name]
        for word in words[1:WORDS]:
            if not _WORD.match(word) or word.startswith("-"):
                break
            said.append(word)
        nested = said[0] in NESTED or " ".join(said[:2]) in NESTED
        found |= dict.fromkeys(" ".join(said[:size]) for size in range(len(said), 2 if nested else 1, -1))
    return list(found)


def about(
    index: NamingIndex,
    names: Sequence[str],
    *,
    space: str | None,
    known: Collection[str],
    now: datetime,
    replaced: Callable[[Sequence[str]], Mapping[str, str]],
    commands: Commands = SHELL,
) -> Greeting:
    """Return the text about a file or command that has one of `names`, the most telling first; empty if there is nothing.

    `known`: context keys of memories that the session already has. `replaced`: finds memories that a newer one replaced, which
    are left out.
    """
    chosen = Filter(types=KINDS, spaces=(GLOBAL, *([space] if space else [])), alive_at=now)
    found: dict[str, NodeRow] = {}
    for name in names:
        spelled = _spelled(name)
        rows = index.notes([node_id for node_id, _ in index.search_text([name], POOL, chosen)], connections=False)
        having = {
            row.id: row
            for row in rows.values()
            if row.tier is not Tier.ARCHIVAL
            and (row.space is not None or "/" in name or " " in name)  # a bare file name means another file elsewhere
            and any(spelled.search(text) for text in (row.title or "", row.content))
        }
        if len(having) > FEW:
            break
        found |= {node_id: row for node_id, row in having.items() if node_id not in found}
    fresh = [row for row in found.values() if context_key(row) not in known]
    newer = replaced([row.id for row in fresh])
    shown: dict[str, Shown] = {}
    lines: list[str] = []
    for row in [row for row in fresh if row.id not in newer][:MOST]:
        body = quoted(row.content, CONTENT)
        lines += [line(row), *([body] if body else [])]
        shown[context_key(row)] = "full" if len(row.content) <= CONTENT else "title"
    return Greeting(enclose(lines, commands=commands, heading=WHISPERS), shown) if shown else Greeting()


def _spelled(name: str) -> re.Pattern[str]:
    """Return a pattern for `name` that is no part of a longer name. Between the words of a command may be more spaces,
    and a sentence may begin with them."""
    middle = r"\s+".join(map(re.escape, name.split()))
    return re.compile(rf"(?<![\w./-]){middle}(?![\w/-]|\.\w)", re.IGNORECASE if " " in name else 0)
