"""Tours: each makes changes of one kind, so that they can be taken back, by `undo`, by `git revert`, by whatever comes.

    state = tour.prepare(house)      # memories to work on
    commits = tour.walk(house, state)   # the change; its commits, newest first

`edited` is what a person's later edit makes of a note. A tour is whole when, taken back, every note is byte for byte as it
was before, or as `edited` makes it of that.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from ormahd.git.commit_message import compose as commit_message
from ormahd.model.change import Kind, OpIds
from ormahd.model.node import EdgeType, Tier
from ormahd.note.edit import edit
from ormahd.note.read import parse
from ormahd.note.values import NoteLink, path_for
from ormahd.note.write import compose
from tests.house import House, wait_until

Notes = Mapping[str, bytes]
State = dict[str, str]
"""Ids of the memories that a tour works on, by the name it gives them."""

CORE = 3
"""The houses of these tours have `tiers.core_cap` at this, so that core is soon full."""
new_op = OpIds(lambda: datetime.now(UTC))
STANZA = "\n\nIt has a second part\n\nand a third one\n\nand a last word."
"""So that an edit at the end and one at the beginning do not touch."""


def walk_home(house: House) -> None:
    """Wait until the daemon has taken in all that happened, and index, history and folder agree."""
    wait_until(lambda: house.git("status", "--porcelain") == "", "everything is committed")
    wait_until(lambda: house.call("admin.verify").ok, "the index equals the vault")


def head(house: House) -> str:
    return house.git("rev-parse", "HEAD").strip()


def commits_since(house: House, commit: str) -> list[str]:
    return house.git("rev-list", f"{commit}..HEAD").split()


def remember(house: House, content: str, **more: object) -> str:
    return house.call("agent.remember", content=content + STANZA, space="tours", **more).node_id


def path_of(house: House, node_id: str) -> str:
    (path,) = [path for path, data in house.notes().items() if parse(data, path).id == node_id]
    return path


def edited(data: bytes) -> bytes:
    """A person's later edit: a property of their own and a last line."""
    head_, text = data.split(b"\n---\n", 1)
    return head_ + b"\nmood: mine\n---\n" + text + b"\nA later word of mine.\n"


def edit_by_hand(house: House, paths: list[str]) -> None:
    for path in paths:
        file = house.vault / path
        file.write_bytes(edited(file.read_bytes()))
    walk_home(house)


# What jobs of later will write, made with git in a clone and brought in by `git pull`


def as_job(
    house: House, kind: Kind, changes: Mapping[str, bytes | None], *, job: str = "night_job", run: str | None = None,
    subject: str | None = None,
) -> str:  # fmt: skip
    """One op as a job writes it: its files (None: removed) in one commit with our trailers. The commit."""
    walk_home(house)
    nodes = []
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        _git(house, Path(folder), "clone", "-q", str(house.vault), str(clone))
        for path, data in changes.items():
            file = clone / path
            if path.endswith(".md"):
                nodes.append(parse(data if data is not None else file.read_bytes(), path).id or "")
            if data is None:
                file.unlink()
            else:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
        said = commit_message(
            subject or f"{kind.capitalize()}: a thing of the night", "cosine .93\nverdict: same", op=new_op(), kind=kind,
            source=f"job:{job}", run=run, nodes=nodes,
        )  # fmt: skip
        _git(house, clone, "add", "-A")
        _git(house, clone, "commit", "-q", "-m", said)
        _git(house, house.vault, "pull", "-q", "--ff-only", str(clone))
    walk_home(house)
    return head(house)


def _git(house: House, folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, env=house.env, check=True, capture_output=True, timeout=120)


def changed(house: House, node_id: str, **how: object) -> dict[str, bytes | None]:
    """A note with some fields or edges changed, as `note.edit.edit` does it."""
    path = path_of(house, node_id)
    moment = {"updated": datetime.now(UTC).replace(microsecond=0)}
    given = {"set": moment} | how
    given["set"] = moment | given["set"]  # type: ignore[operator]
    return {path: edit(house.notes()[path], path, **given)}  # type: ignore[arg-type]


def link(house: House, kind: EdgeType, target: str, weight: float = 0.7, reason: str | None = None) -> NoteLink:
    return NoteLink(kind, Path(path_of(house, target)).stem, weight, datetime.now(UTC).replace(microsecond=0), reason)


# The tours


@dataclass(frozen=True)
class Tour:
    name: str
    do: Callable[[House, State], None]
    memories: Mapping[str, str] = field(default_factory=dict)
    """Name -> the first line of a memory that is there beforehand."""
    ready: Callable[[House, State], None] = lambda house, state: None
    """What else happens beforehand."""

    def prepare(self, house: House) -> State:
        state = {name: remember(house, content, title=name.capitalize()) for name, content in self.memories.items()}
        walk_home(house)
        self.ready(house, state)
        return state

    def walk(self, house: House, state: State) -> list[str]:
        before = head(house)
        self.do(house, state)
        walk_home(house)
        made = commits_since(house, before)
        assert made, "the tour changed nothing"
        return made

    def end(self, house: House, state: State) -> None:
        """Wait until all that was taken back is taken in."""
        walk_home(house)


def _update(house: House, s: State) -> None:
    house.call("agent.update", node_id=s["kettle"], content="The kettle is red" + STANZA, title="Red kettle", tier="core",
               type="decision", add_tags=["red"], confidence=0.5, add_connections=[{"target": s["stove"], "edge": "part_of"}])  # fmt: skip


def _remember(house: House, _: State) -> None:
    remember(house, "A teapot stands beside the kettle", title="Teapot", links=[])


def _fill_core(house: House, s: State) -> None:
    for number in range(CORE):
        house.call("agent.update", node_id=s[f"core{number}"], tier="core")
    walk_home(house)


def _remember_core(house: House, s: State) -> None:
    """About the user, and core is full: the self node gets an edge, others make room, all in one commit."""
    done = house.call("agent.remember", content="Drinks tea at four", tier="core", about_self=True, space=None)
    assert done.demoted, "core was full"


def _forget(house: House, s: State) -> None:
    house.call("agent.forget", node_id=s["kettle"])


def _connect(house: House, s: State) -> None:
    house.call(
        "agent.connect", source_id=s["kettle"], target_id=s["stove"], edge="depends_on", weight=0.9, reason="heat"
    )


def _disconnect(house: House, s: State) -> None:
    _connect(house, s)
    house.call("agent.connect", source_id=s["kettle"], target_id=s["stove"], edge="depends_on", remove=True)


def _outdated(house: House, s: State) -> None:
    house.call("agent.outdated", node_id=s["kettle"], reason="it broke")


def _import(house: House, _: State) -> None:
    lines = [
        json.dumps({"content": f"import line {number} says thing {number * 7}", "space": "tours"})
        for number in range(60)
    ]
    done = house.ctl("import", "-", input="\n".join(lines))
    assert done.returncode == 0, done.stderr


def _drop_in(house: House, _: State) -> None:
    (house.vault / "Dropped in.md").write_bytes(b"A note that a person dropped in.\n")


def _edit(house: House, s: State) -> None:
    file = house.vault / path_of(house, s["kettle"])
    file.write_bytes(file.read_bytes().replace(b"is blue", b"is green").replace(b"tier: working", b"tier: archival"))


def _move(house: House, s: State) -> None:
    file = house.vault / path_of(house, s["kettle"])
    (house.vault / "kitchen").mkdir(exist_ok=True)
    file.rename(house.vault / "kitchen" / "My kettle.md")


def _swap(house: House, s: State) -> None:
    """Two notes take each other's names, in one commit (of a job: by hand the daemon may see one before the other)."""
    one, two = path_of(house, s["kettle"]), path_of(house, s["stove"])
    notes = house.notes()
    as_job(house, Kind.CLUSTER, {one: notes[two], two: notes[one]})


def _delete(house: House, s: State) -> None:
    (house.vault / path_of(house, s["kettle"])).unlink()


def _undo(house: House, _: State) -> None:
    assert house.ctl("undo", head(house)).returncode == 0


def _support_twin(house: House, s: State) -> None:
    house.call("agent.connect", source_id=s["stove"], target_id=s["twin"], edge="supports", weight=0.8)
    walk_home(house)


def _merge(house: House, s: State) -> None:
    """Two become one: the keeper gets the text and the edges, the other goes, and a neighbour's edge is led to the keeper."""
    keeper, loser = s["kettle"], s["twin"]
    stove = path_of(house, s["stove"])
    stem = Path(path_of(house, loser)).stem
    as_job(
        house, Kind.MERGE,
        changed(house, keeper, content="The kettle is blue and whistles" + STANZA, link=[link(house, EdgeType.SUPPORTS, s["stove"])])
        | {path_of(house, loser): None}
        | {stove: edit(house.notes()[stove], stove, unlink=[(EdgeType.SUPPORTS, stem)],
                       link=[link(house, EdgeType.SUPPORTS, keeper, 0.8)])},
        job="duplicate_merger",
    )  # fmt: skip


def _consolidate(house: House, s: State) -> None:
    """A new note, and its sources sleep and point to it."""
    now = datetime.now(UTC).replace(microsecond=0)
    node_id = str(uuid.uuid4())
    text = "Kettle and stove, in short."
    path = path_for(id=node_id, type="concept", space="tours", title="Kitchen", content=text, created=now)
    new = compose(id=node_id, type="concept", tier="working", space="tours", title="Kitchen", tags=["consolidated"],
                  source="job:consolidator", confidence=1.0, created=now, updated=now, content=text,
                  links=[link(house, EdgeType.DERIVED_FROM, s["kettle"]), link(house, EdgeType.DERIVED_FROM, s["stove"])])  # fmt: skip
    made = {path: new}
    for name in ("kettle", "stove"):
        made |= changed(house, s[name], set={"tier": Tier.ARCHIVAL, "tags": ["superseded"]})
    as_job(house, Kind.CONSOLIDATE, made, job="consolidator")


def _links(house: House, s: State) -> None:
    """One commit of a run: several notes get several edges."""
    a, b, c = s["kettle"], s["stove"], s["twin"]
    as_job(
        house, Kind.LINK,
        changed(house, a, link=[link(house, EdgeType.SUPPORTS, b, reason="both boil"), link(house, EdgeType.PART_OF, c)])
        | changed(house, b, link=[link(house, EdgeType.DEPENDS_ON, c, 0.6)]),
        job="auto_linker",
    )  # fmt: skip


def _cluster(house: House, s: State) -> None:
    as_job(house, Kind.CLUSTER, changed(house, s["kettle"], set={"space": "kitchen"})
           | changed(house, s["stove"], set={"space": "kitchen"}), job="auto_cluster")  # fmt: skip


def _conflict(house: House, s: State) -> None:
    as_job(house, Kind.CONFLICT, changed(house, s["kettle"], link=[link(house, EdgeType.CONTRADICTS, s["twin"], reason="colour")])
           | changed(house, s["twin"], set={"valid_until": datetime.now(UTC).replace(microsecond=0)}))  # fmt: skip


def _decay(house: House, s: State) -> None:
    as_job(house, Kind.DECAY, changed(house, s["kettle"], set={"tier": Tier.ARCHIVAL}), job="decay_manager")


def _promote(house: House, s: State) -> None:
    as_job(house, Kind.PROMOTE, changed(house, s["kettle"], set={"tier": Tier.CORE}), job="importance_scorer")


KETTLE = {"kettle": "The kettle is blue", "stove": "The stove is hot", "twin": "A kettle that is blue"}

TOURS = [
    Tour("remember", _remember, KETTLE),
    Tour(
        "remember, and core is full",
        _remember_core,
        {f"core{n}": f"A thing of weight {n} and {n * 31}" for n in range(CORE)},
        _fill_core,
    ),
    Tour("update", _update, KETTLE),
    Tour("forget", _forget, KETTLE),
    Tour("connect", _connect, KETTLE),
    Tour("connect and disconnect", _disconnect, KETTLE),
    Tour("outdated", _outdated, KETTLE),
    Tour("import", _import),
    Tour("drop in", _drop_in),
    Tour("edit", _edit, KETTLE),
    Tour("move", _move, KETTLE),
    Tour("delete", _delete, KETTLE),
    Tour("undo", _undo, KETTLE, _update),
    Tour("merge", _merge, KETTLE, _support_twin),
    Tour("consolidate", _consolidate, KETTLE),
    Tour("link", _links, KETTLE),
    Tour("cluster", _cluster, KETTLE),
    Tour("conflict", _conflict, KETTLE),
    Tour("decay", _decay, KETTLE),
    Tour("promote", _promote, KETTLE),
]

SWAP = Tour("swap of names", _swap, KETTLE)
"""Undo gives each its name back; git, which goes by names, can do so only while nobody edited them since."""
