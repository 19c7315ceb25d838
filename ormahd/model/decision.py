"""Decisions on proposals, one JSON line each in `.ormah/decisions/YYYY-MM.jsonl`. No I/O; FORMAT.md specifies the
format.

A line identifies the proposal by its key: the kind of change, the memories, and the hashes of their texts. A decided
proposal is not made again on any machine, until one of the texts changes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, Literal

from msgspec import Struct

from ormahd.model.lines import MonthFiles
from ormahd.model.node import ProposalType, is_node_id

FOLDER: Final = ".ormah/decisions"
"""The folder of the files, relative to the vault."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ID = 32
"""Number of hexadecimal digits of a line id: 128 bits."""

Verdict = Literal["approved", "rejected"]


class ProposalDecision(Struct, frozen=True):
    """One decision on a proposal.

    `nodes`: full ids of the memories, sorted. `texts`: the sha256 of each memory's text
    (`state.proposals.text_key`), sorted. If the proposal is a new memory, `nodes` is empty and `texts` has the
    sha256 of the proposed text.
    """

    type: ProposalType
    nodes: tuple[str, ...]
    texts: tuple[str, ...]
    verdict: Verdict
    by: str
    """`person` or `agent:NAME`."""
    decided_at: datetime

    @property
    def key(self) -> str:
        """The key of the proposal, see `key_of`."""
        return key_of(self.type, self.nodes, self.texts)

    @property
    def id(self) -> str:
        """The id of the line, see `line_id`."""
        return line_id(self.key)


def key_of(type: ProposalType, nodes: Sequence[str], texts: Sequence[str]) -> str:  # noqa: A002
    """Return the key of a proposal; proposals with equal keys are the same."""
    return " ".join([type, *sorted(nodes), *sorted(texts)])


def line_id(key: str) -> str:
    """Return the id of the line that stores the decision on the proposal with this key. It depends only on the key,
    so a later decision replaces an earlier one."""
    return hashlib.sha256(key.encode()).hexdigest()[:_ID]


def _line_keys(decision: ProposalDecision) -> dict[str, Any]:
    """Return the keys of a decision's line, without `id` and time."""
    return {
        "type": decision.type.value,
        "verdict": decision.verdict,
        "by": decision.by,
        "nodes": sorted(decision.nodes),
        "texts": sorted(decision.texts),
    }


def _parse_line(row: dict[str, Any], decided_at: datetime) -> ProposalDecision | str:
    """Return the decision that a line holds, or a sentence that says why the line is invalid."""
    if row.get("type") not in tuple(ProposalType):
        return "`type` is none of merge, conflict, decay, memory"
    if row.get("verdict") not in ("approved", "rejected"):
        return "`verdict` is neither approved nor rejected"
    if not isinstance(row.get("by"), str) or not row["by"]:
        return "`by` is missing"
    nodes, texts = _string_list(row, "nodes"), _string_list(row, "texts")
    new = row["type"] == ProposalType.MEMORY
    if bool(nodes) is new or not all(map(is_node_id, nodes)):
        return "`nodes` are no ids of memories"
    if len(texts) != (1 if new else len(nodes)) or not all(map(_SHA256.fullmatch, texts)):
        return "`texts` are no digests, one for each of `nodes`"
    verdict: Verdict = row["verdict"]
    return ProposalDecision(ProposalType(row["type"]), nodes, texts, verdict, row["by"], decided_at)


def _string_list(row: dict[str, Any], name: str) -> tuple[str, ...]:
    """Return the list of strings under the key `name` of a line; empty if the key holds anything else."""
    values = row.get(name)
    return tuple(values) if isinstance(values, list) and all(isinstance(value, str) for value in values) else ()


FILES: Final = MonthFiles(FOLDER, "decided_at", "`type`, `nodes` and `texts`", _line_keys, _parse_line)
encode, decode = FILES.encode, FILES.decode
