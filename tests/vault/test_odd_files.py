"""One odd file never stops a scan: it is named and passed by, and the notes beside it are taken in. What was moved out and linked back
is kept as it was last committed."""

from __future__ import annotations

import os
import socket
import tempfile
import unicodedata
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.vault.observed import ONE, House

SHARED = Path("/dev/shm")
"""Where it is there it keeps times of any year; other file systems have the nearest that they can."""


@pytest.fixture
def house() -> Iterator[House]:
    with tempfile.TemporaryDirectory(dir=SHARED if SHARED.is_dir() else None) as folder:
        found = House(Path(folder).resolve() / "vault")
        found.settle()
        yield found
        found.close()


def timed(seconds: float) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        (root / "odd.md").write_text("words of another time")
        os.utime(root / "odd.md", (seconds, seconds))

    return make


def named(name: bytes) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        with open(os.fsencode(root) + b"/" + name, "wb") as file:
            file.write(b"words under an odd name")

    return make


def folder(name: bytes) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        os.mkdir(os.fsencode(root) + b"/" + name)
        named(name + b"/in.md")(root)

    return make


def bound(root: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        os.chdir(root)
        one.bind("odd.md")
        os.chdir("/")


def sparse(root: Path) -> None:
    with (root / "odd.md").open("wb") as file:
        file.truncate(1 << 40)


def endless(root: Path) -> None:
    here = os.getcwd()
    os.chdir(root)
    for _ in range(25):
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
    Path("odd.md").write_text("too deep to be reached by its path")
    os.chdir(here)


def device(root: Path) -> None:
    os.mknod(root / "odd.md", 0o20644, os.makedev(1, 3))


def piped(name: str) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        (root / "inner").mkdir()
        os.mkfifo(root / "inner" / name)
        (root / "inner/odd.md").write_text("words beside a pipe")

    return make


FOUND: dict[str, Callable[[Path], None]] = {
    "1969": timed(-1), "1900": timed(-2_208_988_800), "of the year -35,676,378": timed(-(2**50)),
    "2200": timed(7_258_118_400), "10,000": timed(253_402_300_800), "of the year 35,680,317": timed(2**50),
    "a line feed": named(b"two\nlines.md"), "255 bytes": named(b"n" * 252 + b".md"), "accents to 255": named("é".encode() * 126 + b".md"),
    "a space before the dot": named(b"trail .md"), "dots": named(b"a. ..md"), "a space in front": named(b" lead.md"),
    "emoji": named("🦊🏽‍🚀.md".encode()), "an option": named(b"--force.md"), "a pattern": named(b"*?[a]!.md"), "magic": named(b":(glob)x.md"),
    "quotes": named(b"it's \"q\" $x `y`.md"), "a tab": named(b"t\tb.md"), "a backslash": named(b"a\\b.md"), "control": named(b"\x01\x1b[31m.md"),
    "a device of Windows": named(b"con.md"), "right to left": named("\u202egnp.md".encode()), "nothing to see": named("\u200b.md".encode()),
    "a wikilink": named(b"[[x|y]].md"), "a folder of two lines": folder(b"f\nold"), "a folder with a space": folder(b"trail "),
}  # fmt: skip
"""Files that are taken in."""
NAMED: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "latin-1": (named(b"caf\xe9.md"), "warning", "the name is not UTF-8"),
    "half a character": (named(b"\xed\xa0\x80.md"), "warning", "the name is not UTF-8"),
    "folder in latin-1": (folder(b"caf\xe9"), "warning", "the folder's name is not UTF-8"),
    "a terabyte of nothing": (sparse, "warning", "too large: 1,099,511,627,776 bytes"),
    "a pipe": (lambda root: os.mkfifo(root / "odd.md"), "info", "a pipe, no regular file"),
    "a socket": (bound, "info", "a socket, no regular file"),
    "a device": (device, "info", "a device, no regular file"),
    "a link in a circle": (lambda root: os.symlink("odd.md", root / "odd.md"), "info", "a link, no regular file"),
    "a link outside": (lambda root: os.symlink("/etc/hostname", root / "odd.md"), "info", "a link, no regular file"),
    "a link to nothing": (lambda root: os.symlink("nowhere", root / "odd.md"), "info", "a link, no regular file"),
    "a link": (lambda root: os.symlink("/usr", root / "odd"), "info", "a link"),
    "a link to the vault": (lambda root: os.symlink(".", root / "odd"), "info", "a link"),
    "deeper than a path may be": (endless, "warning", "the folder cannot be read: File name too long"),
    "a pipe for ignore rules": (piped(".gitignore"), "warning", ".gitignore is a pipe there"),
}  # fmt: skip
"""Files that are passed by: what `doctor` says of them."""


def beside(house: House) -> None:
    """Notes are written before and after the odd file, and both are found."""
    house.write("A note.md", "the first that lies beside it\n")
    house.write("zz/Other.md", "the second that lies beside it\n")
    house.settle()
    assert house.index.find("that lies beside it") == ["A note.md", "zz/Other.md"]


@pytest.mark.parametrize("make", FOUND.values(), ids=FOUND)
def test_an_odd_file_is_taken_in(house: House, make: Callable[[Path], None]) -> None:
    before = set(house.index.rows)
    make(house.root)
    beside(house)
    (odd,) = set(house.index.rows) - before - {"A note.md", "zz/Other.md"}
    assert "words" in house.index.note(odd).content
    assert odd in house.index.nodes().values()
    assert house.reconciler.problems() == []
    ought = {path: state for path, _, state in house.reconciler.files()}
    assert ought == {path: state for path, (_, state) in house.index.rows.items()}


@pytest.mark.parametrize(("make", "level", "what"), NAMED.values(), ids=NAMED)
def test_an_odd_file_is_named_and_passed_by(house: House, make: Callable[[Path], None], level: str, what: str) -> None:
    before = set(house.index.rows)
    try:
        make(house.root)
    except PermissionError:
        pytest.skip("only the superuser makes devices")
    beside(house)
    assert set(house.index.rows) == before | {"A note.md", "zz/Other.md"}
    (said,) = house.reconciler.problems()
    assert (said["level"], said["what"].startswith(what), bool(said["mend"])) == (level, True, True), said
    assert [one["what"] for one in house.reconciler.problems(fresh=True)] == [said["what"]]


def test_what_is_passed_by_is_named_at_once_and_no_more_when_it_is_gone(house: House) -> None:
    os.mkfifo(house.root / "odd.md")
    house.scan()
    assert [one["path"] for one in house.reconciler.problems()] == ["odd.md"]
    (house.root / "odd.md").unlink()
    house.scan()
    assert house.reconciler.problems() == []


def test_git_is_not_asked_for_attributes_out_of_a_pipe(house: House) -> None:
    piped(".gitattributes")(house.root)
    beside(house)
    assert house.index.find("words beside a pipe") == ["inner/odd.md"]
    assert house.read("inner/odd.md") == b"words beside a pipe"
    (said,) = house.reconciler.problems()
    assert "a pipe in the place of .gitattributes" in said["what"]


def test_names_that_differ_in_the_form_of_an_accent_are_notes_of_their_own(house: House) -> None:
    forms = [unicodedata.normalize(form, "éé.md") for form in ("NFC", "NFD")]
    forms.append(forms[0][0] + forms[1][2:])  # the first accent in one form, the second in the other
    for at, path in enumerate(forms):
        house.write(path, f"the form number {at}")
        house.write(f"{path[:-3]}/In.md", f"in a folder of the form number {at}")
    beside(house)
    mine = [node for node, path in house.index.nodes().items() if "é" in unicodedata.normalize("NFC", path)]
    assert len(mine) == 6
    house.reconciler = house.new_reconciler()
    house.settle()
    assert {node for node, path in house.index.nodes().items() if "é" in unicodedata.normalize("NFC", path)} == set(
        mine
    )


def test_a_file_that_is_at_fault_is_named_and_the_others_are_taken_in(house: House) -> None:
    """A clock that fails for one file stands for any fault of ours: none is known."""
    times = iter([ValueError("no such time"), *[datetime.now(UTC)] * 1000])

    def clock() -> datetime:
        found = next(times)
        if isinstance(found, ValueError):
            raise found
        return found

    house.reconciler = house.new_reconciler(clock=clock)
    house.write("0.md", "odd")
    house.write("A note.md", "that lies beside it")
    result = house.scan()
    assert result.skipped["0.md"]["what"] == "cannot be taken in: ValueError: no such time"
    assert house.index.find("that lies beside it") == ["A note.md"]
    assert [(one["path"], one["level"]) for one in house.reconciler.problems()] == [("0.md", "error")]
    house.settle()
    assert house.index.find("odd") == ["0.md"]
    assert house.reconciler.problems() == []


def test_a_folder_that_is_moved_out_and_linked_back_is_no_deletion(house: House) -> None:
    path = house.remember("the words that moved out", title="Moved", node_id=ONE)
    house.settle()
    top = path.partition("/")[0]
    outside = house.root.parent / "outside"
    (house.root / top).rename(outside)
    (house.root / top).symlink_to(outside)
    house.settle()
    assert house.index.find("the words that moved out") == [path]
    assert path in house.vault.tree()
    assert [(one["path"], one["what"]) for one in house.reconciler.problems()] == [
        (top, "a link; links are not followed")
    ]
    house.index.rows.clear()  # an index that is made anew has it too
    house.reconciler = house.new_reconciler()
    house.settle()
    assert house.index.find("the words that moved out") == [path]
