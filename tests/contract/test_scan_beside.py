"""Changes by Ormah while a scan is under way: what the scan has read before is never seen in their place."""

from __future__ import annotations

import threading

from tests.jobs_house import JobsHouse, open_jobs_house
from tests.vault.git_house import git


def checked_out(house: JobsHouse, node_id: str, content: str) -> None:
    """Another version of a memory, brought in by git: a commit that the index has not been given yet."""
    path = house.path(node_id)
    path.write_text(path.read_text("utf-8").replace(house.row(node_id).content, content), "utf-8")
    git(house.ormah.vault.root, "commit", "-qam", "By hand")


def test_an_older_version_that_a_scan_has_read_is_not_seen_after_a_change() -> None:
    with open_jobs_house() as house:
        index, node_id = house.ormah.index, house.remember("The lamp stands in the hall.")
        checked_out(house, node_id, "The lamp stands in the attic.")
        seen: set[str] = set()
        stop = threading.Event()

        def look() -> None:
            while not stop.is_set():
                seen.add(index.note(node_id).content)

        looking = threading.Thread(target=look)

        def progress(done: int, total: int) -> None:
            """Called when the scan has read the notes, and has not told the index."""
            if done == total:
                house.update(node_id, content="The lamp stands in the cellar.")
                looking.start()

        house.ormah.reconciler.scan(progress=progress)
        stop.set()
        looking.join()
        assert seen == {"The lamp stands in the cellar."}
        assert house.ormah.verify() == []
