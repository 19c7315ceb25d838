"""The page without a browser: every view with every shape of a memory is a whole document that loads and runs nothing."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tarfile
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

import pytest

from ormahctl.gateway.page import words
from tests.blackbox.two_houses import in_conflict
from tests.contract.archiving import answered, asked, ran, written
from tests.house import open_house, wait_until, write_notes
from tests.page import Document, Reader
from tests.pages import fault
from tests.tables import rows
from tests.web import open_web, web_house

PAGE = Path(__file__).parents[2] / "ormahctl" / "gateway" / "page"

HOSTILE = {
    "script": ("<script>alert(1)</script>", "<script>alert(2)</script> & <img src=x onerror=alert(3)> \"'"),
    "template": ("</template></main></body>", "</template></textarea></title><svg onload=alert(1)>{{ 7 * 7 }}{% raw %}"),
    "markdown": ("[a](javascript:alert(1))", ("[a](javascript:alert(1)) [b](data:text/html,x) ![c](https://evil.example/p.png) <b>d</b>\n\n"
                 "[e](//evil.example) <https://f.example>\n\n| g | h |\n|-|-|\n| i | j |\n\n```html\n<k>\n```\n\n[l]: javascript:m")),
    "right to left": ("\u05e9\u05dc\u05d5\u05dd \u202egnp.exe", "\u05e9\u05dc\u05d5\u05dd \u202e evil \u2066 and \u200f end"),
    "control": ("bell\x07 esc\x1b[31m", "null-like \x01 \x1b]0;owned\x07 \u2028 \x9b31m"),
    "deep": ("deep", "> " * 5_000 + "x\n\n" + "[" * 5_000 + "\n\n" + "*a **b " * 5_000),
    "long": ("t" * 300, "word " * 50 + "x" * 20_000),
}  # fmt: skip
NOTE = "---\nid: {id}\ntype: fact\ntitle: {title}\ntags: [{tags}]\ncreated: 2026-11-21T20:00:00Z\n---\n{content}\n"
LARGE = "aaaaaaaa-0000-4000-8000-000000000001"
TAGGED = "bbbbbbbb-0000-4000-8000-000000000002"


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    """The page of a house that has each hostile memory, one that is outdated and replaced, one that was learned, one forgotten."""
    with open_house() as house:
        house.start()
        write_notes(house.vault, {
            "large.md": NOTE.format(id=LARGE, title="Large", tags="big", content="<p>ten megabytes</p> " * 350_000),
            "tagged.md": NOTE.format(id=TAGGED, title="T" * 2_000, tags=", ".join(f"t{n}" for n in range(10_000)), content="Many."),
        })  # fmt: skip
        found = Reader(open_web(house))
        wait_until(
            lambda: {one.id for one in house.call("agent.list").memories} >= {LARGE, TAGGED}, "the files are taken in"
        )
        yield found
        found.web.program.close()


@pytest.fixture(scope="module")
def ids(reader: Reader) -> dict[str, str]:
    call = reader.web.house.call
    made = {
        name: call("agent.remember", title=title, content=content, tags=["x<y"]).node_id
        for name, (title, content) in HOSTILE.items()
    }
    made |= {"large": LARGE, "tagged": TAGGED}
    call("agent.update", node_id=made["script"], content="<script>alert(4)</script> edited", tier="core")
    made["newer"] = call("agent.remember", content="The newer <i>one</i>.", replaces=[made["markdown"]]).node_id
    call(
        "ingest.conversation",
        content="User: From now on we deploy only on Tuesdays, never on Fridays.\nAssistant: <b>Noted</b>.\n",
    )
    made["learned"] = next(one.id for one in call("agent.list").memories if "Tuesdays" in one.content)
    for name in {*HOSTILE, "tagged"} - {"script"}:
        call("agent.connect", source_id=made["script"], target_id=made[name])
    made["forgotten"] = call("agent.remember", title="<b>Went</b>", content="It went.").node_id
    call("agent.forget", node_id=made["forgotten"])
    call("agent.whisper", prompt="<script> when do we deploy, on Tuesdays or on Fridays?", session_id="s", space=None)
    return made


@pytest.mark.parametrize("name", [*HOSTILE, "large", "tagged"])
def test_forms_show_a_memory_as_text(reader: Reader, ids: dict[str, str], name: str) -> None:
    shown = reader.get(f"/m/{ids[name]}/edit")
    assert ("Save" in shown.text) != (name in {"control", "right to left", "large"})
    reader.get(f"/m/{ids[name]}/outdated")


@pytest.mark.parametrize("name", [*HOSTILE, "large", "tagged", "newer", "learned"])
def test_a_memory_is_shown_as_text(reader: Reader, ids: dict[str, str], name: str) -> None:
    shown = reader.get(f"/m/{ids[name]}")
    assert all(one in shown.text for one in ("Connections", "Where from", "Told", "History"))
    assert len(shown.raw) < 700_000
    if name in HOSTILE:
        title, content = HOSTILE[name]
        if title.isprintable():
            assert title in shown.text
        for one in re.findall(r"<\w+[ >]", content):
            assert one in shown.text or name == "script", one


def test_a_memory_says_what_became_of_it(reader: Reader, ids: dict[str, str]) -> None:
    assert "Outdated since" in reader.get(f"/m/{ids['markdown']}").text
    learned = reader.get(f"/m/{ids['learned']}").text
    assert "Said in a session" in learned
    assert "From now on we deploy only on Tuesdays" in learned
    went = reader.get(f"/m/{ids['forgotten']}", 404)
    assert "not there any more" in went.text
    assert "<b>Went</b>" in went.text
    changed = reader.get(f"/m/{ids['script']}")
    first = next(one["href"] for one in changed.all("a") if "?at=" in one.get("href", ""))
    opened = reader.get(first.partition("#")[0])
    assert "alert(4)</script> edited" in opened.text
    assert opened.all("div", **{"class": "added"})


@pytest.mark.parametrize("path", rows(__file__, "a_list_shows_every_memory_as_text"))
def test_a_list_shows_every_memory_as_text(reader: Reader, ids: dict[str, str], path: str) -> None:
    shown = reader.get(path).text
    assert "<script>alert(" in shown
    assert "?" in path or "gnp.exe" in shown


@pytest.mark.parametrize(("path", "text"), rows(__file__, "a_view_of_upkeep_says_what_it_has"))
def test_a_view_of_upkeep_says_what_it_has(reader: Reader, ids: dict[str, str], path: str, text: str) -> None:
    forget = reader.web.house.call("history.list", kind="forget", limit=1).ops[0].commit
    status = 404 if "nonsense" in path else 400 if "soon" in path else 200
    assert text in reader.get(path.replace("FORGET", forget), status).text


def test_a_session_is_a_dialogue_with_its_memories(reader: Reader, ids: dict[str, str]) -> None:
    learned = reader.get(f"/m/{ids['learned']}")
    href = next(one["href"] for one in learned.all("a") if one.get("href", "").startswith("/sessions/"))
    address, _, anchor = href.partition("#")
    shown = reader.get(address)
    assert [one["class"].split() for one in shown.all("li", id=anchor)] == [["person", "chosen"]]
    assert shown.all("a", href=f"/m/{ids['learned']}")
    assert reader.get(f"{address.partition('?')[0]}?q=noted").text.count("of this session") == 1
    assert "No turn has these words" in reader.get(f"{address.partition('?')[0]}?q=nonsense").text
    found = reader.get("/search?q=Tuesdays&sessions=1")
    assert any(one.get("href", "").startswith(address.partition("?")[0]) for one in found.all("a"))


def test_a_session_shows_what_was_done(reader: Reader) -> None:
    steps = [
        asked(0, "Print the sign, please."),
        *ran(0, "printf '<b>stop</b>'", error="Error: <i>no</i> printer"),
        answered(0, "It fails."),
    ]
    house = reader.web.house
    assert house.ctl("ingest", str(written(house.home / "s1.jsonl", *steps))).returncode == 0
    shown = reader.get("/sessions/s1")
    assert "1 thing done, some failed" in shown.text
    assert "printf '<b>stop</b>' failed: Error: <i>no</i> printer" in " ".join(shown.text.split())
    printed = house.ctl("show", "s1").stdout
    assert "   $ printf '<b>stop</b>'  failed: Error: <i>no</i> printer\n" in printed


@pytest.mark.parametrize("name", [*HOSTILE, "tagged", "forgotten"])
def test_a_purge_is_shown_first(reader: Reader, ids: dict[str, str], name: str) -> None:
    head = reader.web.house.git("rev-parse", "HEAD")
    shown = reader.get(f"/m/{ids[name]}/purge").text
    assert "I know that this cannot be undone" in shown
    assert ("Purge “" in shown) != (name == "forgotten")
    reader.post(f"/m/{ids[name]}/purge", 200)  # without the confirmation
    assert reader.web.house.git("rev-parse", "HEAD") == head


def test_a_search_says_what_it_went_by(reader: Reader, ids: dict[str, str]) -> None:
    said = reader.get("/search?q=Tuesdays&sessions=1")
    assert "deploy only on" in said.text
    assert said.all("option", value="1", selected="")
    assert (
        "As the vault was on"
        in reader.get(f"/search?q=word&as_of={reader.web.house.git('rev-parse', 'HEAD')[:12]}").text
    )
    assert len(reader.get("/search?tag=x%3Cy&type=fact").all("a", **{"class": "what"})) == len(HOSTILE) - 1
    assert "Nothing is found" in reader.get("/search?q=Tuesdays&type=goal").text
    assert reader.get("/search?q=%21").text.count("newest first") == 1
    assert f"/m/{ids['newer']}" in reader.get("/search?q=newer").raw


def test_a_map_has_its_memories_as_text(reader: Reader, ids: dict[str, str]) -> None:
    near, chain = f"/map?near={ids['script']}", f"/map?near={ids['deep']}&to={ids['long']}"
    titles = {name: [one["data-id"] for one in reader.get(path).all("li") if "data-id" in one] for name, path in (("near", near), ("chain", chain))}  # fmt: skip
    assert titles["near"][0] == ids["script"]
    assert set(titles["near"]) >= {ids[name] for name in [*HOSTILE, "tagged"]}
    assert titles["chain"] == [ids["deep"], ids["script"], ids["long"]]
    assert "gnp.exe" in reader.get(near).text
    assert "No chain of connections" in reader.get(f"/map?near={ids['large']}&to={ids['long']}").text
    assert "No memory is like that" in reader.get("/map?until=1999-01-01").text
    assert "Not found" in reader.get("/map?near=00000000", 404).text
    small = reader.get(f"/m/{ids['script']}")
    assert {one["href"] for one in small.all("a", tabindex="-1")} >= {f"/m/{ids[name]}" for name in HOSTILE}
    graph = reader.web.ask("GET", f"/ui/graph?columns=true&near={ids['script']}")
    assert not graph["nodes"]
    assert sorted(graph["columns"]["id"]) == sorted(titles["near"])
    edges = graph["columns"]
    assert {edges["id"][one] for one in edges["target"]} >= {ids["deep"], ids["tagged"]}
    assert len({len(edges[name]) for name in ("source", "target", "edge_type")}) == 1


def test_the_days_are_counted_and_stand_as_numbers(reader: Reader, ids: dict[str, str]) -> None:
    counted = reader.web.house.call("admin.stats", days=14, tags=3)
    assert len(counted.daily) == 14
    assert (counted.daily[-1].day, counted.daily[-1].new > 5) == (f"{datetime.now():%Y-%m-%d}", True)
    assert (sum(one.whispers + one.silences for one in counted.daily) > 0, len(counted.by_tag)) == (True, 3)
    shown = reader.get("/")
    assert "In 14 days" in shown.text
    assert len(shown.all("rect", **{"class": "new"})) == 14
    assert shown.all("option", value="x<y") == []
    assert reader.get("/search").all("option", value="x<y")


def test_a_long_list_has_pages(reader: Reader, ids: dict[str, str]) -> None:
    made = {reader.web.house.call("agent.remember", content=f"Number {n}.", space="pages").node_id for n in range(60)}
    seen, address = set[str](), "/search?space=pages"
    while address:
        shown = reader.get(address)
        found = {one["href"] for one in shown.all("a", **{"class": "what"})}
        assert not found & seen
        seen |= found
        address = next(("/search" + one["href"] for one in shown.all("a") if "page=" in one.get("href", "")), "")
    assert seen == {f"/m/{one}" for one in made}


def test_every_change_is_shown_with_its_difference(reader: Reader, ids: dict[str, str]) -> None:
    for op in reader.web.house.call("history.list", limit=100).ops:
        shown = reader.get(f"/changes/{op.commit[:12]}")
        assert op.commit[:12] in shown.text


@pytest.mark.parametrize(
    ("path", "status", "text"),
    rows(__file__, "an_error_is_a_page"),
)  # fmt: skip
def test_an_error_is_a_page(reader: Reader, path: str, status: int, text: str) -> None:
    assert text in reader.get(path, status).text


def test_an_empty_vault_says_what_will_be_here() -> None:
    with web_house() as web:
        shown = Reader(web).get("/")
        assert "Nothing is remembered yet" in shown.text
        assert "1 memory" not in shown.text
        assert "Or write one sentence" in shown.text
        for path, text in rows(__file__, "an_empty_vault_says_what_will_be_here"):
            assert text in Reader(web).get(path).text
        assert "ormahctl setup" in shown.text
        assert "Ready" in shown.text
        assert "Here will be a picture" in Reader(web).get("/map").text


def test_without_a_session_the_page_says_how_to_open_it(reader: Reader) -> None:
    for path, status in (("/", 200), (f"/m/{LARGE}", 401), ("/nothing", 401)):
        found, headers, body = reader.web.raw("GET", path, {"Accept": "text/html", "Sec-Fetch-Mode": "navigate"})
        assert (found, headers["content-type"]) == (status, "text/html; charset=utf-8")
        assert b"ormahctl web" in body
        assert b"Large" not in body
    other: dict[str, str | None] = {
        "Cookie": reader.cookie,
        "Sec-Fetch-Site": "same-site",
        "Sec-Fetch-Mode": "navigate",
    }
    assert b"ormahctl web" in reader.web.raw("GET", "/", other)[2], (
        "what leads here from another port gets the closed page"
    )


def test_the_files_are_kept_by_their_content(reader: Reader) -> None:
    shown = reader.get("/")
    files = re.findall(r'(?:src|href)="(/static/[^"]+)"', shown.raw)
    assert len(files) == 4
    size = 0
    for path in files:
        status, headers, data = reader.web.raw("GET", path, {})
        assert (status, headers["cache-control"]) == (200, "public, max-age=31536000, immutable")
        assert hashlib.sha256(data).hexdigest()[:12] in path
        size += len(data)
    assert size < 60_000


VENDORED = {
    name: (folder / one["file"], one)
    for folder in (PAGE / "vendor", Path(__file__).parents[1] / "browser" / "vendor")
    for name, one in tomllib.loads((folder / "VENDOR.toml").read_text("utf-8")).items()
}


@pytest.mark.parametrize("name", VENDORED)
def test_a_vendored_file_is_the_one_that_was_looked_at(name: str) -> None:
    file, one = VENDORED[name]
    assert hashlib.sha256(file.read_bytes()).hexdigest() == one["sha256"]
    assert one["licence"]


@pytest.mark.soak
@pytest.mark.skipif(not shutil.which("npm"), reason="npm is not installed")
@pytest.mark.parametrize("name", VENDORED)
def test_a_vendored_file_is_the_one_of_its_package(name: str, tmp_path: Path) -> None:
    file, one = VENDORED[name]
    subprocess.run(
        ["npm", "pack", "--silent", f"{one.get('package', name)}@{one['version']}"], cwd=tmp_path, check=True
    )
    (tarball,) = tmp_path.iterdir()
    assert hashlib.sha256(tarball.read_bytes()).hexdigest() == one["tarball_sha256"]
    with tarfile.open(tarball) as packed:
        assert packed.extractfile(one["member"]).read() == file.read_bytes()  # type: ignore[union-attr]


def test_nothing_is_put_into_the_page_as_a_string() -> None:
    script = "".join(path.read_text("utf-8") for path in (PAGE / "static").glob("*.js"))
    assert len(re.findall(r"createPolicy", script)) == 1
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", script)
    texts = "".join(path.read_text("utf-8") for path in (PAGE / "templates").iterdir())
    assert not re.search(r"style=|\|\s*safe\b|https?://|\son\w+=", texts)


# ---------------------------------------------------------------- forms


@pytest.fixture(scope="module")
def desk() -> Iterator[Reader]:
    """The page of a house of its own, for what changes the vault."""
    with web_house(ORMAH_LINKING_SIMILARITY="1", ORMAH_JOBS_ENABLED="false") as web:
        yield Reader(web)


def kept(desk: Reader, text: str, **more: object) -> str:
    return str(desk.web.house.call("agent.remember", content=text, **more).node_id)


def last(desk: Reader) -> str:
    """The subject and the author of the newest commit."""
    return desk.web.house.git("log", "-1", "--format=%s (%an)").strip()


def form(shown: Document) -> dict[str, str]:
    """The hidden fields of a page's forms."""
    return {one["name"]: one.get("value", "") for one in shown.all("input", type="hidden")}


def test_a_memory_is_edited_and_the_edit_taken_back_twice(desk: Reader) -> None:
    node = kept(desk, "The port is 8080.", title="Port", tags=["net"])
    given = form(desk.get(f"/m/{node}/edit"))
    assert (
        desk.post(f"/m/{node}/edit", **given, title="Port", content="The port is 9443.\r\nBehind TLS.", tags="net, tls")
        == f"/m/{node}"
    )
    assert last(desk) == "Update: Port (Ada Person)"
    (note,) = [data for path, data in desk.web.house.notes().items() if node[:8] in path]
    assert b"The port is 9443.\nBehind TLS." in note
    for text in (b"8080", b"9443"):
        op = desk.web.house.git("rev-parse", "HEAD").strip()
        assert "What undoing it would do" in desk.get(f"/changes/{op}").text
        assert op == desk.web.house.git("rev-parse", "HEAD").strip(), "a dry run changes nothing"
        assert desk.post(f"/changes/{op}") == f"/m/{node}"
        (note,) = [data for path, data in desk.web.house.notes().items() if node[:8] in path]
        assert text in note
    assert last(desk) == "Redo: Update: Port (Ada Person)"


def test_an_edit_that_meets_another_keeps_both(desk: Reader) -> None:
    node = kept(desk, "The queue is RabbitMQ.", title="Queue", tags=["one"])
    given = form(desk.get(f"/m/{node}/edit"))
    desk.web.house.call("agent.update", node_id=node, content="The queue is Kafka.", add_tags=["two"])
    head = desk.web.house.git("rev-parse", "HEAD")
    mine = {"content": "The queue is RabbitMQ 4.", "tags": "one"}
    answer = desk.post(f"/m/{node}/edit", 200, **given, **mine)
    assert "This memory was changed while you were editing." in answer
    assert all(one in answer for one in ("Save mine", "Take theirs"))
    assert "The queue is Kafka." in answer
    assert head == desk.web.house.git("rev-parse", "HEAD")
    now = desk.web.house.call("agent.get", node_id=node, touch=False)
    again = given | {"expect": now.digest}
    assert desk.post(f"/m/{node}/edit", **again, **mine) == f"/m/{node}"
    found = desk.web.house.call("agent.get", node_id=node, touch=False)
    assert (found.content, found.tags) == ("The queue is RabbitMQ 4.", ["one", "two"])


@pytest.mark.parametrize(
    ("fields", "text"), [({"confidence": "much"}, "a number from 0 to 1"), ({"type": "nonsense"}, "nonsense"), ({"content": " "}, "an empty memory")]
)  # fmt: skip
def test_what_cannot_be_saved_stays_in_the_form(desk: Reader, fields: dict[str, str], text: str) -> None:
    node = kept(desk, "It stays.", title="Stays")
    answer = desk.post(f"/m/{node}/edit", 200, **form(desk.get(f"/m/{node}/edit")), title="My new title", **fields)
    assert text in answer
    assert "Save" in answer
    assert desk.web.house.call("agent.get", node_id=node, touch=False).title == "Stays"


def test_outdated_forgotten_and_brought_back(desk: Reader) -> None:
    node, newer = (
        kept(desk, "We meet on Mondays.", title="Meeting"),
        kept(desk, "We meet on Thursdays.", title="Meeting now"),
    )
    assert newer in desk.get(f"/m/{node}/outdated").raw
    desk.post(f"/m/{node}/outdated", reason="it moved", by=newer)
    assert "Outdated since" in desk.get(f"/m/{node}").text
    desk.post(f"/m/{node}/outdated", revoke="1")
    assert "Outdated since" not in desk.get(f"/m/{node}").text
    desk.post(f"/m/{node}/forget")
    assert last(desk) == "Forget: Meeting (Ada Person)"
    gone = desk.get(f"/m/{node}", 404)
    back = next(one["href"] for one in gone.all("a", **{"data-key": "u"}))
    assert "bring back" in desk.get(back).text
    assert desk.post(back) == f"/m/{node}"
    assert desk.web.house.call("agent.get", node_id=node, touch=False).title == "Meeting"


def test_the_undo_of_a_large_change_is_tried_when_it_is_asked_for(desk: Reader) -> None:
    desk.web.house.call("admin.import", lines=[json.dumps({"content": f"Import {n}."}) for n in range(60)])
    op = desk.web.house.git("rev-parse", "HEAD").strip()
    shown = desk.get(f"/changes/{op}")
    assert not shown.all("form", method="post")
    assert shown.all("a", href=f"/changes/{op}?would=1")
    assert desk.get(f"/changes/{op}?would=1").all("form", method="post")


def test_an_undo_that_meets_a_later_edit_says_so(desk: Reader) -> None:
    node = kept(desk, "Tea at four.", title="Tea")
    made = desk.web.house.git("rev-parse", "HEAD").strip()
    desk.web.house.call("agent.update", node_id=node, content="Tea at five.")
    shown = desk.get(f"/changes/{made}")
    assert "Undoing would also remove 1 memory that was edited since: Tea" in shown.text
    assert "Remove it, with its later edits" in shown.text
    assert "--force" not in shown.text
    desk.post(f"/changes/{made}", force="1")
    desk.get(f"/m/{node}", 404)


def test_proposals_are_decided_and_found_again(desk: Reader) -> None:
    call = desk.web.house.call
    for content, days in rows(__file__, "proposals_are_decided_and_found_again"):
        made = (datetime.now(UTC) - timedelta(days=days)).isoformat()
        call("admin.import", lines=[json.dumps({"content": content, "title": "Deploy day", "created": made})])
    call("admin.run_task", name="conflict_detector")
    proposal = next(one for one in call("agent.proposals").proposals if "Fridays" in one.proposed_action)
    assert "superseded" in desk.get("/").text
    shown = desk.get("/waiting")
    for text in ("Older: Deploy day", "Does the newer one replace the older?", "Yes, the newer holds", "In numbers"):
        assert text in shown.text
    assert "The text that would stand" not in shown.text
    assert desk.post(f"/waiting/{proposal.id}", action="approved") == "/waiting"
    assert last(desk).startswith("Superseded: Deploys of the shop happen on Fridays")
    assert "Fridays" not in desk.get("/waiting").text
    decided = desk.get("/waiting?status=all")
    assert "approved" in decided.text
    undo = next(one["href"] for one in decided.all("a", **{"data-key": "u"}))
    desk.post(undo)
    assert last(desk).startswith("Undo: ")


def test_a_run_and_all_of_a_job_are_undone_after_a_dry_run(desk: Reader) -> None:
    house = desk.web.house
    lines = [json.dumps({"content": f"The buoy {n} is green.", "title": f"Buoy {n}"}) for n in range(3)]
    run = house.call("admin.import", lines=lines).run
    head = house.git("rev-parse", "HEAD").strip()
    shown = desk.get(f"/changes?run={run}")
    assert "Changes of one run" in shown.text
    ask = next(one["href"] for one in shown.all("a", **{"data-key": "u"}))
    assert "remove Buoy 1" in desk.get(ask).text
    assert house.git("rev-parse", "HEAD").strip() == head
    done = desk.get(desk.post("/changes/undo", run=run))
    assert "1 change undone" in done.text
    assert not [path for path in house.notes() if "buoy" in path]
    back = next(one["href"] for one in done.all("a", **{"data-key": "u"}))
    desk.post("/changes/undo", run=back.partition("run=")[2])
    assert "Nothing of it is left to undo" in desk.get(back).text
    assert len([path for path in house.notes() if "buoy" in path]) == 3
    ran = desk.post("/health/conflict_detector", action="run")
    assert "conflict_detector" in desk.get(ran).text
    for action, word in (("pause", "Resume all"), ("resume", "Pause all")):
        assert desk.post("/health/all", action=action) == "/health"
        assert word in desk.get("/health").text
        assert all(one.paused == (action == "pause") for one in house.call("admin.tasks").tasks)


def test_a_purged_memory_is_nowhere(desk: Reader) -> None:
    node = kept(desk, "The safe opens with 4711.", title="Safe")
    assert "Purged" in desk.post(f"/m/{node}/purge", 200, sure="yes")
    assert "opens with 4711" not in desk.web.house.git("log", "-p", "--all")
    desk.get(f"/m/{node}", 404)


def test_the_doctor_is_asked_in_the_background_and_on_demand(desk: Reader) -> None:
    (desk.web.house.vault / "broken.md").write_text("---\ntitle: [unclosed\n---\nA text\n")
    wait_until(
        lambda: "broken.md" in desk.web.house.json("doctor", status=1)["findings"].__repr__(), "the file is found"
    )
    assert desk.post("/waiting/finding") == "/waiting?kind=finding"
    assert "broken.md" in desk.get("/waiting?kind=finding").text
    assert "broken.md" in desk.get("/").text


def test_something_is_remembered(desk: Reader) -> None:
    address = desk.post("/remember", content="Lunch is at <b>noon</b>.", space="")
    assert "<b>noon</b>" in desk.get(address).text
    assert last(desk).endswith("(Ada Person)")


def test_a_conflict_of_a_sync_is_settled() -> None:
    with in_conflict("<3>") as found:
        web = open_web(found)
        reader = Reader(web)
        shown = reader.get("/waiting")
        assert "The code is <3>." in shown.text
        assert "The code is 2." in shown.text
        assert reader.post("/waiting/conflict", name=form(shown)["name"], action="keep") == "/waiting"
        assert not found.call("admin.sync_conflicts").conflicts
        web.program.close()


def test_forms_of_others_are_refused(desk: Reader) -> None:
    node = kept(desk, "It stays too.")
    ours: dict[str, str | None] = {
        "Cookie": desk.cookie, "Sec-Fetch-Site": "same-origin", "X-Ormah-Part": "main", "Content-Type": "application/x-www-form-urlencoded",
    }  # fmt: skip
    for change in (
        {"X-Ormah-Part": None}, {"Content-Type": "text/plain"}, {"Content-Type": "multipart/form-data; boundary=x"}, {"Cookie": None},
        {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": None}, {"Origin": "http://127.0.0.1:1"},
    ):  # fmt: skip
        desk.web.raw("POST", f"/m/{node}/forget", ours | change)
        assert desk.web.house.call("agent.get", node_id=node, touch=False).id == node, change
    assert desk.web.raw("POST", f"/m/{node}/forget", ours)[0] == 303


# ---------------------------------------------------------------- whispers


def test_whispers_are_listed_and_judged(desk: Reader) -> None:
    node = kept(desk, "The boiler is serviced by Kessler every May.", title="Boiler service")
    prompt = "who services the <b>boiler</b> every May?"
    said = desk.web.house.call("agent.whisper", prompt=prompt, session_id="boiler", space=None)
    assert [one.id for one in said.nodes] == [node]
    desk.web.house.call("agent.whisper", prompt="thanks", session_id="boiler")
    shown = desk.get("/whispers").text
    assert prompt in shown
    assert "it only answers, thanks, greets or says to go on" in shown
    today, told = desk.get("/"), desk.get(f"/m/{node}")
    assert "Test was told Boiler service" in today.text
    for one in (today, told):
        assert one.all("a", href=f"/whispers/try?{urlencode({'q': prompt})}")
    assert "whole text, relevance" in told.text
    judged = desk.post(f"/whispers/{said.event}", node_id=node, signal="-1")
    assert last(desk).startswith("Feedback: ")
    assert "Undo" in desk.get(judged.partition("#")[0]).text
    again = desk.web.house.call("agent.whisper", prompt=prompt, session_id="another", space=None)
    assert again.silence == "judged"
    assert "relevance" in desk.get(f"/m/{node}").text


def test_bars_add_up_to_the_relevance(reader: Reader, ids: dict[str, str]) -> None:
    seen = 0
    for prompt in rows(__file__, "bars_add_up_to_the_relevance"):
        found = reader.web.house.call("agent.whisper", prompt=prompt, space=None, explain=True)
        for one in found.trace["candidates"]:
            bars = words.bars(one["parts"])
            assert sum(bar.value for bar in bars) == pytest.approx(one["relevance"], abs=0.005)
            seen += 1
        logged = reader.web.house.call("agent.whispers", limit=1).whispers
        shown = reader.get(f"/whispers/try?{urlencode({'q': prompt})}")
        assert "As it would be now" in shown.text
        assert reader.web.house.call("agent.whispers", limit=1).whispers == logged, "the bench tells nobody"
    assert seen >= 5


def test_commands_that_the_page_names_exist() -> None:
    for file in (PAGE / "templates").iterdir():
        for span in re.findall(r"ormahctl (?:[a-z-]+ ?)+(?: --[a-z]+)?", file.read_text("utf-8")):
            assert fault(span.strip()) is None, (file.name, span)
