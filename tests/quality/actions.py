"""Measures what is told before an action: `python -m tests.quality.actions dev|held [--misses]` (README, "Actions").

Of each project's memories the table of what they are about is made as the index makes it, and each action is looked up
in it, as a hook does.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ormahd.index.rows import read_acts
from ormahd.index.write import acts_json
from ormahd.model.node import NodeType, NoteStanding
from ormahd.note.values import Note, NoteKind
from ormahd.whisper.at_hand import MAX_SHOWN, SpaceActs, action

HERE = Path(__file__).parent
DEV = ("shop", "atlas", "ledger", "fleet", "pylon")
"""The projects that are looked at; the others are held."""


class Outcome(NamedTuple):
    """An action, the memory that bears on it ("-": none, "?KEY": it may be told), and what was told."""

    project: str
    tool: str
    what: str
    wanted: str
    told: list[str]

    @property
    def wrong(self) -> list[str]:
        return [key for key in self.told if key != self.wanted.lstrip("?")]


def table(name: str) -> list[list[str]]:
    """Return the rows of a table of this folder, without comments."""
    lines = (HERE / name).read_text("utf-8").splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


def note(key: str, kind: str, title: str, content: str, because: str) -> Note:
    rejected = NoteStanding.REJECTED if because != "-" else None
    return Note(
        f"{key}.md", NoteKind.NOTE, "", key, NodeType(kind), title=None if title == "-" else title, content=content,
        standing=rejected, because=because if rejected else None,
    )  # fmt: skip


def outcomes(half: str) -> Iterator[Outcome]:
    """Yield what is told for each action of a half."""
    known: dict[str, list[tuple[str, str]]] = {}
    for project, *memory in table("actions_memories.tsv"):
        if said := acts_json(note(*memory)):
            known.setdefault(project, []).append((memory[0], said))
    tables = {
        name: SpaceActs([(key, read_acts(one)) for key, one in some], everywhere=False) for name, some in known.items()
    }
    for project, tool, what, wanted in table("actions.tsv"):
        if (project in DEV) == (half == "dev"):
            act = action(what, ()) if tool == "run" else action(None, (f"/home/u/{project}/{what}",))
            best = dict.fromkeys(match.id for match in tables[project].matches(act))
            yield Outcome(project, tool, what, wanted, list(best)[:MAX_SHOWN])


def figures(some: list[Outcome]) -> dict[str, int]:
    """Return counts: actions on which a memory bears, those for which it was told, the others, and memories told that do
    not bear."""
    bears = [one for one in some if one.wanted[0] not in "-?"]
    told = sum(one.wanted in one.told for one in bears)
    return {"bears": len(bears), "told": told, "all": len(some), "beside": sum(bool(one.wrong) for one in some)}


if __name__ == "__main__":
    every = list(outcomes(sys.argv[1]))
    if "--misses" in sys.argv:
        for one in every:
            if one.wrong or (one.wanted[0] not in "-?" and one.wanted not in one.told):
                print(*one[:4], "told:", *(one.told or ["nothing"]))
    print(figures(every), dict(Counter(one.wanted[0] if one.wanted[0] in "-?" else "told" for one in every)))
