"""Memories that rest on files of a project: what is said of them after the files have changed."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ormahd import api
from ormahd.actions import admin, lookup, outdated, recall, update
from ormahd.actions.amend import Caller
from ormahd.actions.remember import remember
from ormahd.errors import BadRequest
from ormahd.ingest.extraction import Extraction
from ormahd.ormah import Ormah
from ormahd.sessions.files import Deed, Line, SessionHead
from tests.contract.archiving import NOW
from tests.tables import rows

FILES = {
    "cart/total.py": "def total(items): return sum(items)\n",
    "cart/tax.py": "RATE = 19\n",
    "Makefile": "test:\n\tpytest\n",
    "docs/ü b.md": "# Über\n",
    "empty.txt": "",
}
TOTAL, TAX = "cart/total.py", "cart/tax.py"
CASES = {name: case for name, *case in rows(__file__, "cases")}
"""{case: (evidence, what happens in the project then, what is said)}."""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    run(folder, "git init -qb main; git add -A; git commit -qm begin")
    return folder


def run(folder: Path, script: str) -> None:
    names = {f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", **names}
    subprocess.run(["/bin/sh", "-ec", script], cwd=folder, env=env, check=True, capture_output=True)


def keep(ormah: Ormah, shop: Path, evidence: list[str]) -> str:
    params = api.RememberParams(content="Totals are rounded half up.", title="Rounding", evidence=evidence)
    return remember(ormah, params, Caller("agent", str(shop))).node_id


@pytest.mark.parametrize("case", CASES)
def test_what_is_said_of_files_that_changed(ormah: Ormah, shop: Path, case: str) -> None:
    evidence, happens, expected = CASES[case]
    node_id = keep(ormah, shop, evidence)
    run(shop, happens)
    (hit,) = recall.recall(ormah, api.RecallParams(query="totals rounded"), Caller("agent", str(shop / "docs"))).results
    assert hit.stale == expected
    node = lookup.get(ormah, api.NodeParams(node_id=node_id), cwd=str(shop), space="shop")
    assert node.stale == expected
    assert lookup.get(ormah, api.NodeParams(node_id=node_id)).stale == expected, "from anywhere"
    assert expected is None or expected in node.text
    gone = [one for one in admin.doctor(ormah, iter) if "gone from its project" in one.what]
    assert bool(gone) == (expected is not None and "changed" not in expected)


def test_another_project_says_nothing_of_it(ormah: Ormah, shop: Path, tmp_path: Path) -> None:
    keep(ormah, shop, [TOTAL])
    run(shop, "rm cart/total.py")
    other = tmp_path / "other"
    other.mkdir()
    (hit,) = recall.recall(ormah, api.RecallParams(query="totals rounded"), Caller("agent", str(other))).results
    assert hit.stale is None


@pytest.mark.parametrize(("evidence", "why"), rows(__file__, "evidence_that_is_none_is_refused"))
def test_evidence_that_is_none_is_refused(ormah: Ormah, shop: Path, evidence: list[str], why: str) -> None:
    (shop.parent / "outside.py").write_text("x")
    with pytest.raises(BadRequest, match=why):
        keep(ormah, shop, evidence)


def test_evidence_is_renewed_and_cleared(ormah: Ormah, shop: Path) -> None:
    node_id = keep(ormah, shop, [TOTAL])
    run(shop, "echo x >> cart/total.py")

    def after(evidence: list[str] | None) -> tuple[list[str], str | None]:
        update.update(ormah, api.UpdateParams(node_id=node_id, evidence=evidence), Caller("agent", str(shop)))
        found = lookup.get(ormah, api.NodeParams(node_id=node_id), cwd=str(shop), space="shop")
        return [one.partition("@")[0] for one in found.evidence], found.stale

    assert after([TOTAL]) == ([TOTAL], None)
    run(shop, "rm cart/total.py")
    assert after(None) == ([], None)


def test_an_outdated_memory_is_no_finding(ormah: Ormah, shop: Path) -> None:
    node_id = keep(ormah, shop, [TOTAL])
    run(shop, "rm cart/total.py")
    outdated.outdated(ormah, api.OutdatedParams(node_id=node_id, reason="it was dropped"), Caller("agent", str(shop)))
    assert not [one for one in admin.doctor(ormah, iter) if "gone from its project" in one.what]


SAID = "remember that totals in cart/total.py are rounded half up, because the till does it too"
LEARNED = {name: case for name, *case in rows(__file__, "learned")}
"""{case: (what is said, files edited under it, when they were written, in seconds after the session, evidence)}."""


@pytest.mark.parametrize("case", LEARNED)
def test_what_a_session_edited_and_named_is_evidence(ormah: Ormah, shop: Path, case: str) -> None:
    text, edited, written, expected = LEARNED[case]
    ended = NOW.timestamp() - 3600
    (shop / "cart/folder/total.py").mkdir(parents=True)
    (shop / "cart/large").mkdir()
    (shop / "cart/large/total.py").write_bytes(bytes(8_000_001))
    (shop.parent / "total.py").write_text("x = 1\n")
    for number in range(20):
        (shop / f"many/{number}").mkdir(parents=True)
        (shop / f"many/{number}/total.py").write_text("x = 1\n")
    for file in (*shop.rglob("*.py"), shop.parent / "total.py"):
        os.utime(file, (ended + written, ended + written))
    time = datetime.fromtimestamp(ended, UTC).isoformat()
    deeds = [Deed(f"e{number}", files=(file,), by="Edit", time=time) for number, file in enumerate(edited)]
    lines = [Line("a" * 24, "user", text, time), *deeds, Line("b" * 24, "assistant", "Done, they are.", time)]
    ormah.sessions.add([(SessionHead("s1", "claude-code", str(shop)), lines)])
    assert Extraction(ormah).settle() == 1
    (row,) = ormah.index.notes(list(ormah.index.extracted_from())).values()
    assert [one.rpartition("@")[0] for one in row.evidence] == expected


def test_a_session_in_the_home_folder_is_learned_without_evidence(
    ormah: Ormah, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    time = NOW.isoformat()
    (tmp_path / "total.py").write_text("x = 1\n")
    os.utime(tmp_path / "total.py", (0, 0))
    lines = [Line("a" * 24, "user", SAID, time), Deed("e", files=("total.py",), by="Edit", time=time)]
    ormah.sessions.add(
        [(SessionHead("s1", "claude-code", str(tmp_path)), [*lines, Line("b" * 24, "assistant", "Done.", time)])]
    )
    assert Extraction(ormah).settle() == 1
    (row,) = ormah.index.notes(list(ormah.index.extracted_from())).values()
    assert row.evidence == ()
