"""A judge for tests that reads prompts: as a program, and as an HTTP server, both on real pipes and sockets.

`python tests/scripted_judge.py FOLDER` is the program. `FOLDER/mode` says how it behaves (honest, if there is no such file), and
each prompt is written to `FOLDER/prompts`. It is honest by a rule: the same words in any order are the same.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

DATA = re.compile(r"^----- data -----\n(.*?)\n----- end of the data -----$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\d+")


def words(text: str) -> list[str]:
    return sorted(re.findall(r"\w+", text.casefold()))


def honest(prompt: str) -> str:
    """The right answer to a prompt, as JSON."""
    found = DATA.search(prompt)
    assert found is not None, prompt
    data = json.loads(found[1])
    if data and "who" in data[0]:
        return json.dumps({"answers": [one for turn in data for one in remembered(turn)]})
    item = json.loads(prompt[found.end() :].partition("nothing else:\n")[2].splitlines()[0])["properties"]["answers"][
        "items"
    ]
    return json.dumps({"answers": [_answer(one, set(item["properties"])) for one in data]})


def remembered(turn: dict[str, Any]) -> list[dict[str, Any]]:
    """What is to be remembered of a turn: what the person says after "Keep in mind:"."""
    if turn["read"] or turn["who"] != "person" or "Keep in mind:" not in turn["text"]:
        return []
    said = turn["text"].partition("Keep in mind:")[2].strip()
    return [
        {"turns": [turn["turn"]], "type": "fact", "title": said[:40], "content": said, "about_self": False,
         "tags": ["kept"], "confidence": 0.8, "corrects": ""},
    ]  # fmt: skip


def parroted(prompt: str) -> list[dict[str, Any]]:
    """A judge without judgement: whatever either side says is to be remembered."""
    found = DATA.search(prompt)
    assert found is not None, prompt
    return [
        {"turns": [turn["turn"]], "type": "fact", "title": turn["text"][:40], "content": turn["text"].removeprefix("Remember that "),
         "about_self": False, "tags": [], "confidence": 0.5, "corrects": ""}
        for turn in json.loads(found[1]) if not turn["read"] and len(turn["text"]) > 20
    ]  # fmt: skip


def _answer(one: dict[str, Any], fields: set[str]) -> dict[str, Any]:
    said: dict[str, Any] = {"q": one["q"], "reason": "by the words"}
    if "memories" in one:
        lines = list(dict.fromkeys(memory["text"] for memory in one["memories"]))
        return said | {"title": one["memories"][0]["title"], "content": "\n".join(lines), "type": "fact"}
    a, b = one["a"]["text"], one["b"]["text"]
    if "same" in fields:
        same = words(a) == words(b)
        return said | {"same": same, "title": one["a"]["title"] if same else None, "content": a if same else None}
    if "kind" in fields:
        other = words(a) != words(b) and words(NUMBER.sub("", a)) == words(NUMBER.sub("", b))
        return said | {"kind": "evolution" if other else "none"}
    return said | {"edge": "supports" if len(set(words(a)) & set(words(b))) >= 4 else "none"}


RUDE: dict[str, Callable[[str], str]] = {
    "html": lambda _: "<!doctype html><html><body>It works!</body></html>",
    "half": lambda prompt: honest(prompt)[:-20],
    "schema": lambda _: json.dumps({"answers": [{"q": "one", "same": "perhaps"}], "note": 1}),
    "braces": lambda _: "I would say {a} and {b} are the same, but {that is all}.",
    "prose": lambda _: "I cannot help with that.",
    "huge": lambda _: "x" * 10_000_000,
    "nothing": lambda _: "",
}
"""Answers that cannot be used. Fenced ones, and ones amid prose, can."""
KIND: dict[str, Callable[[str], str]] = {
    "honest": honest,
    "parrot": lambda prompt: json.dumps({"answers": parroted(prompt)}),
    "fenced": lambda prompt: f"Sure! Here {{as asked}} it is:\n```json\n{honest(prompt)}\n```\nAnything else?",
    "thinking": lambda prompt: f'<think>{{"answers": []}} no, wait.</think>\n{honest(prompt)}',
}
SPEAK = RUDE | KIND


def says(mode: str, prompt: str) -> str:
    if mode == "mends":  # the first answer to each question is broken, the repaired one is right
        return honest(prompt) if "It could not be used:" in prompt else RUDE["half"](prompt)
    return SPEAK[mode](prompt)


# ---------------------------------------------------------------- the program


def program(folder: Path) -> int:
    mode = mode_of(folder)
    prompt = sys.stdin.read()
    keep(folder, prompt)
    (folder / "seen").write_text(json.dumps({"cwd": os.getcwd(), "files": os.listdir(), "environ": dict(os.environ)}))
    if mode == "hang":
        time.sleep(3600)
    if mode == "fails":
        print("quota exceeded for today", file=sys.stderr)
        return 3
    if mode == "endless":
        with contextlib.suppress(BrokenPipeError):
            while True:
                os.write(1, b"{" * 65536)
    if mode == "orphan" and os.fork() == 0:  # a child keeps the pipe open
        time.sleep(3600)
    print(says("honest" if mode == "orphan" else mode, prompt), flush=True)
    return 0


def mode_of(folder: Path) -> str:
    with contextlib.suppress(FileNotFoundError):
        return (folder / "mode").read_text()
    return "honest"


def keep(folder: Path, prompt: str) -> None:
    with (folder / "prompts").open("a") as file:
        file.write(json.dumps(prompt) + "\n")


def prompts(folder: Path) -> list[str]:
    with contextlib.suppress(FileNotFoundError):
        return [json.loads(line) for line in (folder / "prompts").read_text().splitlines()]
    return []


def command(folder: Path) -> str:
    """What `judge.command` is set to."""
    return f"{sys.executable} -S {Path(__file__).resolve()} {folder}"


# ---------------------------------------------------------------- the server


class Served(ThreadingHTTPServer):
    """An endpoint of chat completions. `requests`: path, headers and body of each request."""

    daemon_threads = True

    def __init__(self, folder: Path, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.folder = folder
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.gone = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that gives up is what the test is about."""


class _Handler(BaseHTTPRequestHandler):
    server: Served

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, dict(self.headers), body))
        prompt = body["messages"][0]["content"]
        keep(self.server.folder, prompt)
        mode = mode_of(self.server.folder)
        act = getattr(self, f"_{mode}", None)
        if act is not None:
            act(prompt)
        else:
            self._reply(200, self._completion(says(mode, prompt)))

    def _completion(self, text: str) -> bytes:
        message = {"role": "assistant", "content": text}
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        return json.dumps(
            {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
        ).encode()

    def _reply(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _page(self, _: str) -> None:
        self._reply(200, RUDE["html"]("").encode(), Content_Type="text/html")

    def _redirect(self, _: str) -> None:
        self._reply(307, b"", Location=f"{self.server.url}/elsewhere")

    def _broken(self, _: str) -> None:
        self._reply(500, b'{"error": {"message": "out of memory"}}')

    def _limited(self, _: str) -> None:
        self._reply(429, b'{"error": {"message": "slow down"}}', Retry_After="3600")

    def _noschema(self, prompt: str) -> None:
        if "response_format" in self.server.requests[-1][2]:
            self._reply(400, b'{"error": {"message": "unknown field response_format"}}')
        else:
            self._reply(200, self._completion(honest(prompt)))

    def _refused(self, _: str) -> None:
        self._reply(400, b'{"error": {"message": "the prompt is longer than 4096 tokens"}}')

    def _denied(self, _: str) -> None:
        """Some servers say which key was wrong."""
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        self._reply(401, json.dumps({"error": {"message": f"bad key {given}"}}).encode())

    def _hang(self, _: str) -> None:
        self.server.gone.wait(3600)

    def _large(self, prompt: str) -> None:
        self._reply(200, self._completion(honest(prompt) + " " * 10_000_000))

    def _endless(self, _: str) -> None:
        self.send_response(200)
        self.end_headers()
        while not self.server.gone.is_set():
            self.wfile.write(b" " * 65536)

    def _trickle(self, _: str) -> None:
        """One byte of a header now and then, for ever: no single read of it takes long."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while not self.server.gone.wait(0.02):
            self.wfile.write(b"a")
            self.wfile.flush()


@contextlib.contextmanager
def served(folder: Path, port: int = 0) -> Iterator[Served]:
    server = Served(folder, port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.gone.set()
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    sys.exit(program(Path(sys.argv[1])))
