"""Asks a judge by HTTP, at an endpoint with OpenAI's chat completions: Ollama, llama.cpp, LM Studio or others."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import re
import threading
import time
from collections.abc import Mapping
from threading import Event
from typing import Any, Final
from urllib.parse import urlsplit

from ormahd import paths
from ormahd.errors import OrmahError
from ormahd.judge.port import ANSWER_BYTES, LATE, POLL_S, Failed, JudgeReply, Stopping, quote, token_sum
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

    def send(self, prompt: str, schema: Mapping[str, Any], seconds: float, stopping: Event) -> JudgeReply:
        """Send the prompt as a chat completion, and return the answer, see `Transport.send`.

        If the endpoint refuses the schema, the request is repeated without it.
        """
        if not self._settings.model:
            raise Failed("judge.model is not set: an endpoint needs the name of a model", sent=False)
        end, key = time.monotonic() + seconds, self._key()
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        messages = [{"role": "user", "content": prompt}]
        body: dict[str, Any] = {"model": self._settings.model, "stream": False, "messages": messages}
        form = {"type": "json_schema", "json_schema": {"name": "answers", "strict": True, "schema": schema}}

        # with the schema, and if the endpoint refuses it, without
        for extra in ({},) if self._plain else ({"response_format": form}, {}):
            status, reply, wait = _HttpCall(self._url, json.dumps(body | extra).encode(), headers, end).run(stopping)
            if extra and status in _NO_SCHEMA and (_ON_SCHEMA.search(reply.lower()) or not _error_of(reply)):
                continue
            if status != 200:
                raise _failure(status, reply.replace(key.encode(), b"[the key]") if key else reply, wait)
            self._plain = not extra
            return _read_completion(reply)
        raise AssertionError("the last request has no schema")

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


class _HttpCall:
    """One HTTP request, made in a thread of its own, so that the caller can give up at any moment.

    The timeouts of an HTTP client apply to each single read: with a server that sends a byte a second they never
    expire.
    """

    def __init__(self, url: str, body: bytes, headers: Mapping[str, str], end: float) -> None:
        """`body`, `headers`: of the request; `end`: the value of `time.monotonic` at which the time is up."""
        import httpx

        self._url, self._body, self._headers, self._end = url, body, headers, end
        seconds = max(0.1, end - time.monotonic())
        limits = httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))
        # A proxy in the environment is meant for the internet: a prompt to this machine must not go through it
        host = urlsplit(url).hostname or ""
        try:
            local = ipaddress.ip_address(host).is_loopback
        except ValueError:
            local = host == "localhost" or host.endswith(".localhost")
        self._client = httpx.Client(timeout=limits, follow_redirects=False, trust_env=not local)
        self._done = Event()
        self._answer: tuple[int, bytes, float | None] | BaseException | None = None

    def run(self, stopping: Event) -> tuple[int, bytes, float | None]:
        """Send the request, and return (status, body, seconds of the Retry-After header or None).

        Raises:
            Failed: no answer came in time, or the connection failed.
            Stopping: `stopping` was set.
        """
        threading.Thread(target=self._work, name="judge", daemon=True).start()
        with contextlib.closing(self._client):  # this closes the connection, which ends a request that is given up
            while not self._done.wait(POLL_S):
                if stopping.is_set():
                    raise Stopping
                if time.monotonic() > self._end:
                    raise Failed(LATE)
        assert self._answer is not None
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer

    def _work(self) -> None:
        """Send the request in the call's thread. The answer, or the exception, becomes `_answer`."""
        import httpx

        try:
            self._answer = self._exchange()
        except httpx.TimeoutException:
            late = time.monotonic() > self._end
            self._answer = Failed(LATE) if late else Failed("it does not accept a connection", sent=False)
        except httpx.ConnectError as exc:
            self._answer = Failed(f"it cannot be reached: {_message_of(exc)}", sent=False)
        except (httpx.HTTPError, OSError) as exc:
            self._answer = Failed(f"the connection broke: {_message_of(exc)}")
        except Exception as exc:  # noqa: BLE001 - raised again in the thread that asked
            self._answer = exc
        finally:
            self._done.set()

    def _exchange(self) -> tuple[int, bytes, float | None]:
        """Return (status, body, seconds of the Retry-After header or None). Raises Failed if the body is too large."""
        with self._client.stream("POST", self._url, content=self._body, headers=self._headers) as response:
            reply = bytearray()
            for piece in response.iter_raw():  # raw: unpacked, ten kilobytes could become ten gigabytes
                reply += piece
                if len(reply) > ANSWER_BYTES:
                    raise Failed(f"the answer has more than {ANSWER_BYTES:,} bytes", unusable=True)
            # a date in this header, or more than 99,999 seconds, is ignored
            wait = response.headers.get("retry-after", "")
            return response.status_code, bytes(reply), float(wait) if wait.isdecimal() and len(wait) < 6 else None


def _message_of(exc: BaseException) -> str:
    """Return the message of an exception as one short line, without a prefix such as `[Errno 111]`."""
    return quote(_ERRNO.sub("", str(exc)) or type(exc).__name__)


def _failure(status: int, reply: bytes, wait: float | None) -> Failed:
    """Return the exception for an HTTP status other than 200. `wait`: seconds of the Retry-After header."""
    if 300 <= status < 400:
        why = f"it answers with a redirect ({status}), which is not followed: judge.url has to be the address itself"
        return Failed(why, unusable=True)
    parts = [f"it answers with status {status}", _error_of(reply), _HINTS.get(status, "")]
    return Failed(": ".join(part for part in parts if part), wait=wait)


def _error_of(reply: bytes) -> str:
    """Return the error message in the body of a reply, as one short line; "" if it has none."""
    try:
        found = json.loads(reply)
    except ValueError:
        return ""
    error = found.get("error", found.get("message")) if isinstance(found, dict) else None
    if isinstance(error, dict):
        error = error.get("message")
    return quote(error) if isinstance(error, str) else ""


def _read_completion(reply: bytes) -> JudgeReply:
    """Return the text and the tokens of a chat completion. `reply`: the body of the HTTP reply.

    Raises:
        Failed: the reply is no chat completion, or the completion is empty.
    """
    try:
        completion = json.loads(reply)
        content = completion["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError, RecursionError):
        what = "HTML" if reply.lstrip()[:1] == b"<" else "something else" if reply.strip() else "nothing"
        why = f"it answers {what} where a chat completion was expected: is judge.url right?"
        raise Failed(why, unusable=True) from None
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(text for text in texts if isinstance(text, str))
    if not isinstance(content, str) or not content.strip():
        raise Failed("the answer is empty")
    usage = completion.get("usage")
    counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")] if isinstance(usage, dict) else []
    return JudgeReply(content, token_sum(counts))
