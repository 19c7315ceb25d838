"""Memories that rest on files of a project: what is said of them after the files have changed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
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
from tests.contract.archiving import NOW, opened

FILES = {
    "cart/total.py": "def total(items): return sum(items)\n",
    "cart/tax.py": "RATE = 19\n",
    "Makefile": "test:\n\tpytest\n",
    "docs/ü b.md": "# Über\n",
    "empty.txt": "",
}
TOTAL, TAX = "cart/total.py", "cart/tax.py"
CASES: dict[str, tuple[list[str], str, str | None]] = {
    "nothing happened": ([TOTAL], "", None),
    "another file changed": ([TOTAL], "echo x >> cart/tax.py", None),
    "edited": ([TOTAL], "echo x >> cart/total.py", f"{TOTAL} changed since"),
    "edited and committed": ([TOTAL], "echo x >> cart/total.py; git commit -qam x", f"{TOTAL} changed since"),
    "edited and put back": ([TOTAL], "echo x >> cart/total.py; git checkout -q cart/total.py", None),
    "a commit that was reverted": (
        [TOTAL],
        "echo x >> cart/total.py; git commit -qam x; git revert --no-edit HEAD >/dev/null",
        None,
    ),
    "a revert of the revert": (
        [TOTAL],
        "echo x >> cart/total.py; git commit -qam x; git revert --no-edit HEAD >/dev/null; git revert --no-edit HEAD >/dev/null",
        f"{TOTAL} changed since",
    ),
    "on another branch where it differs": (
        [TOTAL],
        "git checkout -qb other; echo x >> cart/total.py; git commit -qam x",
        f"{TOTAL} changed since",
    ),
    "back from another branch": (
        [TOTAL],
        "git checkout -qb other; echo x >> cart/total.py; git commit -qam x; git checkout -q main",
        None,
    ),
    "on another branch where it is the same": ([TOTAL], "git checkout -qb other; git rm -q Makefile; git commit -qm x", None),
    "on a branch without it": ([TOTAL], "git checkout -qb other; git rm -q cart/total.py; git commit -qm x", f"{TOTAL} is gone"),
    "stashed": ([TOTAL], "echo x >> cart/total.py; git stash -q", None),
    "stashed and popped": ([TOTAL], "echo x >> cart/total.py; git stash -q; git stash pop -q", f"{TOTAL} changed since"),
    "deleted": ([TOTAL], "rm cart/total.py", f"{TOTAL} is gone"),
    "deleted and committed": ([TOTAL], "git rm -q cart/total.py; git commit -qm x", f"{TOTAL} is gone"),
    "deleted and brought back": ([TOTAL], "rm cart/total.py; git checkout -q cart/total.py", None),
    "renamed": ([TOTAL], "git mv cart/total.py cart/sum.py; git commit -qm x", f"{TOTAL} is gone"),
    "its folder renamed": ([TOTAL], "git mv cart basket; git commit -qm x", f"{TOTAL} is gone"),
    "renamed and back": ([TOTAL], "mv cart/total.py x; mv x cart/total.py", None),
    "touched only": ([TOTAL], "touch -d '2 days ago' cart/total.py", None),
    "made executable": ([TOTAL], "chmod +x cart/total.py", None),
    "other line ends": ([TOTAL], "sed -i 's/$/\\r/' cart/total.py", f"{TOTAL} changed since"),
    "a newline less at the end": ([TOTAL], "truncate -s -1 cart/total.py", f"{TOTAL} changed since"),
    "emptied": ([TOTAL], "truncate -s 0 cart/total.py", f"{TOTAL} changed since"),
    "the same size, other bytes": ([TAX], "printf 'RATE = 07\\n' > cart/tax.py", f"{TAX} changed since"),
    "two, one edited": ([TOTAL, TAX], "echo x >> cart/tax.py", f"{TAX} changed since"),
    "two, both edited": ([TOTAL, TAX], "echo x >> cart/tax.py; echo x >> cart/total.py", f"{TOTAL}, {TAX} changed since"),
    "two, one edited and one deleted": (
        [TOTAL, TAX],
        "echo x >> cart/tax.py; rm cart/total.py",
        f"{TAX} changed since; {TOTAL} is gone",
    ),
    "two, both deleted": ([TOTAL, TAX], "rm -r cart", f"{TOTAL}, {TAX} are gone"),
    "a directory in its place": ([TOTAL], "rm cart/total.py; mkdir cart/total.py", f"{TOTAL} is gone"),
    "a pipe in its place": ([TOTAL], "rm cart/total.py; mkfifo cart/total.py", f"{TOTAL} is gone"),
    "a link to the same content": ([TOTAL], "mv cart/total.py x; ln -s ../x cart/total.py", None),
    "too large to read": ([TOTAL], "truncate -s 9M cart/total.py", f"{TOTAL} is gone"),
    "a name with a space and an umlaut": (["docs/ü b.md"], "echo x >> 'docs/ü b.md'", "docs/ü b.md changed since"),
    "an empty file that got text": (["empty.txt"], "echo x > empty.txt", "empty.txt changed since"),
    "named from a folder": (["./cart/../Makefile"], "echo x >> Makefile", "Makefile changed since"),
    "merged": (
        [TOTAL],
        "git checkout -qb o; echo x >> cart/total.py; git commit -qam x; git checkout -q main; git merge -q o",
        f"{TOTAL} changed since",
    ),
}  # fmt: skip
"""{case: (evidence, what happens in the project then, what is said)}."""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    run(folder, "git init -qb main; git add -A; git commit -qm begin")
    return folder


@pytest.fixture
def ormah(tmp_path: Path) -> Iterator[Ormah]:
    with opened(tmp_path) as found:
        yield found


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


@pytest.mark.parametrize(
    ("evidence", "why"),
    [
        (["missing.py"], "no file that can be read"),
        (["cart"], "no file that can be read"),
        (["../outside.py"], "not in"),
        (["/etc/hostname"], "not in"),
        ([f"../x@{'a' * 40}"], "leads out of the project"),
        ([f"f{n}@{'a' * 40}" for n in range(17)], "17 files"),
    ],
)
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
LEARNED: dict[str, tuple[str, list[str], float, list[str]]] = {
    "named and edited": (SAID, [TOTAL], -60.0, [TOTAL]),
    "only the last part is named": (SAID.replace("cart/total.py", "total.py"), [TOTAL], -60.0, [TOTAL]),
    "named, not edited": (SAID, [], -60.0, []),
    "edited, not named": (SAID, [TAX], -60.0, []),
    "written since": (SAID, [TOTAL], 3600.0, []),
    "edited and gone": (SAID, ["cart/other/total.py"], -60.0, []),
    "of another project": (SAID, ["/elsewhere/total.py"], -60.0, []),
    "too large": (SAID, ["cart/large/total.py"], -60.0, []),
    "outside of the project": (SAID, ["../total.py"], -60.0, []),
    "a folder": (SAID, ["cart/folder/total.py"], -60.0, []),
    "more than a memory may have": (
        SAID,
        [f"many/{n}/total.py" for n in range(20)],
        -60.0,
        [f"many/{n}/total.py" for n in range(16)],
    ),
}
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
    (row,) = ormah.index.notes(list(ormah.index.extracted())).values()
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
    (row,) = ormah.index.notes(list(ormah.index.extracted())).values()
    assert row.evidence == ()
