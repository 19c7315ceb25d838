"""Every HTTP route of the seeds answers with its shape; who may not ask is refused."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection

from ormahctl.gateway import reach
from ormahctl.gateway.table import ROUTES
from tests.house import open_house, wait_until
from tests.tables import NUMBERS, rows
from tests.web import Web, open_web, stream, web_house

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    with web_house() as found:
        yield found


def remember(web: Web, content: str, **more: Any) -> str:
    made = web.ask("POST", "/agent/remember", {"content": content, **more})
    assert made["node_id"] in made["text"]
    id_: str = made["node_id"]
    return id_


# ---------------------------------------------------------------- the routes


def test_the_seeds_routes_are_there_and_described(web: Web) -> None:
    described = web.ask("GET", "/openapi.json")
    there = {f"{verb.upper()} {path}" for path, verbs in described["paths"].items() for verb in verbs}
    assert there == set(rows(__file__, "routes"))
    assert len(ROUTES) + 2 == len(there)
    assert all(one.summary for one in ROUTES)


def test_text_routes_answer_with_text_and_node_id(web: Web) -> None:
    id_ = remember(web, "The tides are computed by harmonics", title="Tides", type="decision", space="shop")
    other = remember(web, "The harbour has three docks", title="Docks")
    for verb, path, body in (
        ("GET", f"/agent/recall/{id_}", None),
        ("POST", f"/agent/update/{id_[:8]}", {"tags": ["sea"], "tier": "core"}),
        ("POST", "/agent/connect", {"source_id": id_, "target_id": other, "edge": "supports", "weight": 0.7}),
        ("POST", f"/agent/outdated/{other}", {"reason": "there are four now"}),
        ("DELETE", f"/agent/recall/{other}", None),
    ):
        found = web.ask(verb, path, body)
        assert isinstance(found["text"], str), path
        assert found["node_id"] in (id_, other), path
    found = web.ask("POST", "/agent/recall?default_space=shop", {"query": "harmonics of tides", "limit": 5})
    assert found["results"][0]["id"] == id_
    assert "Tides" in found["text"]
    assert web.ask("GET", f"/agent/recall/{id_}?session_id=s&touch=false")["tags"] == ["sea"]


def test_a_program_is_named_and_a_space_may_come_by_the_query(web: Web) -> None:
    found = web.ask(
        "POST", "/agent/remember?default_space=harbour&agent_id=my-editor", {"content": "Named by the query"}
    )
    assert found["space"] == "harbour"
    found = web.ask("POST", "/agent/remember?default_space=harbour", {"content": "By itself", "space": None}, headers={"X-Agent-Id": "my-tool"})  # fmt: skip
    assert found["space"] is None
    log = web.house.git("log", "-2", "--format=%(trailers:key=Ormah-Source,valueonly)").split()
    assert log == ["agent:my-tool", "agent:my-editor"]


def test_whisper_and_feedback(web: Web) -> None:
    id_ = remember(web, "Releases are signed with the key of the release manager", title="Signing releases")
    said = web.ask("POST", "/agent/whisper", {"prompt": "which key signs our releases?", "session_id": "http-1"})
    assert id_[:8] in said["text"]
    judged = web.ask("POST", "/agent/feedback", {"node_id": id_, "signal": 1, "source": "implicit"})
    assert (judged["node_id"], isinstance(judged["text"], str)) == (id_, True)


def test_lists_and_decisions(web: Web) -> None:
    for words in ("uses vite as its bundler", "uses vite as its bundler."):
        remember(web, f"The web shop of the harbour {words}", space="twins")
    web.ask("POST", "/admin/tasks/duplicate_merger/run", {"force": True})
    merges = web.ask("GET", "/agent/merges?limit=5")["merges"]
    proposals = web.ask("GET", "/agent/proposals")["proposals"]
    assert merges or proposals
    for one in proposals[:1]:
        found = web.ask("POST", f"/agent/proposals/{one['id']}", {"action": "approved"})
        assert (found["status"], found["proposal_id"]) == ("approved", one["id"])
        merges = web.ask("GET", "/agent/merges?limit=5")["merges"]
    undone = web.ask("POST", f"/agent/merges/{merges[0]['id'][:20]}/undo")
    assert isinstance(undone["text"], str)
    assert web.ask("GET", "/agent/insights").keys() >= {"evolutions", "tensions"}
    web.ask("POST", f"/agent/update/{remember(web, 'The audit names changes')}", {"tags": ["sea"]})
    assert {one["operation"] for one in web.ask("GET", "/agent/audit?limit=100")["entries"]} >= {"update"}


def test_maintenance_in_two_phases(web: Web) -> None:
    first = web.ask("POST", "/agent/maintenance", {})
    assert first.keys() >= {
        "link_candidates",
        "conflict_candidates",
        "merge_candidates",
        "consolidation_clusters",
        "summary",
    }
    second = web.ask("POST", "/agent/maintenance", {"results": {"receipt": first["receipt"], "edges": []}})
    assert second["status"] == "applied"
    assert second["summary"].keys() >= {"edges", "merges", "consolidations", "skipped"}


def test_admin(web: Web) -> None:
    assert web.ask("GET", "/admin/health")["status"] == "ok"
    assert web.ask("GET", "/admin/stats").keys() >= {"total_nodes", "by_tier", "total_edges"}
    assert web.ask("POST", "/admin/rebuild")["nodes_indexed"] > 0
    names = [one["name"] for one in web.ask("GET", "/admin/tasks")["tasks"]]
    ran = web.ask("POST", "/admin/tasks/run-all", {"dry_run": True})
    assert [one["job"] for one in ran["results"]] == names == [
        "importance_scorer", "index_updater", "duplicate_merger", "conflict_detector", "auto_linker", "auto_cluster",
        "consolidator", "decay_manager",
    ]  # fmt: skip
    assert web.ask("POST", "/admin/tasks/auto_linker/pause")["paused"] == ["auto_linker"]
    assert web.ask("POST", "/admin/tasks/pause-all")["paused"] == names
    assert "auto_linker" not in web.ask("POST", "/admin/tasks/auto_linker/resume")["paused"]
    assert web.ask("POST", "/admin/tasks/resume-all")["paused"] == []


def test_ingest(web: Web) -> None:
    said = "User: Remember that the shop is deployed on Mondays.\n\nAssistant: noted\n"
    found = web.ask("POST", "/ingest/conversation", {"content": said, "agent_id": "test"})
    assert (found["status"], found["file"]["added"]) == ("processed", 2)
    assert found["extracted"] == len(found["memories"]) == 1
    assert "Mondays" in web.ask("GET", f"/agent/recall/{found['memories'][0]['node_id']}")["text"]
    assert found["file"]["path"] == "", "the file in between is nobody's business"
    answer = web.program.post("/ingest/file", files={"file": ("talk.txt", said.replace("Mondays", "Fridays"))})
    assert (answer.status_code, answer.json()["status"], answer.json()["file"]["added"]) == (200, "processed", 2)
    text = "# Harbour\n\nThe harbour master decides about berths, and nobody else does.\n"
    done = web.program.post("/ingest/file?default_space=docks", files={"file": ("harbour.md", text)}).json()
    assert (done["status"], done["extracted"], done["document"]["path"]) == ("processed", 1, "")
    assert web.ask("GET", "/ui/search?q=harbour master berths&space=docks")["results"]
    for name, data, status, word in (
        ("x.bin", b"\xff\xfe\0" + os.urandom(100), 415, "no text"),
        ("x.json", b'{"a": 1}', 415, "format"),
        ("x.txt", b"", 400, "empty"),
        ("x.pdf", b"%PDF-1.4 junk", 400, "PDF"),
    ):
        junk = web.program.post("/ingest/file", files={"file": (name, data)})
        assert junk.status_code == status, (name, junk.text)
        error = junk.json()["error"]
        assert name in error["message"], error
        assert word in error["message"], error
        assert "markdown" in error["hint"]
    silent = web.program.post("/ingest/conversation", json={"content": "nobody speaks here"})
    assert (silent.status_code, silent.json()["error"]["data"]["field"]) == (400, "content")
    for wrong in (
        web.program.post("/ingest/file", content=b"x"),
        web.program.post("/ingest/file", data={"other": "field"}, files={"y": b""}),
        web.program.post("/ingest/file", files={"file": ("big.txt", b"x" * 10_100_000)}),
        web.program.post("/ingest/conversation", json={"text": said}),
    ):
        assert wrong.status_code in {400, 413, 415}, wrong.text
        assert wrong.json()["error"]["message"]


def test_ui(web: Web) -> None:
    id_ = remember(web, "Cranes lift containers", title="Cranes", space="harbour")
    graph = web.ask("GET", "/ui/graph?space=harbour&space=global&limit=500")
    assert {one["space"] for one in graph["nodes"]} == {"harbour", None}
    assert graph.keys() >= {"nodes", "edges", "user_node_id"}
    edges = web.ask("GET", "/ui/graph")["edges"]
    assert all(one.keys() >= {"source_id", "target_id", "edge_type", "weight", "created"} for one in edges)
    assert web.ask("GET", f"/ui/graph/node/{id_}")["node"]["id"] == id_
    assert web.ask("GET", "/ui/search?q=cranes&limit=3")["results"][0]["id"] == id_
    assert web.ask("GET", "/ui/insights").keys() >= {"evolutions", "tensions"}


def test_null_is_the_default_and_a_byte_order_mark_is_passed_over(web: Web) -> None:
    named = {
        "type": None,
        "tier": None,
        "tags": None,
        "links": None,
        "title": None,
        "confidence": None,
        "about_self": None,
    }
    for number, mark in enumerate((b"", b"\xef\xbb\xbf")):
        body = mark + json.dumps({"content": f"Buoy {number} is red.", **named}).encode()
        answer = web.program.post("/agent/remember", content=body, headers=JSON)
        assert answer.status_code == 200, answer.text
    found = web.ask("POST", "/agent/recall", {"query": "buoy red", "limit": None, "types": None, "sessions": None})
    assert found["results"]


def test_errors_name_the_thing(web: Web) -> None:
    for verb, path, body, status, word in rows(__file__, "refused"):
        answer = web.program.request(verb, path, content=body, headers=JSON if body else {})
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json"), path
        assert word in json.dumps(answer.json()["error"]), path
    for broken, why in (
        (b"{", "column 2"),
        (b"\xff", "no UTF-8 (byte 1)"),
        (b'{"content":"\\ud83d"}', "surrogate pair"),
    ):
        answer = web.program.post("/agent/remember", content=broken, headers=JSON)
        assert answer.status_code == 400
        assert why in answer.json()["error"]["message"]
    for number in NUMBERS.values():
        for body in (
            f'{{"query": "x", "limit": {number}}}',
            f'{{"query": {number}}}',
            f'{{"{number}": 1}}',
            number,
            f"[{number}]",
        ):
            answer = web.program.post("/agent/recall", content=body.encode(), headers=JSON)
            assert answer.status_code == 400, (body[:60], answer.text[:300])
            assert len(answer.text) < 1_000
    assert web.program.post("/agent/remember", content=b"content=x").status_code == 415
    assert web.program.post("/agent/remember", content=b" " * 17_000_000, headers=JSON).status_code == 413
    assert web.program.get("/admin/health", headers={"X-Agent-Id": "x" * 200}).status_code == 400


# ---------------------------------------------------------------- the stream


def closed_with(socket: ClientConnection) -> int | None:
    """The code with which the gateway closes, after whatever it sends before."""
    with contextlib.suppress(ConnectionClosed):
        for _ in socket:
            pass
    return socket.close_code


def test_the_stream_is_the_daemons_events(web: Web) -> None:
    with stream(web, "?only=write") as socket:
        begun = json.loads(socket.recv())
        assert begun["refetch"] is False
        id_ = remember(web, "Told by the stream")
        told = json.loads(socket.recv())
        assert (told["event"], told["nodes"]) == ("write", [id_])
        remember(web, "Told later")
        last = json.loads(socket.recv())
    with stream(web, f"?only=write&after={told['id']}") as socket:
        assert json.loads(socket.recv())["last"] == told["id"]
        assert json.loads(socket.recv()) == last
    for query in ("?after=nonsense", "?only=nonsense"):
        with stream(web, query) as socket:
            assert closed_with(socket) == 4400


def test_the_page_gets_the_stream_by_its_cookie(web: Web) -> None:
    own = f"http://127.0.0.1:{web.port}"
    with stream(web, Authorization=None, Cookie=web.session(), Origin=own) as socket:
        assert json.loads(socket.recv())["refetch"] is False


def test_the_stream_ends_with_the_daemon_and_begins_again(web: Web) -> None:
    with stream(web) as socket:
        begun = json.loads(socket.recv())
        web.house.restart()
        assert closed_with(socket) == 1012
    with stream(web, f"?after={begun['last']}") as socket:
        assert json.loads(socket.recv())["refetch"] is True


# ---------------------------------------------------------------- who may ask


def hostile(web: Web) -> Iterator[tuple[str, str, dict[str, str | None], int]]:
    cookie = web.session()
    words = {
        "COOKIE": cookie,
        "OTHER": cookie.replace(str(web.port), "1"),
        "TOKEN": web.token,
        "LONG": "/" + "a" * 5_000,
    }
    words |= {"PORT": str(web.port), "NEXT": str(web.port + 1)}
    for what, path, headers, status in rows(__file__, "hostile"):
        *given, path = (
            re.sub("|".join(words), lambda found: words[found[0]], text) for text in (*headers.values(), path)
        )
        yield what, path, {name: text or None for name, text in zip(headers, given, strict=True)}, status


def test_who_may_not_ask_is_refused(web: Web) -> None:
    wrong = []
    for what, path, headers, status in hostile(web):
        found, answered, body = web.raw("GET", path, headers)
        if found != status or "access-control-allow-origin" in answered:
            wrong.append((what, found, status, body[:100]))
        assert "default-src 'none'" in answered["content-security-policy"], what
        assert answered["x-content-type-options"] == "nosniff", what
        assert web.token.encode() not in body, what
    assert not wrong


def test_posts_of_other_pages_are_refused(web: Web) -> None:
    cookie: dict[str, str | None] = {"Cookie": web.session()}
    own = f"http://127.0.0.1:{web.port}"
    before = web.ask("GET", "/admin/stats")["total_nodes"]
    body = json.dumps({"content": "Planted"}).encode()
    for what, headers, status in (
        ("a form", {"Content-Type": "text/plain", "Sec-Fetch-Site": "cross-site", "Origin": "http://evil.example"}, 403),
        ("a form of another port", {"Content-Type": "text/plain", "Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:1"}, 403),
        ("an old browser", {"Content-Type": "text/plain", "Origin": "http://evil.example"}, 403),
        ("a request that says nothing", {**JSON}, 403),
        ("our page, but a form", {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}, 415),
        ("our page", {**JSON, "Sec-Fetch-Site": "same-origin", "Origin": own}, 200),
    ):  # fmt: skip
        found, _, answer = web.raw("POST", "/agent/remember", {**cookie, **headers}, body)
        assert found == status, (what, answer)
    assert web.ask("GET", "/admin/stats")["total_nodes"] == before + 1
    found, answered, _ = web.raw("OPTIONS", "/agent/remember", {**web.bearer(), "Origin": own, "Access-Control-Request-Method": "POST"})  # fmt: skip
    assert found == 405
    assert not [name for name in answered if name.startswith("access-control")]


def test_the_link_works_once_and_its_cookie_is_guarded(web: Web) -> None:
    link = web.house.json("web")["link"]
    assert re.fullmatch(rf"http://127\.0\.0\.1:{web.port}/#t=[\w-]{{40,}}", link)
    body = json.dumps({"token": link.partition("#t=")[2]}).encode()
    own = {**JSON, "Origin": f"http://127.0.0.1:{web.port}"}
    assert web.raw("POST", "/session", {**JSON, "Origin": "http://evil.example"}, body)[0] == 403
    status, headers, _ = web.raw("POST", "/session", dict(own), body)
    assert status == 204
    kept = headers["set-cookie"]
    assert kept.startswith(f"ormah-{web.port}=")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {one.strip() for one in kept.split(";")}
    assert web.raw("POST", "/session", dict(own), body)[0] == 400, "once"
    assert web.raw("POST", "/session", dict(own), b'{"token": "guessed"}')[0] == 400
    assert web.raw("POST", "/session", dict(own), b"[]")[0] == 400
    _, _, shown = web.raw("GET", "/", {})
    files = re.findall(rb'(?:src|href)="(/[^"]+\.(?:js|css|svg))"', shown)
    assert len(files) == 3
    for path in ("/", *(one.decode() for one in files)):
        status, _, page = web.raw("GET", path, {})
        assert status == 200, path
        assert web.token.encode() not in page


@pytest.mark.parametrize(
    "headers", [{"Authorization": None}, {"Authorization": "Bearer x"}, {"Origin": "http://evil.example"}, {"Host": "evil.example"}, {"Sec_Fetch_Site": "cross-site"}],
    ids=str,
)  # fmt: skip
def test_the_stream_is_guarded(web: Web, headers: dict[str, str | None]) -> None:
    with pytest.raises(InvalidStatus) as refused:
        stream(web, **headers)
    assert refused.value.response.status_code == 403


def test_the_token_is_in_a_private_file_and_the_port_on_loopback(web: Web) -> None:
    found = web.house.json("web")
    mode = Path(found["token_file"]).stat().st_mode
    assert stat.S_IMODE(mode) == 0o600
    listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines() if line.split()[3] == "0A"]
    assert [one for one in listening if one.endswith(f":{web.port:04X}")] == [f"0100007F:{web.port:04X}"]
    wished = web.port + 1 if web.port < 65_000 else 60_000
    other = web.house.ctl("web", "--port", str(wished))
    assert other.returncode == 2
    assert f"open at http://127.0.0.1:{web.port}/ already" in other.stderr
    assert f"to have it at port {wished}, first: ormahctl restart" in other.stderr


def test_a_port_may_be_chosen_and_may_be_taken(web: Web) -> None:
    with open_house() as house:
        house.start()
        taken = house.ctl("web", "--port", str(web.port))
        assert taken.returncode == 2
        assert "choose another one" in taken.stderr
        opened = open_web(house)
        assert opened.port != web.port
        assert opened.program.get("/admin/stats", headers={"Authorization": f"Bearer {web.token}"}).status_code == 401
        opened.program.close()


def test_a_page_that_stays_is_there_again_with_the_same_token() -> None:
    with web_house() as web:
        house, cookie = web.house, {"Cookie": web.session()}
        assert f"open at {web.url};" in house.ctl("status").stdout
        for words, kept in ((("--stay",), True), ((), True), (("--no-stay",), False)):
            house.ctl("web", *words)
            reach.stop(house.socket)
            wait_until(lambda: reach.status(house.socket) is None, "the gateway ended")
            reach.reopen(house.socket)
            if kept:
                wait_until(
                    lambda: (reach.status(house.socket) or {}).get("port") == web.port, "it is at its port again"
                )
                assert web.raw("GET", "/admin/stats", {**cookie, "Sec-Fetch-Site": "same-origin"})[0] == 200
                assert web.ask("GET", "/admin/stats")
        assert reach.status(house.socket) is None
        assert open_web(house).token != web.token


def test_a_browser_is_started_with_the_link(web: Web) -> None:
    browser = web.house.home / "browser"
    browser.write_text(
        f'#!/bin/sh\necho "$1" > {web.house.home}/opened.part\nmv {web.house.home}/opened.part {web.house.home}/opened\n'
    )
    browser.chmod(0o700)
    done = web.house.ctl("web", env={"BROWSER": f"{browser} %s"})
    assert done.returncode == 0, done.stderr
    opened = wait_until(lambda: (web.house.home / "opened").exists() and (web.house.home / "opened").read_text(), "it opens").strip()  # fmt: skip
    assert f"open: {opened}\n" in done.stdout
    without = web.house.ctl("web", env=dict.fromkeys(("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME"), ""))
    assert "open the link in one on this machine" in without.stderr


def test_many_requests_and_streams_at_once(web: Web) -> None:
    with ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(lambda at: web.program.get(("/admin/health", "/ui/graph", "/nothing")[at % 3]).status_code, range(60)))  # fmt: skip
    assert codes == [200, 200, 404] * 20
    with contextlib.ExitStack() as open_ones:
        sockets = [open_ones.enter_context(stream(web)) for _ in range(8)]
        for socket in sockets:
            json.loads(socket.recv())
        remember(web, f"Heard by all {time.time_ns()}")
        for socket in sockets:
            while json.loads(socket.recv())["event"] != "write":
                pass
    wait_until(
        lambda: web.ask("GET", "/admin/health")["clients"] < 8, "all but a few connections to the daemon are closed"
    )
