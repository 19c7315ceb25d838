"""Two machines share a vault whose notes git changes on their way: what both changed is joined as notes, and the blobs stay git's."""

from __future__ import annotations

import pytest

from ormahd.errors import Conflict
from ormahd.model.change import Kind
from tests.vault.git_house import sha
from tests.vault.sync_house import TEXT, A, B, Machine, Two, note


def share(two: Two, attributes: str) -> None:
    """Both machines have the filter; one of them gives the notes their attributes, and git brings them to the other."""
    one, other = two
    for machine in two:
        for key, value in {"clean": "base64", "smudge": "base64 -di", "required": "true"}.items():
            machine.git("config", f"filter.crypt.{key}", value)
    (one.root / ".gitattributes").write_text(f"*.md merge=ormah {attributes}\n")
    one.git("add", "--renormalize", ".")
    one.git("commit", "-qam", "attributes")
    one.git("push", "-q")
    other.git("pull", "-q", "--rebase")
    for path in ("a.md", "b.md"):
        (other.root / path).unlink()
        other.git("checkout", "--", path)


def plain(machine: Machine, path: str) -> bool:
    blob = machine.vault.git.read(machine.vault.blob_at(machine.vault.head() or "", path) or "", "blob")
    return b"id: " in blob and b"\r" not in blob


@pytest.mark.parametrize(
    ("attributes", "readable"), [("filter=crypt", False), ("text eol=crlf", True), ("text=auto", True), ("ident", True)]
)
def test_what_two_machines_changed_is_joined(two: Two, attributes: str, readable: bool) -> None:
    one, other = two
    share(two, attributes)
    assert (b"\r\n" in (other.root / "a.md").read_bytes()) == ("crlf" in attributes)
    for machine, old, new in ((one, "one", "first"), (other, "three", "third")):
        now = machine.vault.read("a.md") or b""
        with machine.vault.transaction("update: a", kind=Kind.UPDATE, source="agent:test") as tx:
            tx.put("a.md", now.replace(old.encode(), new.encode()), node_id=A, expect=sha(now))
    other.push()
    one.sync()
    other.join()
    assert one.vault.head() == other.vault.head()
    for machine in two:
        machine.sound()
        text = (machine.vault.read("a.md") or b"").replace(b"\r\n", b"\n")
        assert text == note(TEXT.replace("one", "first").replace("three", "third"), A)
        assert plain(machine, "a.md") == readable
        assert plain(machine, "b.md") == readable


def test_a_filter_that_fails_on_one_machine_stops_the_join_by_name_and_nothing_is_changed(two: Two) -> None:
    one, other = two
    share(two, "filter=crypt")
    other.store({"b.md": note("bees and wasps", B)})
    other.push()
    one.git("config", "filter.crypt.smudge", "exit 3")
    before = (one.vault.head(), (one.root / "b.md").read_bytes())
    with pytest.raises(Conflict, match=r"b\.md: git could not apply filter=crypt"):
        one.join()
    assert (one.vault.head(), (one.root / "b.md").read_bytes()) == before
    one.git("config", "filter.crypt.smudge", "base64 -di")
    one.join()
    assert (one.root / "b.md").read_bytes() == note("bees and wasps", B)
    one.sound()
