"""`python -m tests.quality.work fit|held [--misses]`: how often the right command or fix is found. Held ones: totals only."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct, field

from ormahd.actions.work import fix, how
from ormahd.ormah import Ormah
from tests.contract.archiving import bring, opened
from tests.quality import work

FIRST = 3


class Figures(Struct):
    asked: dict[str, int] = field(default_factory=dict)
    right: dict[str, int] = field(default_factory=dict)
    misses: list[str] = field(default_factory=list)

    def share(self, kind: str) -> float:
        return self.right.get(kind, 0) / max(self.asked.get(kind, 0), 1)


@contextmanager
def archived(home: Path) -> Iterator[Ormah]:
    """A vault whose archive has all sessions of the set."""
    with opened(home) as ormah:
        for one in work.sessions():
            bring(ormah, work.write(one, home / "agents"))
        yield ormah


def measure(ormah: Ormah, half: str) -> Figures:
    out = Figures()
    for one in work.questions(half):
        if one.kind == "how":
            found = [hit.command for hit in how(ormah, one.text, one.project, FIRST)]
            right = not {*found}.isdisjoint(one.right)
        else:
            fixes = fix(ormah, one.text, one.project, FIRST)
            found = [name for hit in fixes[:1] for name in (*hit.commands, *(f"~ {file}" for file in hit.files))]
            right = not {*found}.isdisjoint(one.right) if one.kind == "fix" else not fixes
        out.asked[one.kind] = out.asked.get(one.kind, 0) + 1
        out.right[one.kind] = out.right.get(one.kind, 0) + right
        if not right:
            out.misses.append(f"{one.kind} {one.project}: {one.text}\n   right: {one.right}\n   found: {found}")
    return out


def main(half: str, *, misses: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, archived(Path(folder)) as ormah:
        found = measure(ormah, half)
    for kind in ("how", "fix", "none"):
        print(f"{half} {kind}: {found.right.get(kind, 0)} of {found.asked.get(kind, 0)}")
    if misses and half == "fit":
        print("\n".join(found.misses))


if __name__ == "__main__":
    main(sys.argv[1], misses="--misses" in sys.argv)
