"""Show an agent the memories that name the file that it edits, or the command that it runs.

The text interrupts the agent's work, so the conditions are stricter than those of a prompt. A memory must contain the
file's path or name, or the command's first words, exactly; similar words do not count. Its type must be one of
`KINDS`, and its space the project's or none. A name that many memories contain is ignored. Each memory is shown once
per session.
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
"""Maximum number of memories shown for one edit or command."""
FEW: Final = 4
"""Maximum number of memories that may contain a name. A name that more of them contain says too little."""
POOL: Final = 60
"""Maximum number of memories that are read for one name."""
SEGMENTS: Final = 6
"""Maximum number of parts, from the end of a path, by which a memory may name a file."""
WORDS: Final = 3
"""Maximum number of words, from the beginning of a command, by which a memory may name it."""
READ: Final = 4_000
"""Maximum number of characters of a command that are read."""
EVERYWHERE: Final = frozenset({
    "__init__.py", "__main__.py", "index.html", "index.js", "index.ts", "index.tsx", "init.py", "lib.rs", "main.go", "main.py",
    "main.rs", "mod.rs", "package.json", "readme.md", "setup.py",
})  # fmt: skip
"""File names that many folders of a project contain. Such a name alone does not show which file a memory means."""
LOOKING: Final = frozenset({
    "awk", "cat", "cd", "chmod", "cp", "cut", "date", "diff", "echo", "env", "export", "find", "grep", "head", "kill", "less", "ls",
    "mkdir", "mv", "printf", "ps", "pwd", "rg", "rm", "rmdir", "sed", "sleep", "sort", "tail", "tee", "test", "touch", "tr", "true",
    "wc", "which", "xargs",
})  # fmt: skip
"""Programs whose first argument is a file or a text instead of a subcommand. Their commands name nothing."""
NESTED: Final = frozenset({
    "aws", "az", "bundle exec", "docker compose", "docker container", "docker image", "docker volume", "gcloud", "gh", "npm run", "pnpm run",
    "poetry run", "uv pip", "uv run", "uv tool", "yarn run",
})  # fmt: skip
"""Beginnings of commands that need one more word to show what runs."""
_PARTS: Final = re.compile(r"&&|\|\||[;|\n&()]")
_ASSIGNED: Final = re.compile(r"\w+=\S*$")
_WORD: Final = re.compile(r"[\w.:@+-]+$")


class NamingIndex(Protocol):
    """What `about` needs from the index: a full text search, and the memories with given ids."""

    def search_text(self, query: str | Sequence[str], limit: int, chosen: Filter) -> list[tuple[str, float]]: ...
    def notes(self, ids: Sequence[str]) -> dict[str, NodeRow]: ...


def names_of_file(path: str) -> list[str]:
    """Return the names by which a memory may mean a file: ends of its path, longest first, then its bare name.

    The bare name is left out if it is short, or if many folders have such a file (`EVERYWHERE`).
    """
    parts = [part for part in PurePosixPath(path.replace("\\", "/")).parts if part not in {"/", ".", ".."}]
    ends = ["/".join(parts[-size:]) for size in range(min(len(parts), SEGMENTS), 1, -1)]
    alone = parts[-1] if parts else ""
    return ends if not alone or alone.lower() in EVERYWHERE or len(alone) < 4 else [*ends, alone]


def names_of_command(command: str) -> list[str]:
    """Return the names by which a memory may mean what a shell command runs.

    For each command in a pipeline or list, these are its first two or three words, beginning with the program.
    """
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
    """Return a text that quotes the memories that contain one of `names`; an empty one if there are none.

    `names`: the names of one file or command, the most specific first. `known`: context keys (`context_key`) of
    memories that the session already has. `replaced`: returns for ids `{older id: newer id}` of those that a newer
    memory replaced; the older memories are left out.
    """
    chosen = Filter(types=KINDS, spaces=(GLOBAL, *([space] if space else [])), alive_at=now)
    found: dict[str, NodeRow] = {}
    for name in names:
        spelled = _spelled(name)
        rows = index.notes([node_id for node_id, _ in index.search_text([name], POOL, chosen)])
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
    """Return a pattern that matches `name`, unless it is part of a longer name.

    For a name of several words (a command), case and the amount of white space between the words do not matter.
    """
    middle = r"\s+".join(map(re.escape, name.split()))
    return re.compile(rf"(?<![\w./-]){middle}(?![\w/-]|\.\w)", re.IGNORECASE if " " in name else 0)
