"""A vault with a long past, for figures of history, undo and purge.

Made by `git fast-import`: an import of all notes, then one edit a commit, spread over a hundred days, with the trailers
that the daemon writes; every twentieth commit is made by hand, without them.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ormahd.git.oplog import compose as message
from ormahd.model.change import Kind, OpIds
from ormahd.note.values import path_for
from ormahd.note.write import compose
from tests.bench import corpus
from tests.bench.foundation import timed
from tests.house import House, open_house

DAYS = 100
IMPORT_COMMIT = 500
BY_HAND = 20


def note(item: dict[str, Any], number: int, created: datetime, version: int) -> tuple[str, str, bytes]:
    """(id, path, bytes) of a memory in its nth version."""
    node_id = f"{number:08x}-0000-4000-8000-{number:012x}"
    kind, space, title = item.get("type") or "fact", item.get("space"), item.get("title")
    content = item["content"] if version == 0 else f"{item['content']}\nRevised for the {version}. time on reflection."
    path = path_for(id=node_id, type=kind, space=space, title=title, content=item["content"], created=created)
    data = compose(
        id=node_id, type=kind, tier="working", space=space, title=title, tags=item.get("tags") or [],
        source="agent:bench", confidence=1.0, created=created, updated=created + timedelta(days=version),
        content=content,
    )  # fmt: skip
    return node_id, path, data


def history(house: House, items: list[dict[str, Any]], commits: int) -> list[str]:
    """Write the vault's past below its present branch; returns the notes' ids."""
    begun = datetime.now(UTC) - timedelta(days=DAYS)
    step = timedelta(days=DAYS) / commits
    clock = _Clock(begun)
    ops = OpIds(clock)
    branch = house.git("symbolic-ref", "HEAD").strip()
    made = [note(item, number, begun, 0) for number, item in enumerate(items)]
    chance = random.Random(1)
    git = subprocess.Popen(
        ["git", "fast-import", "--quiet", "--force"], cwd=house.vault, env=house.env, stdin=subprocess.PIPE
    )
    assert git.stdin is not None
    out = git.stdin

    def commit(text: str, when: datetime, files: list[tuple[str, bytes]], parent: str | None) -> None:
        words = text.encode()
        stamp = f"Ada Person <ada@example.org> {int(when.timestamp())} +0000".encode()
        out.write(b"commit %b\ncommitter %b\ndata %d\n%b\n" % (branch.encode(), stamp, len(words), words))
        if parent:
            out.write(b"from %b^0\n" % parent.encode())
        for path, data in files:
            out.write(b"M 644 inline %b\ndata %d\n%b\n" % (path.encode(), len(data), data))

    parent: str | None = branch
    now = begun
    for at in range(0, len(made), IMPORT_COMMIT):
        some = made[at : at + IMPORT_COMMIT]
        text = message(f"Import {len(some)} memories", "", op=ops(), kind=Kind.IMPORT, source="person", run="bench",
                       nodes=[node_id for node_id, _, _ in some])  # fmt: skip
        commit(text, now, [(path, data) for _, path, data in some], parent)
        parent = None
    versions = [0] * len(items)
    for number in range(commits - len(made) // IMPORT_COMMIT):
        clock.now = now = begun + step * number
        chosen = chance.randrange(len(items))
        versions[chosen] += 1
        node_id, path, data = note(items[chosen], chosen, begun, versions[chosen])
        if number % BY_HAND == 0:
            commit("edited by hand", now, [(path, data)], None)
        else:
            text = message("Update: a note of the benchmark", "because the benchmark says so", op=ops(),
                           kind=Kind.UPDATE, source="agent:bench", nodes=[node_id])  # fmt: skip
            commit(text, now, [(path, data)], None)
    out.close()
    assert git.wait() == 0
    house.git("reset", "-q", "--hard")
    return [node_id for node_id, _, _ in made]


class _Clock:
    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


def parser(description: str | None, *, model: str = "hashing") -> argparse.ArgumentParser:
    """The options by which a figure's vault is chosen."""
    found = argparse.ArgumentParser(description=description)
    found.add_argument("--notes", type=int, default=10_000)
    found.add_argument("--commits", type=int, default=20_000)
    found.add_argument("--model", default=model)
    return found


@contextmanager
def long_house(chosen: argparse.Namespace) -> Iterator[tuple[House, list[str]]]:
    """A house whose daemon is ready in such a vault, and the notes' ids."""
    with open_house(ORMAH_EMBEDDING_MODEL=chosen.model) as house:
        house.start()
        house.stop()
        lines = corpus.write(house.home / "notes.jsonl", chosen.notes)
        items = [json.loads(line) for line in Path(lines).read_text("utf-8").splitlines()]
        ids: list[str] = []
        made = timed(lambda: ids.extend(history(house, items, chosen.commits)))
        print(f"{chosen.notes} notes, {chosen.commits} commits (made in {made:.0f} s), model {chosen.model}")
        house.start(phase="")
        begun = time.perf_counter()
        while house.call("hello").phase != "ready" or house.call("admin.health").index.pending_vectors:
            time.sleep(1.0)
        print(f"indexed in {time.perf_counter() - begun:.0f} s")
        yield house, ids
