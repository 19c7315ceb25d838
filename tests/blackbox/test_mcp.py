"""The tools of MCP as agents use them, in both eras of the protocol."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest

from tests.blackbox.talking import ERAS, Talk, ids, talking
from tests.house import House
from tests.quality import work
from tests.surroundings import ROOT
from tests.tables import rows


@pytest.fixture(params=ERAS)
def talk(shared: House, request: pytest.FixtureRequest) -> Iterator[Talk]:
    with talking(
        shared, request.param, client_info=types.Implementation(name="codex-mcp-client", version="1")
    ) as found:
        assert found.client.protocol_version == ERAS[request.param]
        yield found


def test_the_life_of_a_memory(talk: Talk, shared: House) -> None:
    era = talk.client.protocol_version
    node = talk.remember(f"Shop {era} is deployed with make ship.", type="procedure", space=f"shop-{era}")
    assert "agent:codex" in shared.git("log", "-1", "--format=%an")
    (stored,) = talk.ops(node_id=node)

    said = talk.fine("recall", query=f"how is shop {era} deployed", spaces=[f"shop-{era}"])
    assert ids(said) == [node]
    assert "make ship" in said, "the memory itself"
    said = talk.fine("recall_node", node_id=node[:8])
    (digest,) = re.findall(r"digest (\S+)", said)
    assert "make ship" in said

    talk.fine("update", node_id=node, content=f"Shop {era} is deployed with make release.", expected=digest)
    refused = talk.wrong("update", node_id=node, content="lost", expected=digest)
    assert "changed since it was read" in refused
    assert "What to do: " in refused
    assert "make release" in talk.fine("recall_node", node_id=node)

    given = {"content": f"Shop {era} is deployed with make release2.", "type": "procedure", "space": f"shop-{era}"}
    said = talk.fine("remember", **given)
    newer = ids(said)[0]
    assert node in said, "a similar memory"
    assert "make release." in said
    talk.fine("mark_outdated", node_id=node, replaced_by=newer, reason="renamed")

    assert "superseded" in talk.fine("history", node_id=node).lower()
    outdated, *_, first = talk.ops(node_id=node)
    assert first == stored
    assert "Undone: " in talk.fine("undo", op=outdated)
    assert "outdated since" not in talk.fine("recall_node", node_id=node)


def test_feedback_on_a_whisper(talk: Talk, shared: House) -> None:
    era = talk.client.protocol_version
    node = talk.remember(f"The {era} kiln fires clay at nine hundred degrees.")
    shared.call("agent.whisper", prompt=f"at how many degrees does the {era} kiln fire clay?", session_id=f"s-{era}")
    assert "useful" in talk.fine("submit_feedback", node_id=node, signal=1)
    (judged,) = shared.call("history.list", node_id=node, kind="feedback").ops[:1]
    assert "implicit" in shared.git("show", judged.commit)
    assert "no whisper" in talk.wrong("submit_feedback", node_id=node, signal=1, event="nnnnnnnnnnnn")
    assert "may be from -1 to 1" in talk.wrong("submit_feedback", node_id=node, signal=5)


def test_a_memory_is_forgotten_and_comes_back(talk: Talk) -> None:
    node = talk.remember(f"The {talk.client.protocol_version} ladder leans on the barn.")
    assert "ladder" in talk.fine("forget", node_id=node)
    assert "no memory" in talk.wrong("recall_node", node_id=node)
    assert "Undone: " in talk.fine("undo", op=talk.ops(node_id=node)[0])
    assert "ladder" in talk.fine("recall_node", node_id=node)


def test_what_was_said_in_sessions_is_searched(talk: Talk, shared: House) -> None:
    talked = shared.home / "talk.txt"
    talked.write_text("User: Which winch squeals?\n\nAssistant: The small one, at the stern.\n")
    shared.ctl("ingest", str(talked))
    said = talk.fine("recall", query="which winch squeals", in_sessions=True)
    assert "The small one, at the stern." in said


def test_what_was_done_is_asked_in_three_ways(talk: Talk, shared: House) -> None:
    for one in (one for one in work.sessions() if one.project == "shop"):
        shared.ctl("ingest", str(work.write(one, shared.home / "agents")))
    assert talk.fine("recall_work", how="load test data", space="shop").startswith(
        "1. python manage.py loaddata demo\n"
    )
    assert "`python manage.py migrate`" in talk.fine(
        "recall_work", fix='ProgrammingError: relation "x" does not exist', space="shop"
    )
    assert "off by a cent" in talk.fine("recall_work", file="cart/total.py", space="shop")
    assert "No command" in talk.fine("recall_work", how="paint the shed", space="shop")
    assert "one of how, fix and file" in talk.wrong("recall_work", how="x", fix="y")
    assert shared.json("recall", "--files", "cart/total.py")["exchanges"][0]["said"][0]["role"] == "user"
    assert shared.json("how", "load", "test", "data", "--space", "shop")[0]["worked"] == 1
    assert shared.json("fix", 'relation "x" does not exist', "--space", "shop")[0]["commands"] == [
        "python manage.py migrate"
    ]


def test_tools_that_are_needed_first_are_loaded_first_and_none_promises_structure(talk: Talk) -> None:
    tools = talk.do(talk.client.list_tools).tools
    always = {one.name for one in tools if (one.meta or {}).get("anthropic/alwaysLoad")}
    assert always == {"recall", "recall_node", "remember"}
    assert not [one.name for one in tools if one.output_schema]


def test_both_phases_of_maintenance(daemon: House) -> None:
    pair = {
        title: daemon.call("agent.remember", content=content, title=title, type="fact", space="shop").node_id
        for title, content in {
            "receipts": "The till prints receipts on thermal paper that is eighty millimetres wide.",
            "receipts too": "The till prints all receipts on thermal paper, and that is eighty millimetres wide.",
        }.items()
    }
    keep, remove = pair.values()
    with talking(daemon) as talk:
        said = talk.fine("run_maintenance")
        (receipt,) = re.findall(r"receipt: (\S+)", said)
        assert keep in said
        assert remove in said
        assert "## Pairs to merge" in said
        verdict = {
            "keep_id": keep,
            "remove_id": remove,
            "title": "Receipts",
            "content": "Thermal paper, 80 mm wide.",
            "reason": "the same",
        }
        said = talk.fine("run_maintenance", results={"receipt": receipt, "merges": [verdict]})
        assert "1 merge" in said
        (run,) = re.findall(r"undo with run (\S+)", said)
        assert talk.fine("undo", run=run).count("Undone: ") == 1
        assert f"id {remove}" in talk.fine("recall_node", node_id=remove)
        assert "Error" in talk.wrong("run_maintenance", results={"receipt": "11111111-2222-4333-8444-555555555555"})


def test_resources_and_prompts(talk: Talk) -> None:
    content = f"Ada never eats peanuts ({talk.client.protocol_version})."
    node = talk.remember(content, tier="core", title=f"Peanuts {talk.client.protocol_version}")
    listed = talk.do(talk.client.list_resources)
    uris = {one.uri: one.name for one in listed.resources}
    uri = f"ormah://node/{node}"
    assert uris[uri] == f"Peanuts {talk.client.protocol_version}"
    (template,) = talk.do(talk.client.list_resource_templates).resource_templates
    assert template.uri_template == "ormah://node/{id}"
    (read,) = talk.do(talk.client.read_resource, uri).contents
    assert content in read.text
    (prompt,) = talk.do(talk.client.list_prompts).prompts
    got = talk.do(talk.client.get_prompt, prompt.name)
    assert "run_maintenance" in got.messages[0].content.text
    for wrong in ("ormah://node/ffffffff", "file:///etc/passwd", "ormah://node/../../etc"):
        with pytest.raises(Exception, match=r"ffffffff|no resource|\.\."):
            talk.do(talk.client.read_resource, wrong)


def test_errors_say_what_is_wrong(talk: Talk) -> None:
    said = talk.wrong("recall_node", node_id="deadbeef")
    assert re.search(r"no memory.*deadbeef", said)
    assert "`recall`" in said, "the daemon names the command, of which the agent has the tool"
    assert "'content' is missing" in talk.wrong("remember")
    assert "no argument 'contents'" in talk.wrong("remember", contents="x")
    assert "it may be: fact, decision" in talk.wrong("remember", content="x", type="story")
    assert "'limit' is no integer" in talk.wrong("recall", query="x", limit="many")
    assert "op or run" in talk.wrong("undo")
    assert "nothing to change" in talk.wrong("update", node_id="deadbeef")
    with pytest.raises(Exception, match="there is no tool 'forget_all'"):
        talk.call("forget_all")


def test_what_models_write_is_understood(talk: Talk) -> None:
    era = talk.client.protocol_version
    given: dict[str, Any] = {
        "content": f"The lighthouse of {era} has a red lamp.", "title": None, "tags": "lighthouse", "confidence": "0.9",
        "about_self": "false", "links": "[]",
    }  # fmt: skip
    said = talk.fine("recall_node", node_id=talk.remember(**given))
    assert "tags: lighthouse" in said
    assert "confidence 0.9" in said
    assert len(ids(talk.fine("recall", query="lighthouse lamp", limit="1", toolCallId="call_0"))) == 1


def test_long_results_are_cut_and_say_so(talk: Talk, shared: House) -> None:
    era = talk.client.protocol_version
    words = " ".join(f"walrus{number} sleeps on ice." for number in range(9_000))
    node = talk.remember(f"Walrus book {era}. {words}", title=f"Walrus book {era}", space=f"ice-{era}")
    said = talk.fine("recall", query=f"walrus book {era}", spaces=[f"ice-{era}"])
    assert len(said) < 30_000
    assert "recall_node has all" in said
    whole = talk.fine("recall_node", node_id=node)
    assert len(whole) < 70_000
    assert f"[cut: 60,000 of {len(words) + len(era) + 14:,} characters; the file has all: ice-{era}/" in whole


SPACES: list[tuple[str, dict[str, str], str, str]] = rows(__file__, "spaces")


def space_of(talk: Talk, content: str, **given: str) -> str:
    said = talk.fine("recall_node", node_id=talk.remember(content, **given))
    return said.splitlines()[1].split(" · ")[2]


@pytest.mark.parametrize(("env", "cwd", "space"), [one[1:] for one in SPACES], ids=[one[0] for one in SPACES])
def test_the_space_is_that_of_the_agent(shared: House, env: dict[str, str], cwd: str, space: str) -> None:
    for name in ("here", "there"):
        (shared.home / name).mkdir(exist_ok=True)
    with talking(
        shared, cwd=shared.home / cwd, env={name: one.format(home=shared.home) for name, one in env.items()}
    ) as talk:
        content = f"A note of {env} in {cwd}."
        assert space_of(talk, content) == space
        assert space_of(talk, content, space="said") == "said"
        assert space_of(talk, content, space="global") == "global"


def test_a_client_without_a_folder_names_its_roots(shared: House) -> None:
    (shared.home / "rooted here").mkdir()
    asked: list[int] = []

    async def roots(_context: Any) -> types.ListRootsResult:
        asked.append(1)
        uri = (shared.home / "rooted here").as_uri()
        return types.ListRootsResult(roots=[types.Root(uri=uri)])

    with talking(shared, "legacy", list_roots_callback=roots) as talk:
        assert space_of(talk, "A note with a root.") == "rooted here"
        talk.fine("remember", content="Another note with a root.")
        assert asked == [1]


def test_a_client_that_never_tells_its_roots_is_not_waited_for(shared: House) -> None:
    async def roots(_context: Any) -> types.ListRootsResult:
        await anyio.sleep_forever()
        raise AssertionError

    with talking(shared, "legacy", list_roots_callback=roots) as talk:
        assert space_of(talk, "A note of a client without roots.") == "global"


def test_the_pump_is_a_small_process(shared: House) -> None:
    with talking(shared):
        found = [
            proc
            for proc in Path("/proc").glob("[0-9]*")
            if b"--mcp" in _words(proc) and str(shared.home).encode() in _environ(proc)
        ]
        (pump,) = found
        (kilobytes,) = re.findall(r"VmRSS:\s+(\d+)", (pump / "status").read_text())
        assert int(kilobytes) < 15_000


def _words(proc: Path) -> list[bytes]:
    try:
        return (proc / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def _environ(proc: Path) -> bytes:
    try:
        return (proc / "environ").read_bytes()
    except OSError:
        return b""


def test_by_hand(shared: House) -> None:
    """One who types it in a shell gets the answer, and the process ends."""
    hello = '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}'
    odd = '{"jsonrpc":"2.0","id":7.5,"method":"ping"}\n' + "[" * 100_000 + "\n"
    done = shared.ctl(
        "mcp", input=f'{hello}\nno json\n{{"id": 7}}\n{{"jsonrpc":"2.0","id":"two","method":"ping"}}\n{odd}'
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 6
    assert '"id":"two"' in done.stdout
    assert any('"id":7' in one and '"error"' in one for one in lines)
    errors = [json.loads(one)["error"]["code"] for one in lines if '"id":null' in one]
    assert sorted(errors) == [-32700, -32700, -32600]
    assert str(ROOT) not in done.stdout


def test_a_judge_has_no_memories(shared: House) -> None:
    done = shared.ctl("mcp", env={"ORMAH_JUDGING": "1"})
    assert done.returncode == 69
    assert "judge" in done.stderr
