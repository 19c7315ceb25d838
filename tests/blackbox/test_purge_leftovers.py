"""What of a purged memory lies beside notes and history: versions set aside, promises, the log, the state, undo."""

from __future__ import annotations

import base64
import sqlite3

from tests.blackbox.purging import TITLE, WORDS, holding, told
from tests.house import House


def test_what_was_set_aside_goes_too(daemon: House) -> None:
    """Versions of the memory that no merge could bring in, promises that could not be read; of other notes only links."""
    going, staying = told(daemon)
    note = daemon.vault / daemon.json("show", going)["path"]
    other = daemon.vault / daemon.json("show", staying)["path"]
    folder = daemon.vault / ".ormah"
    mine = other.read_bytes() + b"\nA version that waits.\n"
    promise = b'ormah-intent 1 0\n{"ops": [{"steps": [{"path": "x", "data": "%b"' % base64.b64encode(note.read_bytes())
    aside = {
        folder / "conflicts/01hk0000000000000000000000/ours/x.md": note.read_bytes(),
        folder / f"conflicts/01hk0000000000000000000000/fact_x_{going[:8]}.md": b"cut",
        folder / "intent/damaged/01hk0000000000000000000000.json": promise,
        folder / "conflicts/01hk0000000000000000000000/y.md": mine,
    }
    for file, data in aside.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    daemon.json("forget", "--purge", going, "--yes")
    gone = base64.b64encode(b"zebrafish")[:8], base64.b64encode(b"narwhal")[:8]
    assert [file.name for file in aside if file.exists()] == ["y.md"]
    left = (folder / "conflicts/01hk0000000000000000000000/y.md").read_bytes()
    assert left.endswith(b"A version that waits.\n")
    assert going[:8].encode() not in left
    assert holding(daemon, *WORDS, going, *(word.decode() for word in gone)) == []


def test_a_line_of_the_log_is_written_over(daemon: House) -> None:
    going, _ = told(daemon)
    log = daemon.state / "ormahd.log"
    with log.open("a") as file:
        file.write(f"kept fact_harbour-master_{going[:8]}.md as it is\n“Update: {TITLE}” waits\nan innocent line\n")
    before = log.stat().st_ino
    daemon.json("forget", "--purge", going, "--yes")
    lines = log.read_text().splitlines()
    assert [line.strip() for line in lines if line.startswith("(purged)")] == ["(purged)", "(purged)"]
    assert "an innocent line" in lines
    assert "admin.purge" in lines[-1]
    assert (log.stat().st_ino, holding(daemon, *WORDS, going, TITLE)) == (before, [])


def test_no_row_of_the_state_knows_it(daemon: House) -> None:
    going, staying = told(daemon)
    daemon.call("agent.get", node_id=staying)
    daemon.json("forget", "--purge", going, "--yes")
    daemon.stop()
    db = sqlite3.connect(daemon.state / "state.sqlite3")
    nodes = {row[0] for row in db.execute("SELECT node_id FROM access")}
    db.close()
    assert going not in nodes
    assert staying in nodes


def test_undo_of_what_named_it(daemon: House) -> None:
    going, staying = told(daemon)
    ops = {op["kind"]: op["op"] for op in daemon.json("history") if going in op["nodes"] or op["kind"] == "link"}
    done = daemon.json("forget", "--purge", going, "--yes")
    for op in ops.values():
        tried = daemon.ctl("undo", op)
        assert tried.returncode in {0, 3, 4}, tried.stderr
        assert "Traceback" not in tried.stderr
    assert daemon.ctl("undo", done["op"]).returncode == 4
    assert holding(daemon, *WORDS, going) == []
    assert daemon.json("show", staying)["title"] == "Ships"
    daemon.git("fsck", "--full")
    verified = daemon.ctl("verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr
