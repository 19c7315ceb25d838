"""What was said outright of a memory for this very prompt: shown it is to be, or not; no arithmetic stands against it.

An explicit judgement decides where its prompt means the same as this one: by its vector, or by its text where there is no vector
of the present model to compare. Of several the last one counts. What an agent inferred decides nothing; that and everything said for
prompts that are only alike is `affinity`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ormahd.state.feedback import Judgement, Judgements

Float = NDArray[np.float32]

SAME: Final = 0.9
"""Cosine from which two prompts mean the same: with the default model other fillers and forms (0.92 to 0.97), and not another port,
price, version or module in the same sentence (0.65 to 0.89). 0.7, from which feedback counts for a prompt, is the same subject."""


class Verdict(Struct, frozen=True):
    """The last explicit judgement on a memory for this prompt. `cosine`: of the two prompts; 1 where the text is the same."""

    judgement: Judgement
    cosine: float

    @property
    def signal(self) -> int:
        return self.judgement.signal


def verdicts(
    vector: Float | None, prompt_hash: str, node_ids: Iterable[str], judgements: Judgements
) -> dict[str, Verdict]:
    """Node id to what was said of it for the prompt with this vector (unit) and keyed hash; the others are left out."""
    found: dict[str, Verdict] = {}
    for node_id in dict.fromkeys(node_ids):
        said = list(_said(vector, prompt_hash, node_id, judgements))
        if said:
            found[node_id] = max(said, key=lambda one: (one.judgement.confirmed_at, one.signal))
    return found


def _said(vector: Float | None, prompt_hash: str, node_id: str, judgements: Judgements) -> Iterator[Verdict]:
    explicit = judgements.explicit.get(node_id, ())
    if not explicit:
        return
    for place, one in explicit:
        if one.prompt_hash == prompt_hash:
            yield Verdict(one, 1.0)
        elif place is not None and vector is not None and judgements.matrix.shape[1] == len(vector):
            cosine = float(judgements.matrix[place] @ vector)
            if cosine >= SAME:
                yield Verdict(one, cosine)
