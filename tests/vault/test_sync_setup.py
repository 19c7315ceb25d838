"""A vault that joins another one: everything of both, one id, one self node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd.errors import Conflict
from ormahd.model.node import EdgeType
from ormahd.note.edit import edit
from ormahd.note.read import parse
from ormahd.note.values import NoteLink
from ormahd.sync.join import card_of
from ormahd.sync.setup import plan_setup
from ormahd.vault.conflicts import waiting
from ormahd.vault.create import CARD, SELF_TEXT, find_card
from ormahd.vault.vault import Vault
from tests.vault.git_house import git, open_vault
from tests.vault.observed import uuid
from tests.vault.sync_house import Machine, note

A, B, C = uuid(0x1A2B3C4D), uuid(0x2B2B2B2B), uuid(0x3C3C3C3C)


def me(machine: Machine) -> str:
    """Where a vault's self node stands."""
    return next(path for path in machine.files() if machine.vault.self_id[:8] in path)


def join(machine: Machine, bare: Path) -> None:
    machine.git("remote", "add", "origin", str(bare))
    head, tip = machine.vault.head(), machine.fetch()
    assert head
    assert tip
    card = card_of(machine.vault, tip)
    assert card
    machine.carry_out(plan_setup(machine.vault, head, tip, card))
    machine.vault.adopt_card(card)


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "--bare", "--initial-branch=main", "remote.git")
    return tmp_path / "remote.git"


@pytest.fixture
def first(tmp_path: Path, bare: Path) -> Iterator[Machine]:
    """The machine whose vault the remote holds."""
    with open_vault(tmp_path / "first") as vault:
        machine = Machine(vault)
        machine.git("remote", "add", "origin", str(bare))
        machine.store({"a.md": note("theirs", A)})
        machine.git("push", "-q", "-u", "origin", "main")
        yield machine


@pytest.fixture
def second(tmp_path: Path) -> Iterator[Machine]:
    with open_vault(tmp_path / "second") as vault:
        yield Machine(vault)


def told(machine: Machine, title: str, content: str, tags: list[str], target: str) -> None:
    path = me(machine)
    data = (machine.root / path).read_bytes()
    changed = edit(
        data, path, set={"title": title, "tags": tags}, content=content, link=[NoteLink(EdgeType.DEFINES, target, 1.0)]
    )
    machine.store({path: changed})


def test_the_self_nodes_become_one_and_links_follow(first: Machine, second: Machine, bare: Path) -> None:
    told(first, "Ada", "Ada: likes tea.", ["about_self", "one"], f"fact_a_{A[:8]}")
    first.git("push", "-q")
    old = Path(me(second)).stem
    second.store({
        "b.md": note(f"by [[{old}|me]]", B, links=[NoteLink(EdgeType.RELATED_TO, old, 0.9, None, "mine")]),
    })  # fmt: skip
    told(second, "Ada L.", "She has a cat.", ["about_self", "two"], f"fact_b_{B[:8]}")
    former, gone = second.vault.id, me(second)
    join(second, bare)
    kept = me(first)
    assert second.vault.id == first.vault.id != former
    assert me(second) == kept
    assert gone not in second.files()
    merged = parse(second.files()[kept], kept)
    assert (merged.title, merged.content) == ("Ada", "Ada: likes tea.\n\nShe has a cat.\n\nAlso known as Ada L.")
    assert set(merged.tags) == {"about_self", "one", "two"}
    assert {link.target for link in merged.links} == {f"fact_a_{A[:8]}", f"fact_b_{B[:8]}"}
    followed = parse(second.files()["b.md"], "b.md")
    assert followed.content == f"by [[{Path(kept).stem}|me]]"
    assert [(link.target, link.reason) for link in followed.links] == [(Path(kept).stem, "mine")]
    assert second.files()["a.md"] == note("theirs", A)
    assert len(second.git("rev-list", "--max-parents=0", "HEAD").split()) == 2
    assert second.push()
    first.join()
    assert first.vault.head() == second.vault.head()
    for machine in (first, second):
        machine.sound()


def test_a_self_node_that_says_nothing_yet_adds_nothing(first: Machine, second: Machine, bare: Path) -> None:
    before = first.files()[me(first)]
    join(second, bare)
    assert second.files()[me(first)] == before
    assert second.push()


def test_two_names_for_one_person_are_one_self_that_has_both(first: Machine, second: Machine, bare: Path) -> None:
    data = (second.root / me(second)).read_bytes()
    renamed = edit(data, me(second), set={"title": "Countess"}, content=f"Countess{SELF_TEXT}")
    second.store({me(second): renamed})
    join(second, bare)
    merged = parse(second.files()[me(first)], me(first))
    before = parse(first.files()[me(first)], me(first))
    assert (merged.title, merged.content) == (before.title, f"{before.content}\n\nAlso known as Countess.")
    assert (
        sum("about_self" in parse(one, path).tags for path, one in second.files().items() if path.endswith(".md")) == 1
    )


def test_what_both_had_at_one_path_or_under_one_id(first: Machine, second: Machine, bare: Path) -> None:
    first.store(
        {"same.md": note("same", B), "path.md": note("theirs", C), "x.txt": b"x\n", ".gitignore": b"a\n.DS_Store\n"}
    )
    first.git("push", "-q")
    second.store({
        "same.md": note("same", B), "path.md": note("ours", uuid(0x4D4D4D4D)), "x.txt": b"y\n", "a.md": note("ours too", A),
        ".gitignore": b"b\n.DS_Store\n",
    })  # fmt: skip
    join(second, bare)
    files = second.files()
    assert files["same.md"] == note("same", B)
    assert files["path.md"] == note("theirs", C)
    assert files["path_4d4d4d4d.md"] == note("ours", uuid(0x4D4D4D4D))
    assert files[".gitignore"] == b"a\n.DS_Store\nb\n"
    assert (files["x.txt"], files["a.md"]) == (b"y\n", note("ours too", A))
    assert {aside.path for aside in waiting(second.root)} == {"x.txt", "a.md"}
    assert files[CARD] == first.files()[CARD]
    second.sound()


def test_the_id_of_before_is_remembered_and_a_crash_cannot_part_them(
    first: Machine, second: Machine, bare: Path
) -> None:
    former, root = second.vault.id, second.root
    second.vault.remember_id()
    assert second.vault.former_id() is None
    join(second, bare)
    assert second.vault.former_id() == former
    second.vault.close()
    card = find_card(root)
    assert card
    again: Vault = open_vault(root)
    assert (again.id, again.self_id) == (card.id, first.vault.self_id)
    again.close()


def test_a_remote_with_a_card_that_cannot_be_read(first: Machine, second: Machine, bare: Path) -> None:
    first.store({CARD: b"id = 1\n"})
    first.git("push", "-q")
    second.git("remote", "add", "origin", str(bare))
    tip = second.fetch()
    assert tip
    with pytest.raises(Exception, match="lacks format"):
        card_of(second.vault, tip)


def test_a_hostile_vault_is_not_joined(first: Machine, second: Machine, bare: Path) -> None:
    first.git(
        "update-index",
        "--add",
        "--cacheinfo",
        f"100644,{first.vault.git.oid('blob', note('theirs', A))},.ormah/tmp/x.json",
    )
    first.git("commit", "-qm", "bad")
    first.git("push", "-q")
    before = second.vault.head()
    with pytest.raises(Conflict, match="no vault may have"):
        join(second, bare)
    assert second.vault.head() == before
