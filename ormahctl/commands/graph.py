"""`ormahctl graph`: the graph of memories for other programs: Graphviz, Mermaid, a canvas of Obsidian, JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from ormahctl import render
from ormahctl.options import TIER, TYPE, OneOf, SpaceName, limit_option
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahd.api import GraphEdge, GraphNode, GraphParams, GraphResult, HelloParams, HelloResult

COLOURS: Final = {
    "decision": "#d97706", "preference": "#db2777", "procedure": "#059669", "person": "#0891b2", "project": "#7c3aed",
    "goal": "#ca8a04", "event": "#dc2626", "concept": "#4f46e5", "observation": "#64748b", "fact": "#2563eb",
}  # fmt: skip
SELF: Final = "#0f766e"
PLAIN_EDGE: Final = "related_to"
MERMAID_EDGES: Final = 500
"""Number of edges from which Mermaid draws nothing, unless its `maxEdges` is raised."""
TITLE_CHARACTERS: Final = 60
CARD_WIDTH, CARD_HEIGHT, CARD_GAP = 320, 160, 420
"""Size of a note on a canvas in pixels, and the distance there that is 1 in the graph's positions."""
DOT_INCHES: Final = 2.0
OBSIDIAN: Final = ".obsidian"


@click.command(
    cls=Verb,
    short_help="The graph, for Graphviz, Mermaid or Obsidian.",
    example="ormahctl graph --space shop > shop.dot && neato -n2 -Tsvg shop.dot > shop.svg\n"
    "ormahctl graph --format mermaid --space shop -n 40\n"
    "ormahctl graph --format canvas > ~/Notes/Memories.canvas",
)
@click.option(
    "--format", "form", type=OneOf(("dot", "mermaid", "canvas", "json")), metavar="FORM", default="dot", show_default=True,
    help="dot (Graphviz), mermaid, canvas (JSON Canvas of Obsidian), or json.",
)  # fmt: skip
@click.option("--space", "spaces", type=SpaceName(), multiple=True, metavar="NAME", help="Only this space; 'global': memories without a space.")  # fmt: skip
@click.option("--type", "types", type=TYPE, metavar="TYPE", multiple=True, help="Only this type; may be given several times.")  # fmt: skip
@click.option("--tier", "tiers", type=TIER, multiple=True, help="Only this tier; may be given several times.")
@limit_option(10_000, default=10_000, what="memories; those with the most connections are taken")
@pass_session
def graph(
    session: Session, form: str, spaces: tuple[str, ...], types: tuple[str, ...], tiers: tuple[str, ...], limit: int
) -> None:
    """Print memories and their connections as a graph. Every memory has the same position each time.

    A canvas refers to the notes by their files, relative to the folder that Obsidian opens: save it anywhere in there,
    and its cards show and open the notes.
    """
    context = click.get_current_context()
    if session.json and form != "json" and context.get_parameter_source("form") is ParameterSource.COMMANDLINE:
        raise click.UsageError(f"--json and --format {form} exclude each other", context)
    params = GraphParams(spaces=list(spaces) or None, types=list(types) or None, tiers=list(tiers) or None, limit=limit)
    found = session.client.call("ui.graph", params, GraphResult)
    render.partial(found.degraded)
    if session.json or form == "json":
        render.emit(found)
    elif form == "canvas":
        vault = Path(session.client.call("hello", HelloParams(client="ormahctl"), HelloResult).vault)
        render.raw(render.encode(canvas(found, _inside_obsidian(vault)), pretty=True))
    else:
        lines: Callable[[GraphResult], Iterator[str]] = dot if form == "dot" else mermaid
        sys.stdout.writelines(line + "\n" for line in lines(found))
    if form == "mermaid" and len(found.edges) > MERMAID_EDGES:
        render.note(f"Mermaid draws at most {MERMAID_EDGES} connections, and these are {len(found.edges):,}: narrow it (--space, -n)")  # fmt: skip
    if not found.nodes:
        render.note("no memory fits")
    elif len(found.nodes) < found.total:
        render.note(f"{len(found.nodes):,} of {found.total:,} memories (-n)")


def _inside_obsidian(vault: Path) -> str:
    """Return the path from the folder that Obsidian opens to the vault, with `/` at its end; "" if they are the same."""
    home = next((folder for folder in (vault, *vault.parents) if (folder / OBSIDIAN).is_dir()), vault)
    inner = vault.relative_to(home).as_posix()
    return "" if inner == "." else inner + "/"


def dot(found: GraphResult) -> Iterator[str]:
    """Yield the lines of a Graphviz graph. `neato -n2` draws it with our positions, other programs with theirs."""
    yield "digraph memories {"
    yield '  node [shape=box, style="rounded,filled", fontname="sans-serif", fontcolor=white, fontsize=10];'
    yield '  edge [fontname="sans-serif", fontsize=8, color="#94a3b8"];'
    for node in found.nodes:
        place = f"{node.x * DOT_INCHES * 72:.1f},{node.y * DOT_INCHES * 72:.1f}"
        yield f'  "{node.short_id}" [label={_quoted(_title(node))}, fillcolor="{_colour(node, found)}", pos="{place}"];'
    for edge in found.edges:
        ends = f'"{edge.source_id[:8]}" -> "{edge.target_id[:8]}"'
        yield f'  {ends} [label="{_label(edge)}", penwidth={1 + 2 * edge.weight:.1f}];'
    yield "}"


def mermaid(found: GraphResult) -> Iterator[str]:
    """Yield the lines of a Mermaid flowchart."""
    yield "flowchart LR"
    for node in found.nodes:
        yield f'  n{node.short_id}["{_mermaid_text(_title(node))}"]'
    for edge in found.edges:
        arrow = f"-->|{_label(edge)}|" if _label(edge) else "---"
        yield f"  n{edge.source_id[:8]} {arrow} n{edge.target_id[:8]}"


def canvas(found: GraphResult, folder: str) -> dict[str, Any]:
    """Return a JSON Canvas (jsoncanvas.org, 1.0): a card for each note, an arrow for each connection."""
    return {
        "nodes": [
            {
                "id": node.short_id, "type": "file", "file": folder + node.path,
                "x": round(node.x * CARD_GAP), "y": round(node.y * CARD_GAP), "width": CARD_WIDTH, "height": CARD_HEIGHT,
                "color": _colour(node, found),
            }
            for node in found.nodes
        ],
        "edges": [
            {
                "id": f"{edge.source_id[:8]}-{edge.edge_type}-{edge.target_id[:8]}",
                "fromNode": edge.source_id[:8], "toNode": edge.target_id[:8],
                **({"label": _label(edge)} if _label(edge) else {"toEnd": "none"}),
            }
            for edge in found.edges
        ],
    }  # fmt: skip


def _title(node: GraphNode) -> str:
    return render.cut(render.line(node.title), TITLE_CHARACTERS)


def _label(edge: GraphEdge) -> str:
    return "" if edge.edge_type == PLAIN_EDGE else edge.edge_type.replace("_", " ")


def _colour(node: GraphNode, found: GraphResult) -> str:
    return SELF if node.id == found.user_node_id else COLOURS.get(node.type, COLOURS["fact"])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _mermaid_text(text: str) -> str:
    """Return a text for a label, with Mermaid's own escapes for characters that it would read as syntax or HTML."""
    escaped = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;", "&": "#amp;"}
    return "".join(escaped.get(one, one) for one in text)
