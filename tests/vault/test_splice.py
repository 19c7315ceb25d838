"""What is spliced into an index is what git would have made of it, and what we do not know is left to git."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ormahd.vault.git_objects import Entry
from ormahd.vault.git_splice import MODES, Splicer, _walk
from tests.vault.git_house import git

BLOBS = {text: hashlib.sha1(b"blob %d\0" % len(text) + text).hexdigest() for text in (b"", b"one\n", b"two\n")}
EMPTY, ONE, TWO = (Entry(b"100644", oid) for oid in BLOBS.values())
Wanted = Mapping[bytes, Entry | None]


def sealed(content: bytes) -> bytes:
    return content + hashlib.sha1(content).digest()


def splice(index: bytes, wanted: Wanted, splicer: Splicer | None = None) -> bytes | None:
    """The new index, whole; by a splicer that remembers nothing, unless it is given."""
    parts = (splicer or Splicer()).splice(index, wanted)
    return None if parts is None else b"".join(parts) or index


NOTHING = sealed(b"DIRC\0\0\0\2\0\0\0\0")


def run(root: Path, *arguments: str, index: bytes, stdin: bytes = b"", ok: bool = True) -> tuple[bytes, bytes]:
    """What git says where this is the index, and the index it leaves."""
    (file := root / ".git" / "index.other").write_bytes(index)
    env = os.environ | {"GIT_INDEX_FILE": str(file)}
    done = subprocess.run(["git", *arguments], cwd=root, input=stdin, capture_output=True, env=env)
    assert not (ok and done.returncode), done.stderr
    return done.stdout + done.stderr, file.read_bytes()


def by_git(root: Path, index: bytes, wanted: Wanted) -> bytes:
    new = ((path, entry or Entry(b"0", "0" * 40)) for path, entry in wanted.items())
    lines = b"".join(b"%b %b\t%b\0" % (entry.mode, entry.oid.encode(), path) for path, entry in new)
    return run(root, "update-index", "-z", "--index-info", index=index, stdin=lines)[1]


def seen(root: Path, index: bytes) -> list[bytes]:
    """All that git shows of an index, by several ways to read it; it is sound besides."""
    run(root, "fsck", "--no-dangling", "--connectivity-only", index=index)
    run(root, "update-index", "-q", "--refresh", "--unmerged", index=index, ok=False)
    status = run(root, "-c", "index.threads=1", "status", "--porcelain=v2", "-z", index=index)[0]
    return [status, *(run(root, "ls-files", "-s", "-z", "-v", *more, index=index)[0] for more in ([], ["--debug"]))]


def agree(root: Path, wanted: Wanted, index: bytes | None = None) -> bytes:
    """Splice into the index of `root`, and have git do the same: nobody sees a difference."""
    index = index_of(root) if index is None else index
    ours = splice(index, wanted)
    assert ours is not None
    assert seen(root, ours) == seen(root, by_git(root, index, wanted))
    assert splice(ours, wanted) is ours
    return ours


def index_of(root: Path) -> bytes:
    return (root / ".git/index").read_bytes()


def entry_of(root: Path, name: str) -> Entry:
    return Entry(b"100644", git(root, "rev-parse", f":{name}"))


def with_blobs(root: Path) -> Path:
    git(root, "init", "-q")
    for text in BLOBS:
        git(root, "hash-object", "-w", "--stdin", stdin=text.decode())
    return root


def refused(index: bytes, wanted: Wanted | None = None) -> bool:
    return splice(index, {b"new.md": ONE} if wanted is None else wanted) is None


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_blobs(tmp_path_factory.mktemp("empty"))


@pytest.fixture
def root(theirs: Path) -> Path:
    """A person's repository, with work that is staged and work that is not."""
    for name in ("staged.txt", "both.txt"):
        (theirs / name).write_text("staged\n")
        git(theirs, "add", name)
    (theirs / "both.txt").write_text("changed since\n")
    (theirs / "unstaged.txt").write_text("changed\n")
    return with_blobs(theirs)


NAMES = [*b"a a.b ab a- a0 A \x01 \xff\xfe ... \xc3\xbc \xe6\x9d\xb1.md".split(), b" ", b"x" * 200]
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(b"/".join)
ENTRIES = st.builds(Entry, st.sampled_from(sorted(MODES)), st.sampled_from(list(BLOBS.values())))
ROUNDS = st.lists(st.dictionaries(PATHS, st.none() | ENTRIES, max_size=12), min_size=2, max_size=5)


def in_the_way(paths: set[bytes], wanted: Wanted) -> bool:
    """Whether a wanted file is where a folder is, or the other way round."""
    new = {path for path, entry in wanted.items() if entry}
    pairs = [(one + b"/", other + b"/") for one in new for other in paths | new if one != other]
    return any(one.startswith(other) or other.startswith(one) for one, other in pairs)


@given(rounds=ROUNDS)
def test_of_any_paths_it_makes_the_bytes_that_git_makes(empty: Path, rounds: list[dict[bytes, Entry | None]]) -> None:
    index, splicer = NOTHING, Splicer()
    for wanted in rounds:
        listed = {*run(empty, "ls-files", "-z", index=index)[0].split(b"\0")[:-1]}
        ours, theirs = splice(index, wanted, splicer), by_git(empty, index, wanted)
        assert ours == splice(index, wanted) == (None if in_the_way(listed, wanted) else theirs)
        assert ours is None or np.array_equal(splicer._offsets, np.asarray(_walk(ours)))
        index = theirs


def test_in_a_large_index_what_is_remembered_is_used_only_where_it_is_true(empty: Path) -> None:
    chance, splicer = random.Random(1), Splicer()
    index = splice(NOTHING, {b"s%d/%d.md" % (number % 7, number): ONE for number in range(3000)}, splicer)
    for turn in range(30):
        paths = [b"s%d/%d.md" % (at % 7, at * chance.choice([1, 1, turn])) for at in chance.sample(range(4000), 16)]
        wanted = {path: chance.choice([ONE, TWO, None]) for path in paths}
        assert index is not None
        made = splice(index, wanted, splicer)
        assert made == splice(index, wanted)
        assert turn % 10 or made == by_git(empty, index, wanted)
        if turn % 3 == 0:  # somebody else makes the next one
            made = by_git(empty, index, {b"other.md": TWO, b"s0/0.md": None, b"s6/%d.md" % turn: ONE})
        elif turn % 3 == 1:
            assert splice(made or b"", {b"s0": ONE}, splicer) is None
        index = made


def test_staged_work_beside_ours_stays_and_is_committed_as_ever(root: Path) -> None:
    before = set(git(root, "status", "--porcelain").splitlines())
    agree(root, {b"both.txt": None, b"docs/kept.txt": None, b"docs/other.txt": ONE, b"staged.txt": TWO})
    agree(root, {path.encode(): None for path in git(root, "ls-files").splitlines()})
    ours = agree(root, {b"space/new.md": ONE, b"docs/kept.txt": TWO, b"Z": Entry(b"120000", ONE.oid), b"none": None})
    (root / ".git/index").write_bytes(ours)
    assert before < set(git(root, "status", "--porcelain").splitlines())
    git(root, "commit", "-qm", "mine")
    names = ("staged.txt", "both.txt", "unstaged.txt", "space/new.md", "docs/kept.txt", "Z")
    assert " ".join(git(root, "show", *map("HEAD:{}".format, names)).split()) == "staged staged 1 one two one"
    git(root, "fsck", "--strict")


def test_what_is_the_same_already_keeps_what_git_knows_of_the_file(root: Path) -> None:
    index, wanted = index_of(root), {b"docs/kept.txt": entry_of(root, "docs/kept.txt"), b"gone": None}
    assert splice(index, wanted) is index is splice(index, {})
    assert (theirs := by_git(root, index, wanted)) != index
    assert seen(root, theirs)[:2] == seen(root, index)[:2]


def test_what_the_person_has_marked_is_replaced_as_git_does_it_and_stays_elsewhere(root: Path) -> None:
    (root / "later.txt").touch()
    git(root, "add", "-N", "later.txt")
    git(root, "update-index", "--skip-worktree", "docs/kept.txt")
    git(root, "update-index", "--assume-unchanged", "staged.txt")
    assert index_of(root)[7] == 3
    agree(root, {b"a.md": ONE, b"both.txt": TWO, b"z.md": ONE, b"unstaged.txt": None})
    agree(root, {b"later.txt": EMPTY, b"staged.txt": entry_of(root, "staged.txt")})  # the same, but for the mark
    for path in (b"docs/kept.txt", b"staged.txt", b"later.txt"):
        agree(root, {path: ONE, b"a.md": ONE})
    assert agree(root, {b"docs/kept.txt": ONE, b"later.txt": None})[7] == 3, "also where nothing in it needs that"


def test_an_edit_of_the_second_in_which_git_wrote_is_still_seen(root: Path) -> None:
    git(root, "config", "core.trustctime", "false")
    file, index = root / "docs/kept.txt", root / ".git/index"
    second = (file.stat().st_mtime_ns // 10**9 - 100) * 10**9
    os.utime(file, ns=(second, second))
    git(root, "add", "docs/kept.txt")
    os.utime(index, ns=(second, second))
    file.write_text("2\n")
    os.utime(file, ns=(second, second))
    index.write_bytes(splice(index.read_bytes(), {b"a.md": ONE}) or b"")
    assert git(root, "diff", "--name-only", "docs") == "", "under a newer time git is mistaken"
    os.utime(index, ns=(second, second))
    assert git(root, "diff", "--name-only", "docs") == "docs/kept.txt"


def test_caches_are_left_out(root: Path) -> None:
    git(root, "-c", "index.threads=2", "add", "-A")
    before, after = index_of(root), agree(root, {b"new.md": ONE})
    assert [(name in before, name in after) for name in (b"TREE", b"EOIE", b"IEOT")] == [(True, False)] * 3


def test_a_file_where_a_folder_is_and_the_other_way_round_are_left_to_git(root: Path) -> None:
    index = agree(root, {b"d/e.b": ONE, b"d/e/f/g": ONE, b"d/e0": ONE})
    for path in (b"d", b"d/e", b"d/e/f", b"d/e0/x", b"d/e0/x/y", b"d/e/f/g/h"):
        assert refused(index, {path: ONE})
        agree(root, {path: None}, index)
    assert refused(index, {b"n": ONE, b"n/m": ONE})
    agree(root, {b"d/e/f/g.b": ONE, b"d/e-": ONE, b"d/e/f-": ONE}, index)


def test_paths_up_to_the_longest_that_a_length_is_told_of(empty: Path) -> None:
    def long(first: str, length: int) -> bytes:
        return (first.encode() + b"/".join([b"d" * 200] * 30))[: length - 1] + b"x"

    index = by_git(empty, NOTHING, {long(str(length), length): ONE for length in (4094, 4095, 4096, 5000)})
    for path in (b"3", b"4094", b"4095x", b"4096a", b"5", b"6", long("4095a", 4094), long("3", 3840), long("3", 3839)):
        wanted = {path: TWO, long("4094", 4094): None}
        assert splice(index, wanted) == by_git(empty, index, wanted)
    assert refused(index, {long("4095", 4095): None})


def test_a_conflict_of_a_merge_is_left_to_git_and_nothing_beside_it(root: Path) -> None:
    git(root, "commit", "-qam", "all")
    git(root, "checkout", "-qb", "other", "HEAD~")
    (root / "both.txt").write_text("otherwise\n")
    git(root, "commit", "-qam", "other")
    git(root, "merge", "-q", "work", ok=False)
    for path, entry in ((b"both.txt", ONE), (b"both.txt", None), (b"both.txt/x", ONE)):
        assert refused(index_of(root), {path: entry})
    agree(root, {b"both.t": ONE, b"both.txt.md": ONE, b"staged.txt": None, b"unstaged.txt": TWO})
    git(root, "add", "both.txt")
    assert b"REUC" in index_of(root)
    assert refused(index_of(root))


@pytest.mark.parametrize(
    "command",
    ["update-index --split-index", "update-index --force-untracked-cache", "update-index --index-version 4",
     "sparse-checkout set --cone --sparse-index docs"],
)  # fmt: skip
def test_an_index_of_another_kind_is_left_to_git(root: Path, command: str) -> None:
    git(root, "update-index", "--add", "--cacheinfo", f"100644,{ONE.oid},far/a.md")
    git(root, "commit", "-qm", "all")
    assert not refused(index_of(root), {})
    git(root, *command.split())
    git(root, "status")
    assert refused(index_of(root), {})


def test_what_git_does_not_write_or_we_do_not_know_is_left_to_git(empty: Path, tmp_path: Path) -> None:
    content = by_git(empty, NOTHING, {b"a": ONE, b"bc": ONE})[:-20]
    assert not refused(sealed(content + b"TREE\0\0\0\2ab"))
    for name in (b"REUC", b"UNTR", b"FSMN", b"link", b"sdir", b"NEWS", b"news", b"TREE\0", b"TREE\0\0\0\3"):
        assert refused(sealed(content + name + b"\0\0\0\2ab"))
    for entries in (content[76:] + content[12:76], content[76:] * 2):
        assert refused(sealed(content[:12] + entries)), "out of order"
    assert refused(sealed(content[:76] + content[12:72] + b"\x10" + content[73:76]), {b"a": ONE}), "stages 0 and 1"
    for at, new in ((38, b"\x40\0"), (73, b"\0\0"), (139, b"\0")):  # a folder, no name, a zero in it
        assert refused(sealed(content[:at] + new + content[at + len(new) :]))
    for version, more in ((3, 0x20), (2, 0x20), (3, 0x80)):  # intent-to-add, and what nobody knows
        extended = content[12:72] + bytes((0x40, 1, more, 0)) + b"a" + bytes(7)
        index = sealed(content[:7] + bytes([version]) + content[8:12] + extended + content[76:])
        assert refused(index) == ((version, more) != (3, 0x20))
    assert refused(content + bytes(20)), "index.skipHash"
    git(tmp_path, "init", "-q", "--object-format=sha256")
    git(tmp_path, "update-index", "--add", "--cacheinfo", f"100644,{'1' * 64},a")
    assert refused(index_of(tmp_path), {b"a": None})
    assert refused(NOTHING, {b"a": entry_of(tmp_path, "a")})


def test_what_is_not_plainly_a_file_is_left_to_git() -> None:
    for path in (
        b"", b"/a", b"a/", b"a//b", b".", b"..", b"./a", b"a/../b", b"a/.", b".git", b"a/.GIT/b", b"GIT~1/b", b".git./c", b"a\0b",
        b"a\\b", ".g\u200cit/config".encode(), "\u200c.git/config".encode(), b"\xff/.git", b"x" * 4095,
    ):  # fmt: skip
        assert [splice(NOTHING, {path: entry}) for entry in (ONE, None)] == [None, None]
    for oid in ("", "0" * 40, ONE.oid[:-1], ONE.oid + "0", "g" * 40, " " + ONE.oid, "ab " * 13 + "c", "é" * 40):
        assert refused(NOTHING, {b"a": Entry(b"100644", oid)})
    for mode in (b"", b"0", b"40000", b"040000", b"100664", b"100600", b"0100644", b"x"):
        assert refused(NOTHING, {b"a": Entry(mode, ONE.oid)})


def test_what_is_damaged_is_left_to_git(root: Path) -> None:
    chance = random.Random(2)
    git(root, "update-index", "--skip-worktree", "docs/kept.txt")
    index = index_of(root)
    for end in range(len(index)):
        at = chance.randrange(len(index))
        assert refused(index[:end])
        assert refused(sealed(index[:end])) or end in {index.index(b"TREE"), len(index) - 20}
        assert refused(index[:at] + bytes([index[at] ^ 1 << chance.randrange(8)]) + index[at + 1 :])
        assert refused(chance.randbytes(end))


def test_what_is_damaged_under_a_right_checksum_is_left_to_git_or_done_as_git_does(empty: Path) -> None:
    chance, done = random.Random(3), 0
    index = by_git(empty, NOTHING, {b"docs/a.md": ONE, b"docs/b": ONE, b"docs/b.md": TWO, b"z.md": ONE})
    wanted = {b"docs/b": TWO, b"docs/c": ONE, b"z.md": None}
    for turn in range(2000):
        at, byte = chance.randrange(len(index) - 20), chance.choice([0, 255, chance.randrange(256)])
        damaged = sealed(index[:at] + bytes([byte]) + index[at + 1 : -20])
        if (made := splice(damaged, wanted)) is not None and turn % 20 == 0:
            assert made == by_git(empty, damaged, wanted)
            done += 1
    assert done > 10
