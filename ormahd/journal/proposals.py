"""Proposals that wait for a person, and what became of them (seeds/data-model, "Proposal").

Pending ones are of this machine; what a person decided is also in the vault (`.ormah/decisions/`), so that a rejected
proposal is not made again after the state was lost, nor on another machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ormahd.journal.state import State


def keep(
    state: State, *, id: str, type: str, key: str, nodes: Sequence[str], action: str, reason: str,  # noqa: A002
    preview: str, evidence: Mapping[str, Any], payload: Mapping[str, Any], based_on: Mapping[str, str], run: str,
) -> bool:  # fmt: skip
    """Store a pending proposal; False: the same one (`key`) was made before, whatever became of it."""
    with state.transaction() as db:
        made = db.execute(
            "INSERT OR IGNORE INTO proposal (id, type, status, key, source_nodes, proposed_action, reason, preview, "
            "evidence, payload, based_on, run, created) VALUES (?, ?, 'pending', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                id, type, key, json.dumps(list(nodes)), action, reason, preview, json.dumps(dict(evidence)),
                json.dumps(dict(payload)), json.dumps(dict(based_on)), run, state.clock().isoformat(),
            ),
        )  # fmt: skip
        return made.rowcount > 0


def known(state: State, key: str) -> bool:
    """Whether this proposal was made before."""
    with state.transaction() as db:
        return db.execute("SELECT 1 FROM proposal WHERE key = ?", (key,)).fetchone() is not None
