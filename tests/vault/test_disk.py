"""What the kernel does for us: bytes in and out of files in few calls, and many flushes beside each other."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from ormahd.process.disk import THREADS, Flusher, read_all, read_small, write_all, write_small


@pytest.mark.parametrize("size", [0, 1, 4096, 300_000])
@pytest.mark.parametrize("thought", [0, 4096, 300_000])
def test_all_of_a_file_however_large_it_is_thought_to_be(tmp_path: Path, size: int, thought: int) -> None:
    data = os.urandom(size)
    (tmp_path / "f").write_bytes(data)
    fd = os.open(tmp_path / "f", os.O_RDONLY)
    try:
        assert read_all(fd, thought) == data
    finally:
        os.close(fd)


def test_what_the_system_takes_in_parts_is_written_whole() -> None:
    data = os.urandom(1_000_000)  # more than a pipe takes at once
    out, into = os.pipe()
    os.set_blocking(out, True)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(read_all(out, 0)))
    reader.start()
    write_all(into, data)
    os.close(into)
    reader.join(120)
    os.close(out)
    assert got == [data]


def test_a_small_file_is_written_anew_and_read_no_further_than_asked(tmp_path: Path) -> None:
    write_small(tmp_path / "f", b"a longer text")
    write_small(tmp_path / "f", b"short")
    assert read_small(tmp_path / "f") == b"short"
    assert read_small(tmp_path / "f", 2) == b"sh"
    with pytest.raises(FileNotFoundError):
        read_small(tmp_path / "none")


def test_each_once_and_beside_each_other() -> None:
    """More items than threads; the first of them wait until as many are at work as there are threads."""
    flusher, done, meeting = Flusher(), [], threading.Barrier(THREADS)

    def work(number: int) -> None:
        if number < THREADS:
            meeting.wait(120)
        done.append(number)

    flusher.each(work, range(5 * THREADS))
    flusher.close()
    assert sorted(done) == list(range(5 * THREADS))


def test_all_of_them_end_before_an_error_is_raised() -> None:
    flusher, done = Flusher(), []

    def work(number: int) -> None:
        if not number % 7:
            raise OSError(number, "no room")
        done.append(number)

    with pytest.raises(OSError, match="no room"):
        flusher.each(work, range(50))
    flusher.close()
    assert sorted(done) == [number for number in range(50) if number % 7]
