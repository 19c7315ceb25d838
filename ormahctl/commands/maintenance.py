"""`ormahctl maintenance`: what the jobs found and could not decide, handed to whoever judges; and his verdicts, applied."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any

import click
import msgspec

from ormahctl import render
from ormahctl.complete import Words
from ormahctl.progress import Bar
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahd.api import (
    CandidateNode,
    CandidatePair,
    MaintenanceCounts,
    MaintenanceParams,
    MaintenanceResult,
    Progress,
)

SECONDS = 600.0
HEADINGS = {
    "merge_candidates": "Pairs to merge: do both say the same?",
    "conflict_candidates": "Pairs that may conflict: did one replace the other, or do they contradict?",
    "link_candidates": "Pairs to link: how does one relate to the other?",
}
CLUSTERS = "Clusters to unite: can one memory say what they say?"
ANSWER = (
    "Write results as JSON, with the ids above, and send them: ormahctl maintenance apply FILE\n"
    '  {"receipt": "%s",\n'
    '   "merges": [{"keep_id": …, "remove_id": …, "title": …, "content": …, "reason": …}],\n'
    '   "conflicts": [{"source_id": the newer, "target_id": …, "kind": "evolution" or "tension", "reason": …}],\n'
    '   "edges": [{"source_id": …, "target_id": …, "edge_type": "supports", "weight": 0.8, "reason": …}],\n'
    '   "consolidations": [{"node_ids": […], "title": …, "content": …, "type": "fact", "reason": …}]}'
)


@click.command(
    cls=Verb,
    short_help="Judge what the jobs could not decide, in two steps.",
    example="ormahctl --json maintenance\normahctl maintenance apply results.json\ncat results.json | ormahctl maintenance apply -",
)
@click.argument("words", metavar="[apply FILE|-]", nargs=-1, type=Words({"apply": click.Path()}))
@pass_session
def maintenance(session: Session, words: tuple[str, ...]) -> None:
    """Print pairs and clusters of memories that wait for a judgement; `apply` sends the results back.

    Results are a JSON object with the receipt and any of the lists edges, merges, consolidations and conflicts. What gets
    no result counts as judged: no, and is not asked again. Whatever is applied can be taken back (`ormahctl undo --run RUN`).
    """
    context = click.get_current_context()
    if not words:
        _hand_out(session)
    elif len(words) == 2 and words[0] == "apply":
        file = click.File("rb").convert(words[1], None, context)
        _apply(session, _results(file, context))
    else:
        raise click.UsageError("give nothing, or: apply FILE (- for standard input)", context)


def _results(file: IO[bytes], context: click.Context) -> dict[str, Any]:
    if file.isatty():
        sys.stderr.write("reading JSON from the terminal; end with Ctrl-D\n")
    try:
        found = msgspec.json.decode(file.read())
    except msgspec.DecodeError as exc:
        raise click.UsageError(f"the results are no JSON: {exc}", context) from None
    inner = found.get("results", found) if isinstance(found, dict) else found
    if not isinstance(inner, dict):
        raise click.UsageError("the results are no JSON object", context)
    outer = found.get("receipt")
    return {**inner, "receipt": outer} if outer is not None and "receipt" not in inner else inner


def _call(session: Session, params: MaintenanceParams) -> MaintenanceResult:
    with Bar("looking") as bar:

        def draw(at: Progress) -> None:
            bar.set(at.done, at.total, what=at.stage)

        return session.client.call("agent.maintenance", params, MaintenanceResult, on_progress=draw, timeout=SECONDS)


def _apply(session: Session, results: Mapping[str, Any]) -> None:
    done = _call(session, MaintenanceParams(results=dict(results)))
    if session.json:
        render.emit(done)
        return
    if isinstance(done.summary, MaintenanceCounts):
        counts = [
            render.count(done.summary.edges, "link"), render.count(done.summary.conflicts, "conflict"),
            render.count(done.summary.merges, "merge"), render.count(done.summary.consolidations, "consolidation"),
        ]  # fmt: skip
        render.out(f"applied: {', '.join(counts)}; {done.summary.skipped} skipped")
    if isinstance(done.run, str):
        render.out(f"run {render.line(done.run)} (ormahctl undo --run {render.line(done.run)} takes it back)")
    sys.stdout.flush()
    for one in done.refused if isinstance(done.refused, list) else ():
        blamed = f" {render.line(one.id)}" if one.id else ""
        render.note(f"{render.line(one.item)}{blamed}: {render.line(one.why)}", label="refused", colour="red")


def _hand_out(session: Session) -> None:
    handed = _call(session, MaintenanceParams())
    if session.json:
        render.emit(handed)
        return
    found = False
    for name, heading in HEADINGS.items():
        pairs: Sequence[CandidatePair] = getattr(handed, name) or ()
        if pairs:
            found = True
            render.out(render.paint(heading, "bold"))
        for number, pair in enumerate(pairs, 1):
            render.out(f"{number}. similarity {pair.similarity:.2f}")
            _print(pair.node_a)
            _print(pair.node_b)
            render.out()
    clusters = handed.consolidation_clusters if isinstance(handed.consolidation_clusters, list) else []
    if clusters:
        found = True
        render.out(render.paint(CLUSTERS, "bold"))
    for number, cluster in enumerate(clusters, 1):
        render.out(f"{number}. {render.count(len(cluster), 'memory', 'memories')}")
        for node in cluster:
            _print(node)
        render.out()
    render.out(render.line(str(handed.summary)))
    if found:
        render.out(ANSWER % render.line(handed.receipt))


def _print(node: CandidateNode) -> None:
    where = f"{node.type} · {render.line(node.space or 'global')} · {render.moment(node.created, day=True)}"
    render.out(f"   {node.id}  {render.paint(where, 'dim')}")
    if node.title:
        render.out(f"     {render.paint(render.line(node.title), 'bold')}")
    for text in render.safe(node.content).splitlines():
        if text.strip():
            render.out(f"     {text.rstrip()}")
