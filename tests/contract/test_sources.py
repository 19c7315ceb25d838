"""Folders of a person in the index: which files, by which sections, under which ids; and what of it nobody else sees."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd.actions.amend import Caller
from ormahd.actions.remember import store_memory
from ormahd.actions.transfer import export
from ormahd.api import ExportParams
from ormahd.index.rows import NodeRow
from ormahd.ingest.source_folders import SourceFolders
from ormahd.model.node import CreateNodeRequest
from ormahd.ormah import Ormah
from ormahd.settings.learning import SourceFolder
from tests.extraction_house import opened
from tests.house import wait_until, write_notes
from tests.tables import rows

LONG = "".join(f"## Part {number}\n\n{'Kestrels hover over the field. ' * 20}\n\n" for number in range(3))
KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2


@pytest.fixture
def ormah(tmp_path: Path) -> Iterator[Ormah]:
    with opened(tmp_path) as found:
        yield found


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "Notes"
    folder.mkdir()
    return folder


def read(ormah: Ormah, folder: Path, **more: object) -> dict[str, NodeRow]:
    """Scan a folder whose files all rest, and return what is found in it: file and line -> row."""
    for file in folder.rglob("*"):
        if file.is_file() and not file.is_symlink():
            os.utime(file, (1_700_000_000, 1_700_000_000 + file.stat().st_size))
    ormah.sources = [SourceFolder.model_validate({"path": str(folder), "space": "field", **more})]
    SourceFolders(ormah).scan(folder)
    rows = ormah.index.notes([row.node_id for row in ormah.index.source_rows()])
    return {str(Path(row.path).relative_to(folder)): row for row in rows.values()}


def test_sections_tags_aliases_dates_and_links(ormah: Ormah, notes: Path) -> None:
    write_notes(notes, {
        "Birds.md": f"---\ntitle: All birds\ntags: [about_self, wild]\ndate: 2024-02-03\n---\nSee [[Owl]]. #night `#no`\n\n{LONG}",
        "Owl.md": "---\naliases: [Strix]\n---\nOwls see at night.\n",
        "2024-05-06.md": "An entry of a diary.\n",
        "plain.txt": "A text without any mark.\n",
    })  # fmt: skip
    found = read(ormah, notes)
    assert sorted(found) == [
        "2024-05-06.md:1",
        "Birds.md:12",
        "Birds.md:16",
        "Birds.md:6",
        "Birds.md:8",
        "Owl.md:1",
        "plain.txt:1",
    ]
    first, part, owl = found["Birds.md:6"], found["Birds.md:8"], found["Owl.md:1"]
    assert (first.title, first.tags, f"{first.created:%F}") == ("All birds", ("wild", "night"), "2024-02-03")
    assert (part.title, part.tags, part.space) == ("All birds: Part 0", ("wild",), "field")
    assert [edge.target for edge in ormah.index.edges(first.id)[0]] == [owl.id]
    assert f"{found['2024-05-06.md:1'].created:%F}" == "2024-05-06"
    assert f"{owl.created:%F}" == "2023-11-14", "without a date of its own it is as old as its file"
    assert {row.source for row in found.values()} == {"source:Notes"}
    assert ormah.index.resolve_link("strix") == owl.id


def test_what_is_not_read(ormah: Ormah, notes: Path, tmp_path: Path) -> None:
    write_notes(notes, {
        "good.md": f"A good note with {KEY} in it.\n",
        ".obsidian/a.md": "Hidden away in settings.\n", ".trash/b.md": "Thrown away long ago.\n", "Templates/c.md": "A template here.\n",
        "node_modules/d.md": "A readme of others.\n", "Drafts/e.md": "A draft that is left out.\n", "f.png": "no text",
        "conflict.md": "<<<<<<< a\nOne side of it.\n=======\nThe other side.\n>>>>>>> b\n",
        "drawing.md": "---\nexcalidraw-plugin: parsed\n---\nText of a drawing.\n",
    })  # fmt: skip
    outside = tmp_path / "outside.md"
    outside.write_text("A text outside of it.\n")
    (notes / "link.md").symlink_to(outside)
    (notes / "linked").symlink_to(tmp_path / "vault", target_is_directory=True)
    os.mkfifo(notes / "pipe.md")
    found = read(ormah, notes, exclude=["Drafts/"])
    assert list(found) == ["good.md:1"]
    assert KEY not in found["good.md:1"].content
    assert KEY in (notes / "good.md").read_text()
    assert list(read(ormah, notes, include=["Drafts/"])) == ["Drafts/e.md:1"]
    (trouble,) = SourceFolders(ormah).answer(reload=False).sources[:1]
    assert (trouble.files, trouble.sections) == (1, 1)


OLD, NEW = "The quay is repaired by Ines.\nAsk her first.\n", "The quay is repaired by Tomek.\nAsk her first.\n"


@pytest.mark.parametrize(("original", "copy", "is_read"), rows(__file__, "a_copy_of_a_file_beside_it_is_not_read"))
def test_a_copy_of_a_file_beside_it_is_not_read(
    ormah: Ormah, notes: Path, original: str, copy: str, is_read: bool
) -> None:
    write_notes(notes, {original: OLD, copy: NEW})
    found = read(ormah, notes)
    assert [name.partition(":")[0] for name in sorted(found)] == sorted({original} | ({copy} if is_read else set()))


def test_a_number_is_that_of_a_copy_if_most_of_the_text_is_the_same(ormah: Ormah, notes: Path) -> None:
    page = "# The quay\n\n" + "".join(f"Plank {number} is of oak.\n" for number in range(9))
    write_notes(
        notes,
        {
            "Quay.md": page,
            "Quay 2.md": page.replace("Plank 3", "Plank three"),
            "Quay 3.md": "# Third\n\nAll is of stone.\n",
        },
    )
    assert {name.partition(":")[0] for name in read(ormah, notes)} == {"Quay.md", "Quay 3.md"}


@pytest.mark.parametrize(("filters", "left"), rows(__file__, "what_is_excluded_in_obsidian_is_not_read"))
@pytest.mark.parametrize("top", ["", "Sub"])
def test_what_is_excluded_in_obsidian_is_not_read(
    ormah: Ormah, notes: Path, filters: object, left: list[str], top: str
) -> None:
    write_notes(
        notes,
        {
            name: f"{name} tells of the harbour.\n"
            for name in ("Quay.md", "Archive/Old.md", "Log/Old.md", "Sub/Archive/Deep.md")
        },
    )
    (notes / ".obsidian").mkdir()
    (notes / ".obsidian" / "app.json").write_text(json.dumps({"userIgnoreFilters": filters}))
    found = sorted(name.partition(":")[0] for name in read(ormah, notes / top))
    assert found == [str(Path(name).relative_to(top)) for name in left if name.startswith(top)]


def test_a_linked_folder_is_watched_wherever_the_link_leads(ormah: Ormah, notes: Path, tmp_path: Path) -> None:
    link, other = tmp_path / "Linked", tmp_path / "Other"
    other.mkdir()
    link.symlink_to(notes, target_is_directory=True)
    ormah.sources = [SourceFolder.model_validate({"path": str(link), "space": "field"})]
    folders = SourceFolders(ormah)

    def files() -> set[str]:
        return {row.file for row in ormah.index.source_rows()}

    folders.start()
    try:
        wait_until(lambda: folders.answer(reload=False).sources[0].read, "the first scan")
        write_notes(notes, {"Otter.md": OLD})
        wait_until(lambda: files() == {str(link / "Otter.md")}, "a new file", seconds=60)
        write_notes(other, {"Seal.md": NEW})
        link.unlink()
        link.symlink_to(other, target_is_directory=True)
        wait_until(lambda: files() == {str(link / "Seal.md")}, "the other folder", seconds=60)
    finally:
        assert folders.stop(30)


def test_ids_survive_moves_edits_and_a_lost_index(ormah: Ormah, notes: Path) -> None:
    write_notes(notes, {"a.md": "The first note of all.\n", "b.md": "The second note of all.\n"})
    ids = {path: row.id for path, row in read(ormah, notes).items()}
    (notes / "a.md").rename(notes / "moved.md")
    (notes / "b.md").write_text("The second note, edited.\n")
    found = read(ormah, notes)
    assert {path: row.id for path, row in found.items()} == {"moved.md:1": ids["a.md:1"], "b.md:1": ids["b.md:1"]}
    (notes / "a.md").write_text("Another note at the old place.\n")
    found = read(ormah, notes)
    assert found["a.md:1"].id not in ids.values()
    ormah.index.begin_anew("a test")
    assert {path: row.id for path, row in read(ormah, notes).items()} == {path: row.id for path, row in found.items()}
    shutil.copy(notes / "b.md", notes / "c.md")
    shutil.copy(notes / "b.md", notes / "d.md")
    (notes / "b.md").unlink()
    assert ids["b.md:1"] not in {row.id for row in read(ormah, notes).values()}, (
        "two came: which one it is, nobody knows"
    )
    assert len(read(ormah, notes)) == 4
    for file in notes.iterdir():
        file.unlink()
    assert len(read(ormah, notes)) == 4, "an emptied folder may be a disk that is not mounted"


def test_the_vault_does_not_see_them(ormah: Ormah, notes: Path) -> None:
    (notes / "a.md").write_text("The gate is painted blue.\n")
    (section,) = read(ormah, notes).values()
    assert section.path not in ormah.index.known_files()
    assert section.path not in ormah.index.kinds()
    assert ormah.index.stats().nodes == 1, "the self node"
    assert section.id not in [
        one["id"] for one in export(ormah.index, ormah.vault, ExportParams(after=None, limit=10)).items
    ]
    assert ormah.verify() == []
    request = CreateNodeRequest(content="The gate is painted blue.", space="field", title="a")
    made = store_memory(ormah, request, Caller("person"))
    assert (made.existing, made.links) == (False, []), (
        "the same words in a source are no memory, and none is linked to them"
    )
    ormah.sources = []
    SourceFolders(ormah).start()
    assert ormah.index.source_rows() == []
