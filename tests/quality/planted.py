"""Secrets of 25 kinds as programs write them, and technical sentences that hold none. Both are made of templates and chance.

`planted()` has texts with their secrets; `clean()` has sentences with hashes, ids and words that only look like secrets.
"""

from __future__ import annotations

import base64
import json
import random
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


_MADE: dict[str, tuple[Callable[[random.Random], str], str]] = {
    "github": (lambda c: f"ghp_{_some(c, 36)}", "push with {} as the token"),
    "github-fine": (lambda c: f"github_pat_{_some(c, 22)}_{_some(c, 59)}", "use {} for the release job"),
    "gitlab": (lambda c: f"glpat-{_some(c, 20)}", "clone it with {}"),
    "aws-id": (lambda c: f"AKIA{_some(c, 16, string.ascii_uppercase + string.digits)}", "the deploy user has {}"),
    "aws-secret": (lambda c: _some(c, 40, _B64[:-1]), "aws_secret_access_key = {}"),
    "openai": (lambda c: f"sk-proj-{_some(c, 48)}", "set OPENAI_API_KEY={} and try again"),
    "anthropic": (lambda c: f"sk-ant-api03-{_some(c, 80, _ALNUM + '-_')}", "the key is {} for the batch job"),
    "slack": (lambda c: f"xoxb-{_some(c, 12, string.digits)}-{_some(c, 12, string.digits)}-{_some(c, 24)}", "our bot posts with {}"),
    "slack-hook": (lambda c: f"https://hooks.slack.com/services/T{_some(c, 8, string.ascii_uppercase)}/B{_some(c, 8, string.ascii_uppercase)}/{_some(c, 24)}", "alerts go to {}"),
    "google": (lambda c: f"AIza{_some(c, 35, _ALNUM + '-_')}", "maps works with {} only"),
    "stripe": (lambda c: f"sk_live_{_some(c, 24)}", "in production it is {}"),
    "npm": (lambda c: f"npm_{_some(c, 36)}", "//registry.npmjs.org/:_authToken={}"),
    "pypi": (lambda c: f"pypi-AgEIcHlwaS5vcmc{_some(c, 80, _ALNUM + '-_')}", "twine wants {} as the password"),
    "sendgrid": (lambda c: f"SG.{_some(c, 22, _ALNUM + '-_')}.{_some(c, 43, _ALNUM + '-_')}", "mails are sent with {}"),
    "huggingface": (lambda c: f"hf_{_some(c, 34)}", "huggingface-cli login --token {}"),
    "telegram": (lambda c: f"{_some(c, 9, '123456789')}:AA{_some(c, 33, _ALNUM + '-_')}", "the telegram bot token is {}"),
    "jwt": (_jwt, "the session cookie was {}"),
    "private-key": (_pem, "the key of the jump host:\n{}"),
    "bearer": (lambda c: _some(c, 40), 'curl -H "Authorization: Bearer {}" https://api.example/v1'),
    "basic": (lambda c: base64.b64encode(f"deploy:{_some(c, 18)}".encode()).decode(), "Authorization: Basic {}"),
    "header": (lambda c: _some(c, 40), "X-Amz-Security-Token: {}"),
    "private-token": (lambda c: _some(c, 26), "curl --header 'Private-Token: {}' https://git.example/api"),
    "database": (lambda c: _some(c, 16), "DATABASE_URL=postgres://shop:{}@db.example:5432/shop"),
    "password": (lambda c: f"{c.choice(['Kranich', 'Otter', 'maple'])}#{_some(c, 10)}", "the admin password is {} since Monday"),
    "card": (_card, "pay with {} until the new one comes"),
}  # fmt: skip


def planted(seed: int) -> list[PlantedSecret]:
    """Return 200 secrets of 25 kinds. Another seed has other secrets."""
    found = []
    for kind, (make, template) in _MADE.items():
        for number in range(EACH):
            secret = make(random.Random(f"{seed} {kind} {number}"))
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
