"""Secrets of 25 kinds as programs write them, and technical sentences that hold none. Both are made of templates and chance.

`planted()` has texts with their secrets; `clean()` has sentences with hashes, ids and words that only look like secrets.
"""

from __future__ import annotations

import base64
import json
import random
import re
import string
import uuid
from collections.abc import Callable, Iterator

from msgspec import Struct

from tests.tables import rows

EACH = 8
"""Number of secrets of each kind."""

_ALNUM = string.ascii_letters + string.digits
_B64 = _ALNUM + "+/"
_HEX = "0123456789abcdef"


class PlantedSecret(Struct, frozen=True):
    """`text` is what a person or a program wrote; none of `parts` may be found anywhere afterwards."""

    kind: str
    text: str
    parts: tuple[str, ...]


def _some(chance: random.Random, many: int, signs: str = _ALNUM) -> str:
    return "".join(chance.choice(signs) for _ in range(many))


def _jwt(chance: random.Random) -> str:
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').rstrip(b"=").decode()
    body = base64.urlsafe_b64encode(json.dumps({"sub": _some(chance, 12)}).encode()).rstrip(b"=").decode()
    return f"{head}.{body}.{_some(chance, 43, _ALNUM + '-_')}"


def _pem(chance: random.Random) -> str:
    lines = "\n".join(_some(chance, 64, _B64) for _ in range(4))
    return f"-----BEGIN RSA PRIVATE KEY-----\n{lines}\n-----END RSA PRIVATE KEY-----"


def _card(chance: random.Random) -> str:
    body = "453914" + _some(chance, 9, string.digits)
    total = sum(
        value if place % 2 else (2 * value if 2 * value < 10 else 2 * value - 9)
        for place, value in enumerate(int(digit) for digit in reversed(body))
    )
    return body + str(-total % 10)


_SIGNS = {"a": _ALNUM, "b": _B64, "c": _B64[:-1], "d": string.digits, "p": "123456789", "u": string.ascii_uppercase}
_SIGNS |= {"U": string.ascii_uppercase + string.digits, "w": _ALNUM + "-_"}
_FORMS: dict[str, Callable[[random.Random], str]] = {
    "jwt": _jwt, "pem": _pem, "card": _card, "basic": lambda c: base64.b64encode(f"deploy:{_some(c, 18)}".encode()).decode(),
    "password": lambda c: f"{c.choice(['Kranich', 'Otter', 'maple'])}#{_some(c, 10)}",
}  # fmt: skip


def _filled(pattern: str, chance: random.Random) -> str:
    if pattern in _FORMS:
        return _FORMS[pattern](chance)
    return re.sub(r"<(\w)(\d+)>", lambda part: _some(chance, int(part[2]), _SIGNS[part[1]]), pattern)


def planted(seed: int) -> list[PlantedSecret]:
    """Return 200 secrets of 25 kinds. Another seed has other secrets."""
    found = []
    for kind, pattern, template in rows(__file__, "made"):
        for number in range(EACH):
            secret = _filled(pattern, random.Random(f"{seed} {kind} {number}"))
            parts = [line for line in secret.splitlines() if not line.startswith("-----")]
            if kind in {"jwt", "sendgrid", "telegram", "slack"}:
                parts = [max(secret.replace(":", ".").split("."), key=len) if kind != "slack" else secret[-24:]]
            found.append(PlantedSecret(kind, template.replace("{}", secret), tuple(parts)))
    return found


_CLEAN = rows(__file__, "_clean")  # fmt: skip


def clean() -> Iterator[str]:
    """Yield 1,000 technical sentences without a secret."""
    for number in range(25):
        chance = random.Random(number)
        values = {
            "sha1": _some(chance, 40, _HEX), "short": _some(chance, 9, _HEX), "sha256": _some(chance, 64, _HEX),
            "hex32": _some(chance, 32, _HEX), "hex16": _some(chance, 16, _HEX), "hex12": _some(chance, 12, _HEX),
            "hex8": _some(chance, 8, _HEX), "pair": _some(chance, 2, _HEX), "b64": _some(chance, 86, _B64),
            "b64short": _some(chance, 43, _B64), "uuid": str(uuid.UUID(int=chance.getrandbits(128), version=4)),
            "uuid4": "7aaa-4bbb-8ccc-0123456789ab", "num": str(chance.randrange(1000, 99_999)), "ms": f"{chance.randrange(1000):03d}",
            "port": str(chance.randrange(1024, 65_535)), "small": str(chance.randrange(1, 60)), "day": f"{chance.randrange(1, 29):02d}",
            "date": "20261127",
        }  # fmt: skip
        for template in _CLEAN:
            yield template.format(**values)
