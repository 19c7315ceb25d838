"""A house whose routes are open on loopback, and clients of them: a program with the token, a browser with the cookie."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

from tests.house import House, open_house


@dataclass
class Web:
    """The open routes of a house."""

    house: House
    url: str
    token: str
    link: str
    program: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.program = httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {self.token}"}, timeout=120, trust_env=False
        )

    @property
    def port(self) -> int:
        return int(self.url.rstrip("/").rpartition(":")[2])

    def ask(self, verb: str, path: str, body: Any = None, **more: Any) -> Any:
        """The JSON of a program's request, which must succeed."""
        answer = self.program.request(verb, path, json=body, **more)
        assert answer.status_code == 200, (answer.status_code, answer.text)
        return answer.json()

    def raw(self, verb: str, target: str, headers: dict[str, str | None], body: bytes = b"") -> tuple[int, dict[str, str], bytes]:  # fmt: skip
        """The answer to a request as it is given: no header is added but Host and Content-Length; None leaves one out."""
        given = {"Host": f"127.0.0.1:{self.port}", "Content-Length": str(len(body)), **headers}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        with contextlib.closing(connection):
            connection.putrequest(verb, target, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read()

    def bearer(self) -> dict[str, str | None]:
        return {"Authorization": f"Bearer {self.token}"}

    def session(self) -> str:
        """The cookie of a browser that followed a new link."""
        link = self.house.json("web")["link"]
        body = json.dumps({"token": link.partition("#t=")[2]}).encode()
        headers = {"Content-Type": "application/json", "Origin": f"http://127.0.0.1:{self.port}"}
        status, found, _ = self.raw("POST", "/session", dict(headers), body)
        assert status == 204
        return found["set-cookie"].partition(";")[0]


def open_web(house: House) -> Web:
    """Open the routes of a house whose daemon runs."""
    found = house.json("web")
    with open(found["token_file"], encoding="utf-8") as file:
        kept = json.load(file)
    assert kept["url"] == found["url"]
    return Web(house, found["url"], kept["token"], found["link"])


@contextlib.contextmanager
def web_house(**settings: str) -> Iterator[Web]:
    with open_house(**settings) as house:
        house.start()
        web = open_web(house)
        try:
            yield web
        finally:
            web.program.close()


def stream(web: Web, query: str = "", **headers: str | None) -> ClientConnection:
    """A listener to the daemon's events."""
    given = {
        name.replace("_", "-"): value for name, value in {"Authorization": f"Bearer {web.token}", **headers}.items()
    }
    kept = {name: value for name, value in given.items() if value is not None}
    return connect(f"ws://127.0.0.1:{web.port}/ui/ws{query}", additional_headers=kept, proxy=None)
