"""Dispatch a call to the action that answers it.

The dispatcher checks the lengths of texts, identifies the caller, and repeats the stored answer for a repeated request id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from ormahd import __version__, api
from ormahd.actions.caller import Caller
from ormahd.errors import BadRequest, Incompatible
from ormahd.rpc.codec import resolved
from ormahd.rpc.handlers import Handler, Parts, Steps, handlers, on

CAPABILITIES = ("json", "msgpack", "progress", "request_id")
MAX_NAME = 1_000
"""Maximum number of characters of short parameters such as a name or a request id.

`agent`, `cwd` and `session` may have four times as many, `reason` 10,000.
"""


class Dispatcher:
    """Answers calls."""

    def __init__(self, parts: Parts) -> None:
        self.ormah = parts.ormah
        self.methods = {"hello": on(api.HelloParams, self.hello), **handlers(parts)}
        self._acts: dict[str, Handler] = {method: act for method, (_, act) in self.methods.items()}

    def answer(self, call: api.Call, progress: Callable[[api.Progress], None]) -> api.Result:
        """Return the result of one call.

        Raises:
            OrmahError: the call is invalid or failed, with a code, a message and usually a hint.
        """
        if call.method not in self._acts:
            raise BadRequest(f"there is no method '{call.method[:100]}'", hint="see PROTOCOL.md")
        for name, text in (("agent", call.agent), ("cwd", call.cwd), ("session", call.session)):
            if text is not None and len(text) > 4 * MAX_NAME:
                raise BadRequest(f"{name} is too long ({len(text)} characters)")
        params = call.params  # the method's own Struct: reading the call has checked it
        for name in ("session_id", "request_id", "reason", "run", "name"):
            text = getattr(params, name, None)
            if isinstance(text, str) and len(text) > (10_000 if name == "reason" else MAX_NAME):
                raise BadRequest(f"{name} is too long ({len(text)} characters)")
        caller = Caller(call.agent, call.cwd, call.session)
        request_id = getattr(params, "request_id", None)

        def steps(done: int, total: int, stage: str) -> None:
            progress(api.Progress(done=done, total=total, stage=stage))

        def act() -> api.Result:
            return self.ormah.mended(lambda: self._acts[call.method](params, caller, steps))

        return act() if request_id is None else self._once(request_id, call.method, params, act)

    def _once(self, request_id: str, method: str, params: Any, act: Callable[[], api.Result]) -> api.Result:
        """Run `act` once per `request_id` and return its result; repeated requests get the stored result.

        So a client that lost a reply can safely send the request again.
        """
        asked = hashlib.sha256(msgspec.msgpack.encode(params)).hexdigest()
        with self.ormah.turns.take(request_id):
            before = self.ormah.mended(lambda: self.ormah.state.answer(request_id))
            if before is not None:
                if before[:2] != (method, asked):
                    raise BadRequest(
                        f"request_id {request_id[:60]!r} was used for another request", hint="draw a new one"
                    )
                return msgspec.msgpack.decode(before[2], type=resolved(api.METHODS[method][1]))
            reply = act()
            encoded = msgspec.msgpack.encode(reply)
            self.ormah.mended(lambda: self.ormah.state.answered(request_id, method, asked, encoded))
            return reply

    def hello(self, params: api.HelloParams, _caller: Caller, _: Steps) -> api.Result:
        if params.protocol != api.PROTOCOL:
            raise Incompatible(
                f"this daemon ({__version__}) speaks protocol {api.PROTOCOL}, the caller {params.protocol}",
                hint="install the same version of both, then: ormahctl restart",
                data={"protocol": api.PROTOCOL, "version": __version__},
            )
        return api.HelloResult(
            version=__version__, protocol=api.PROTOCOL, capabilities=[*CAPABILITIES, *self._acts],
            vault=str(self.ormah.vault.root), vault_id=self.ormah.vault.id, phase=self.ormah.phase,
        )  # fmt: skip
