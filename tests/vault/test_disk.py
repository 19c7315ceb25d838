"""What the kernel does for us: bytes in and out of files in few calls, and many flushes beside each other."""

from __future__ import annotations

import os
import threading

import pytest

from ormahd.process.disk import Flusher, read_all, write_all


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
