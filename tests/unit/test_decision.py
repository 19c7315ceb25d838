"""Lines of `.ormah/decisions/`: what they hold, what they do not, and how two machines' lines become one."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from ormahd.model.decision import FILES, FOLDER, ProposalDecision, decode, encode, key_of
from ormahd.model.node import ProposalType
from ormahd.note.merge import merge_file
from ormahd.state.proposals import text_key

NOW = datetime(2026, 11, 21, 20, 4, 11, 250_000, tzinfo=UTC)
A, B = "336001ac-6d0a-4c1e-9a55-0a52b0f4f9d1", "99ac115a-6d0a-4c1e-9a55-0a52b0f4f9d1"
TEXTS = (text_key("Title", "one"), text_key(None, "two"))
ONE = ProposalDecision(ProposalType.MERGE, (A, B), TEXTS, "rejected", "person", NOW)


def row(**changes: Any) -> bytes:
    return json.dumps({**json.loads(encode(ONE)), **changes}).encode()


def test_there_and_back() -> None:
    assert decode(encode(ONE)) == replace(ONE, texts=tuple(sorted(TEXTS)))
    assert list(json.loads(encode(ONE)))[:2] == ["id", "decided_at"], "of two versions the later one sorts last"


def test_the_same_thing_has_the_same_id_whatever_is_said_of_it() -> None:
    same = replace(
        ONE, nodes=(B, A), texts=TEXTS[::-1], verdict="approved", by="agent:x", decided_at=NOW + timedelta(days=9)
    )
    assert same.id == ONE.id
    for other in (replace(ONE, type=ProposalType.CONFLICT), replace(ONE, nodes=(A,)), replace(ONE, texts=TEXTS[:1])):
        assert other.id != ONE.id
    assert key_of(ProposalType.MERGE, (B, A), TEXTS) == ONE.key


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"not ours", "it is no JSON"),
        (b"[1]", "it is no JSON object"),
        (b"[" * 100_000, "it is no JSON"),
        (row(type="link"), "`type` is none of merge, conflict, decay, memory"),
        (row(type=["merge"]), "`type` is none of merge, conflict, decay, memory"),
        (row(verdict="maybe"), "`verdict` is neither approved nor rejected"),
        (row(verdict=[]), "`verdict` is neither approved nor rejected"),
        (row(by=""), "`by` is missing"),
        (row(nodes=[]), "`nodes` are no ids of memories"),
        (row(nodes=["../x", B]), "`nodes` are no ids of memories"),
        (row(nodes=A), "`nodes` are no ids of memories"),
        (row(texts=["short", "short"]), "`texts` are no digests, one for each of `nodes`"),
        (row(texts=[TEXTS[0]]), "`texts` are no digests, one for each of `nodes`"),
        (row(decided_at="yesterday"), "`decided_at` is no time with a zone"),
        (row(decided_at="2026-11-21T20:04:11"), "`decided_at` is no time with a zone"),
        (row(id="0" * 32), "`id` is not made of `type`, `nodes` and `texts`"),
    ],
)  # fmt: skip
def test_what_is_no_decision_says_why(line: bytes, why: str) -> None:
    assert decode(line) == why
    assert FILES.read(b"\n" + line + b"\n") == ({}, [(2, why)])


def test_put_replaces_and_leaves_what_it_cannot_read() -> None:
    other = replace(ONE, nodes=(A,), texts=TEXTS[:1])
    data = FILES.put(FILES.put(b"not ours\n", ONE), other)
    again = replace(ONE, verdict="approved", decided_at=NOW + timedelta(days=1))
    found, bad = FILES.read(FILES.put(data, again))
    assert {one.verdict for one in found.values()} == {"approved", "rejected"}
    assert (len(found), bad) == (2, [(3, "it is no JSON")])
    assert FILES.put(data, ONE) == data


def test_two_machines_decided_and_the_later_one_counts() -> None:
    base = FILES.put(b"", replace(ONE, nodes=(A,), texts=TEXTS[:1]))
    here = FILES.put(base, ONE)
    there = FILES.put(base, replace(ONE, verdict="approved", by="agent:x", decided_at=NOW + timedelta(milliseconds=1)))
    path = FILES.path(NOW)
    merged = [merge_file(base, one, other, path).data for one, other in ((here, there), (there, here))]
    assert merged[0] == merged[1]
    assert merged[0] is not None
    found, bad = FILES.read(merged[0])
    assert (found[ONE.id].verdict, len(found), bad) == ("approved", 2, [])
    assert merge_file(here, here, base, path).data == base, "taken back"


def test_paths() -> None:
    assert FILES.path(datetime(2026, 12, 1, 0, 30, tzinfo=UTC).astimezone()) == f"{FOLDER}/2026-12.jsonl"
    assert FILES.ours(FILES.path(NOW))
    for other in (f"{FOLDER}/2026-11.txt", f"{FOLDER}/x.jsonl", FOLDER, ".ormah/feedback/2026-11.jsonl"):
        assert not FILES.ours(other)
