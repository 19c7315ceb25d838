"""Asks a judge by HTTP, at an endpoint with OpenAI's chat completions: Ollama, llama.cpp, LM Studio or others."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ormahd import paths
from ormahd.errors import OrmahError
from ormahd.judge.transport import ANSWER_BYTES, POLL_S, Failed, JudgeReply, Stopping, quote

if TYPE_CHECKING:
    import httpx

    from ormahd.settings.learning import JudgeSettings

CONNECT_SECONDS: Final = 10.0
"""Maximum seconds to connect. A server that runs accepts a connection within milliseconds."""
KEY_CHARACTERS: Final = 4_096
_ERRNO = re.compile(r"^\[Errno -?\d+\] ")
_NO_SCHEMA: Final = frozenset({400, 422})
"""HTTP statuses by which a server may refuse a request because it does not support schemas. The request is then sent
again without a schema."""
_ON_SCHEMA = re.compile(rb"schema|response_format|grammar|structured|json_object")
"""Words of an error that is about the schema. An error without a text may be about it too."""
_HINTS: Final = {
    401: "the key is missing or wrong (judge.key_file)",
    403: "the key may not use this model",
    404: "is judge.url right (it usually ends with /v1), and is there a model of that name?",
}


class Endpoint:
    """A transport that sends prompts to the HTTP server at the setting `judge.url`. It follows no redirect, so that
    prompts and API key go to that address only."""

    def __init__(self, settings: JudgeSettings) -> None:
        self._settings = settings
        self._url = f"{settings.url}/chat/completions"
        self._plain = False
        """Whether this endpoint refused a request with a schema, and answered it without one."""

    @property
    def name(self) -> str:
        return self._settings.model or "no model"

    def send(self, prompt: str, schema: Mapping[str, Any], seconds: float, stopping: Callable[[], bool]) -> JudgeReply:
        if not self._settings.model:
            raise Failed("judge.model is not set: an endpoint needs the name of a model", sent=False)
        end = time.monotonic() + seconds
        if not self._plain:
            try:
                return self._ask(prompt, schema, end, stopping)
            except _Refused:
                said = self._ask(prompt, None, end, stopping)
                self._plain = True
                return said
        return self._ask(prompt, None, end, stopping)

    def _ask(
        self, prompt: str, schema: Mapping[str, Any] | None, end: float, stopping: Callable[[], bool]
    ) -> JudgeReply:
        body: dict[str, Any] = {
            "model": self._settings.model, "stream": False, "messages": [{"role": "user", "content": prompt}],
        }  # fmt: skip
        if schema is not None:
            form = {"name": "answers", "strict": True, "schema": schema}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
        key = self._key()
        if key:
            headers["Authorization"] = f"Bearer {key}"
        call = _HttpCall(self._url, json.dumps(body).encode(), headers, end)
        status, said, after = call.run(stopping)
        if status in _NO_SCHEMA and schema is not None and (_ON_SCHEMA.search(said.lower()) or not _error_of(said)):
            raise _Refused
        if status != 200:
            raise _failure(status, said.replace(key.encode(), b"[the key]") if key else said, after)
        return _read(said)

    def _key(self) -> str:
        """Return the endpoint's API key; "" if the settings name none. Raises Failed if the key cannot be read."""
        chosen = self._settings
        if chosen.key_file is None:
            return ""
        try:
            file = paths.expand(chosen.key_file)
            with file.open("rb") as stream:
                key = stream.read(KEY_CHARACTERS).decode("ascii").strip()
        except (OSError, ValueError, OrmahError) as exc:
            why = exc.strerror if isinstance(exc, OSError) and exc.strerror else "it is no text"
            raise Failed(f"the key file {chosen.key_file} (judge.key_file) cannot be read: {why}", sent=False) from None
        if not key:
            raise Failed(f"the key file {chosen.key_file} (judge.key_file) is empty", sent=False)
        if not (key.isascii() and key.isprintable()):
            raise Failed(
                "the endpoint's key holds characters that no header can have: only the key may stand there", sent=False
            )
        return key


class _Refused(Exception):
    """Raised if the endpoint refused a request with a schema, perhaps because it does not support schemas."""


class _HttpCall:
    """One HTTP request, made in a thread of its own, so that the caller can give up at any moment.

    The timeouts of an HTTP client apply to each single read: with a server that sends a byte a second they never
    expire.
    """

    def __init__(self, url: str, body: bytes, headers: Mapping[str, str], end: float) -> None:
        self._url, self._body, self._headers, self._end = url, body, headers, end
        self._done = threading.Event()
        self._sockets: list[socket.socket] = []
        self._answer: tuple[int, bytes, float | None] | None = None
        self._fault: BaseException | None = None

    def run(self, stopping: Callable[[], bool]) -> tuple[int, bytes, float | None]:
        """Send the request, and return (status, body, seconds of the Retry-After header or None). Raises Failed,
        Stopping."""
        threading.Thread(target=self._work, name="judge", daemon=True).start()
        while not self._done.wait(POLL_S):
            late = time.monotonic() > self._end
            if late or stopping():
                self._give_up()
                raise Failed(_LATE) if late else Stopping
        if self._fault is not None:
            raise self._fault
        assert self._answer is not None
        return self._answer

    def _give_up(self) -> None:
        for one in self._sockets:
            with contextlib.suppress(OSError):  # the connection may just have been closed
                socket.socket.shutdown(one, socket.SHUT_RDWR)

    def _work(self) -> None:
        import httpx

        try:
            self._answer = self._exchange()
        except httpx.TimeoutException:
            self._fault = (
                Failed(_LATE) if time.monotonic() > self._end else Failed("it does not accept a connection", sent=False)
            )
        except httpx.ConnectError as exc:
            self._fault = Failed(f"it cannot be reached: {_plain(exc)}", sent=False)
        except (httpx.HTTPError, OSError) as exc:
            self._fault = Failed(f"the connection broke: {_plain(exc)}")
        except Exception as exc:  # noqa: BLE001 - raised again in the thread that asked
            self._fault = exc
        finally:
            self._done.set()

    def _exchange(self) -> tuple[int, bytes, float | None]:
        import httpx

        seconds = max(0.1, self._end - time.monotonic())
        limits = httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))
        # A proxy in the environment is meant for the internet: a prompt to this machine must not go through it.
        outside = not _is_here(urlsplit(self._url).hostname or "")
        with (
            httpx.Client(timeout=limits, follow_redirects=False, trust_env=outside) as client,
            client.stream(
                "POST", self._url, content=self._body, headers=dict(self._headers), extensions={"trace": self._trace}
            ) as response,
        ):
            said = bytearray()
            for piece in response.iter_raw():  # raw: unpacked, ten kilobytes could become ten gigabytes
                said += piece
                if len(said) > ANSWER_BYTES:
                    raise Failed(f"the answer has more than {ANSWER_BYTES:,} bytes", rude=True)
            return response.status_code, bytes(said), _seconds(response)

    def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Remember each socket that httpx opens, so that `_give_up` can shut it down."""
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            opened = info["return_value"].get_extra_info("socket")
            if isinstance(opened, socket.socket):
                self._sockets.append(opened)


_LATE: Final = "no answer came in time (judge.timeout_seconds)"


def _plain(exc: BaseException) -> str:
    """Return the message of an exception as one short line, without a prefix such as `[Errno 111]`."""
    return quote(_ERRNO.sub("", str(exc)) or type(exc).__name__)


def _is_here(host: str) -> bool:
    """Return whether a host name or address is a loopback address or `localhost`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _seconds(response: httpx.Response) -> float | None:
    given = response.headers.get("retry-after", "")
    return float(given) if given.isdecimal() and len(given) < 6 else None


def _failure(status: int, said: bytes, after: float | None) -> Failed:
    if 300 <= status < 400:
        return Failed(
            f"it answers with a redirect ({status}), which is not followed: judge.url has to be the address itself",
            rude=True,
        )
    told = _error_of(said)
    parts = [
        f"it answers with status {status}",
        *([told] if told else []),
        *([_HINTS[status]] if status in _HINTS else []),
    ]
    return Failed(": ".join(parts), wait=after)


def _error_of(said: bytes) -> str:
    """Return the error message in the body of a reply, as one short line; "" if it has none."""
    try:
        found = json.loads(said)
    except ValueError:
        return ""
    error = found.get("error", found.get("message")) if isinstance(found, dict) else None
    if isinstance(error, dict):
        error = error.get("message")
    return quote(error) if isinstance(error, str) else ""


def _read(said: bytes) -> JudgeReply:
    """Return the text and the tokens of a chat completion. `said`: the body of the HTTP reply. Raises Failed if the
    body is no chat completion."""
    try:
        found = json.loads(said)
        choice = found["choices"][0]
        content = choice["message"]["content"]
    except (ValueError, LookupError, TypeError, RecursionError):
        what = "HTML" if said.lstrip()[:1] == b"<" else "something else" if said.strip() else "nothing"
        raise Failed(
            f"it answers {what} where a chat completion was expected: is judge.url right?", rude=True
        ) from None
    if isinstance(content, list):
        content = "".join(
            part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)
        )
    if not isinstance(content, str) or not content.strip():
        raise Failed("the answer is empty")
    return JudgeReply(content, _tokens(found.get("usage")))


def _tokens(usage: Any) -> int | None:
    if not isinstance(usage, dict):
        return None
    parts = [usage.get("prompt_tokens"), usage.get("completion_tokens")]
    whole = [part for part in parts if type(part) is int and part >= 0]
    return sum(whole) if whole else None
