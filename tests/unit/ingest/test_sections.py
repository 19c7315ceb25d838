"""A document is divided by its headings, whatever a person writes around them; what is no document says why."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ormahd.ingest.documents.finding import kind_of
from ormahd.ingest.documents.reading import Unreadable, read_document
from ormahd.ingest.documents.sections import LONGEST, sections
from tests.tables import rows


def shown(text: str) -> list[tuple[str, str, str]]:
    return [(one.place, one.title, one.text) for one in sections(text, "notes")]


@pytest.mark.parametrize(("text", "expected"), rows(__file__, "a_text_is_divided_by_its_headings"))
def test_a_text_is_divided_by_its_headings(text: str, expected: list[list[str]]) -> None:
    assert [list(one) for one in shown(text)] == expected


def test_a_long_section_is_divided_and_nothing_is_lost() -> None:
    words = " ".join(f"word{number}" for number in range(4000))
    found = sections(f"# Long\n\n{words}", "notes")
    assert [one.title for one in found[:2]] == ["Long", "Long (2)"]
    assert all(len(one.text) <= LONGEST for one in found)
    assert " ".join(one.text for one in found) == words
    assert len({one.place for one in found}) == len(found)


# ------------------------------------------------------------ what is no document


def pdf(*pages: str, extra: bytes = b"") -> bytes:
    """A small PDF with a line of text a page."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
               b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]  # fmt: skip
    for number, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R /Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
    out = b"%PDF-1.4\n"
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    return out + b"trailer\n<< /Size %d /Root 1 0 R %s>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, extra, table)


@pytest.mark.parametrize("name", ["json", "logging", "resource", "contextlib", "pypdf", "typing"])
def test_a_pdf_is_read_without_modules_of_the_working_directory(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    (tmp_path / "page.pdf").write_bytes(pdf("A heron fishes"))
    monkeypatch.chdir(tmp_path)
    assert read_document(tmp_path / "page.pdf", "page").sections
    assert not (tmp_path / "ran").exists()


def test_a_pdf_has_a_section_a_page(tmp_path: Path) -> None:
    file = tmp_path / "ferry.pdf"
    file.write_bytes(pdf("The ferry leaves at noon.", "", "It arrives at two o clock."))
    found = read_document(file, "ferry")
    assert found.kind == "pdf"
    assert [(one.title, one.text.strip()) for one in found.sections] == [
        ("ferry, page 1", "The ferry leaves at noon."), ("ferry, page 3", "It arrives at two o clock."),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is empty"),
        (b"\n\n  \n", "it is empty"),
        (b"\x00\x01binary", "it is no text"),
        (b"caf\xe9 \xe4\xf6\xfc" * 9, "it is no text in UTF-8"),
        (b"# A\n<<<<<<< HEAD\nmine\n=======\ntheirs\n>>>>>>> other\n", "it has git's conflict markers"),
        (b"x" * 10_000_001, "a document has at most 10"),
        (pdf(""), "it has no text: it may be a scan"),
        (b"%PDF-1.7\nbroken", "it cannot be read as a PDF"),
        (b"%PDF-1.4\n" + os.urandom(2000), "it cannot be read as a PDF"),
        (pdf("Secret.", extra=b"/Encrypt << /Filter /Standard /V 1 /R 2 /O (" + b"o" * 32 + b") /U (" + b"u" * 32 + b") /P -4 >> /ID [(a) (b)] "), "it is encrypted"),
        (pdf("Looped.").replace(b"/Kids [4 0 R]", b"/Kids [2 0 R]"), "PDF|no text"),
    ],
    ids=range(11),
)  # fmt: skip
def test_what_is_no_document_says_why(tmp_path: Path, data: bytes, why: str) -> None:
    file = tmp_path / "x.md"
    file.write_bytes(data)
    with pytest.raises(Unreadable, match=why):
        read_document(file, "x")


def test_what_is_no_file_does_not_stall(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.md"
    os.mkfifo(pipe)
    for place in (pipe, tmp_path, Path("/dev/zero")):
        with pytest.raises(Unreadable, match=r"no regular file|directory"):
            read_document(place, "x")
    with pytest.raises(Unreadable, match="No such file"):
        read_document(tmp_path / "missing.md", "x")


def test_utf_16_is_read(tmp_path: Path) -> None:
    file = tmp_path / "x.txt"
    file.write_bytes("# Grüße\n\nAus Österreich, viele.".encode("utf-16"))
    assert [one.title for one in read_document(file, "x").sections] == ["Grüße"]


# ------------------------------------------------------------ conversation or document


def test_what_a_file_is_is_told_by_its_name_and_a_text_by_its_content(tmp_path: Path) -> None:
    cases = {
        "a.md": (b"# Notes\n\nHere is what was said.\n\nUser: hello\nAssistant: hi\n", "document"),
        "b.md": (b"# Chat\n\nUser: hello\nAssistant: hi\n", "document"),
        "c.txt": (b"User: hello\nAssistant: hi\n", "conversation"),
        "d.txt": (b"A plain text.", "document"),
        "e.jsonl": (b'{"type":"user","message":{"role":"user","content":"x"},"uuid":"u"}\n', "conversation"),
        "f.json": (b"{}", "conversation"),
        "g": (pdf("Text of a page."), "document"),
        "h.zip": (b"no zip", "conversation"),
        "i.zip": (b"PK\x03\x04broken", "conversation"),
    }
    for name, (data, _) in cases.items():
        (tmp_path / name).write_bytes(data)
    assert {name: kind_of(tmp_path / name) for name in cases} == {name: kind for name, (_, kind) in cases.items()}
