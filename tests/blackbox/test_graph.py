"""The graph: `ui.*` over the socket, and `ormahctl graph` for Graphviz, Mermaid and Obsidian."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from ormahd import api
from ormahd.errors import BadRequest, NotFound
from tests.house import House, open_house, wait_until

TITLES = (
    'She said "no" \\ and <b>left</b> & #1', "Vite builds the shop", "Ships are built with `make ship`", "Plain title", "Bell\x07 rings",
)  # fmt: skip


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as found:
        found.start()
        made = [
            found.call(
                "agent.remember",
                content=f"Text {at} of a memory about tides and harbours",
                title=title,
                space="shop" if at % 2 else None,
                type=("decision", "fact")[at % 2],
            )
            for at, title in enumerate(TITLES)
        ]
        ids = [one.node_id for one in made]
        for source, target, edge in ((0, 1, "supports"), (1, 2, "related_to"), (1, 3, "contradicts")):
            found.call("agent.connect", source_id=ids[source], target_id=ids[target], edge=edge, weight=0.8)
        yield found


def ids(house: House) -> dict[str, str]:
    return {one.title: one.id for one in house.call("ui.graph").nodes}


def positions(house: House) -> dict[str, tuple[float, float]]:
    return {one.id: (one.x, one.y) for one in house.call("ui.graph").nodes}


def test_the_graph_has_the_seeds_shape(house: House) -> None:
    found: dict[str, Any] = msgspec.to_builtins(house.call("ui.graph"))
    assert found.keys() == {"nodes", "edges", "user_node_id", "total", "degraded"}
    assert found["user_node_id"] in {one["id"] for one in found["nodes"]}
    assert found["total"] == len(found["nodes"]) == len(TITLES) + 1
    assert all(edge.keys() == {"source_id", "target_id", "edge_type", "weight", "created"} for edge in found["edges"])
    by_title = ids(house)
    ends = {(edge["source_id"], edge["target_id"], edge["edge_type"]) for edge in found["edges"]}
    assert (by_title["Vite builds the shop"], by_title["Plain title"], "contradicts") in ends


def test_filters_and_limit(house: House) -> None:
    everything: api.GraphResult = house.call("ui.graph")
    shop: api.GraphResult = house.call("ui.graph", spaces=["shop"])
    assert {one.space for one in shop.nodes} == {"shop"}
    assert shop.user_node_id == everything.user_node_id
    there = {one.id for one in shop.nodes}
    assert all({edge.source_id, edge.target_id} <= there for edge in shop.edges)
    assert {(one.id, one.x, one.y) for one in shop.nodes} <= {(one.id, one.x, one.y) for one in everything.nodes}
    assert {one.type for one in house.call("ui.graph", types=["decision"]).nodes} == {"decision"}
    assert house.call("ui.graph", tiers=["archival"]).nodes == []
    few: api.GraphResult = house.call("ui.graph", limit=2)
    assert (len(few.nodes), few.total) == (2, everything.total)
    assert {few.nodes[0].id, few.nodes[1].title} == {few.user_node_id, "Vite builds the shop"}, "the best connected one"
    with pytest.raises(BadRequest, match="type"):
        house.call("ui.graph", types=["nonsense"])


def test_one_node_and_search_and_insights(house: House) -> None:
    id_ = ids(house)["Vite builds the shop"]
    before = house.call("agent.get", node_id=id_, touch=False).access_count
    found: api.GraphNodeResult = house.call("ui.node", node_id=id_[:8])
    assert found.node.id == id_
    assert {one.title for one in found.neighbors} >= {"Plain title", "Ships are built with `make ship`"}
    assert {end for edge in found.edges for end in (edge.source_id, edge.target_id)} == {one.id for one in found.neighbors} | {id_}  # fmt: skip
    hits = house.call("ui.search", query="vite builds", limit=3).results
    assert hits[0].id == id_
    assert len(hits) <= 3
    assert house.call("agent.get", node_id=id_, touch=False).access_count == before, "looking is no use"
    assert [one.a.id for one in house.call("ui.insights").tensions] == [id_]
    with pytest.raises(NotFound):
        house.call("ui.node", node_id="ffffffff")


def test_positions_stay(house: House) -> None:
    before = positions(house)
    house.restart()
    assert positions(house) == before
    made = house.call("agent.remember", content="A new one in the shop", space="shop").node_id
    after = positions(house)
    assert {id_: at for id_, at in after.items() if id_ != made} == before
    assert after[made] not in before.values()
    house.call("admin.rebuild")
    assert positions(house) == after
    done = house.call("agent.forget", node_id=made)
    assert positions(house) == before
    house.call("history.undo", ops=[done.op])
    assert positions(house) == after
    house.stop()
    shutil.rmtree(house.index_dir)
    house.start()
    again = positions(house)
    assert again.keys() == after.keys(), "a new index has a picture too"
    assert positions(house) == again


def test_dot(house: House) -> None:
    done = house.ctl("graph")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "digraph memories {"
    assert lines[-1] == "}"
    assert "\x07" not in done.stdout
    nodes = [re.fullmatch(r'  "([0-9a-f]{8})" \[label="((?:[^"\\]|\\.)*)", fillcolor="#[0-9a-f]{6}", pos="[-\d.]+,[-\d.]+"\];', line) for line in lines[3:]]  # fmt: skip
    titles = [found[2] for found in nodes if found]
    assert len(titles) == house.call("ui.graph").total
    assert 'She said \\"no\\" \\\\ and <b>left</b> & #1' in titles
    assert any('[label="contradicts", penwidth=2.6];' in line for line in lines)


def test_mermaid(house: House) -> None:
    done = house.ctl("graph", "--format", "mermaid", "--space", "shop", "--space", "global")
    lines = done.stdout.splitlines()
    assert lines[0] == "flowchart LR"
    assert "#quot;no#quot;" in done.stdout
    assert "<b>" not in done.stdout
    for line in lines[1:]:
        assert re.fullmatch(r'  n[0-9a-f]{8}(\["[^"]*"\]| (---|-->\|[a-z ]+\|) n[0-9a-f]{8})', line), line


@pytest.mark.parametrize("around", [False, True], ids=["the vault", "a folder around it"])
def test_a_canvas_of_obsidian(house: House, around: bool) -> None:
    top = house.home if around else house.vault
    (top / ".obsidian").mkdir()
    try:
        found = json.loads(house.ctl("graph", "--format", "canvas").stdout)
    finally:
        (top / ".obsidian").rmdir()
    ids = [one["id"] for one in found["nodes"]]
    assert len(set(ids)) == len(ids) == house.call("ui.graph").total
    for one in found["nodes"]:
        assert one["type"] == "file"
        assert (top / one["file"]).is_file(), "Obsidian opens the note"
        assert all(isinstance(one[field], int) for field in ("x", "y", "width", "height"))
        assert re.fullmatch("#[0-9a-f]{6}", one["color"])
    boxes = [(one["x"], one["y"]) for one in found["nodes"]]
    assert all(abs(a[0] - b[0]) >= 320 or abs(a[1] - b[1]) >= 160 for at, a in enumerate(boxes) for b in boxes[:at]), "no card lies on another"  # fmt: skip
    assert len({one["id"] for one in found["edges"]}) == len(found["edges"]) > 0
    assert all({one["fromNode"], one["toNode"]} <= set(ids) for one in found["edges"])


def test_json_and_nothing(house: House) -> None:
    assert house.json("graph", "-n", "1")["total"] == house.json("graph", "--format", "json")["total"]
    empty = house.ctl("graph", "--space", "nowhere")
    assert (empty.returncode, "no memory fits" in empty.stderr) == (0, True)
    assert "did you mean" in house.ctl("graph", "--format", "mermade").stderr


def test_a_memory_stored_while_the_graph_is_read(house: House) -> None:
    made = house.call("agent.remember", content="Stored at this very moment").node_id
    wait_until(lambda: made in positions(house), "it is in the picture")
