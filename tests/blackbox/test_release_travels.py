"""What one machine released is not removed from the folder of another: it loses Ormah's lines there too, and stays."""

from __future__ import annotations

from tests.blackbox.two_houses import two_houses
from tests.house import wait_until


def test_a_released_file_stays_on_the_other_machine() -> None:
    with two_houses() as (one, two, bare):
        files = {f"Mine {number}.md": f"written by a person, number {number}\n" for number in range(5)}
        for path, text in files.items():
            (one.vault / path).write_text(text)
        wait_until(lambda: all("id: " in (one.vault / path).read_text() for path in files), "they are adopted")
        wait_until(lambda: one.git("status", "--porcelain") == "", "they are committed")
        one.json("sync", "setup", str(bare))
        two.json("sync", "setup", str(bare), "--yes")
        assert all("id: " in (two.vault / path).read_text() for path in files)
        (two.vault / "Mine 0.md").write_text((two.vault / "Mine 0.md").read_text() + "and here\n")
        wait_until(lambda: two.git("status", "--porcelain") == "", "the edit is taken in")
        two.json("sync")
        one.json("sync")
        one.json("vault", "release", *files, "--yes")
        one.json("sync")
        two.json("sync")
        expected = {**files, "Mine 0.md": files["Mine 0.md"] + "and here\n"}
        for house in (one, two):
            assert {path: (house.vault / path).read_text() for path in files} == expected
            assert not set(files) & set(house.git("ls-files").splitlines())
        two.json("jobs", "run", "index_updater")
        two.restart()
        assert {path: (two.vault / path).read_text() for path in files} == expected, "it is not adopted there again"
        assert two.json("verify")["ok"]
