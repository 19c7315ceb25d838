"""Tokens of many issuers are redacted wherever they stand, and no input makes a rule slow. All of them are made up."""

import random
import re
import time
import uuid
from pathlib import Path

import pytest

from ormahd.text.secret_rules import token_rules
from ormahd.text.secrets import redact

LETTERS = "abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
ALPHABETS = {"a": LETTERS, "n": "0123456789", "h": "0123456789abcdef", "u": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
             "l": LETTERS[:25] + "0123456789", "b": LETTERS + "+/", "w": LETTERS + "_-", "e": "acdefghjklmnpqrstuvwxyz023456789"}  # fmt: skip
KINDS = [line.split("\t") for line in Path(__file__).with_name("secret_kinds.tsv").read_text("utf-8").splitlines()[1:]]


def _made(template: str, chance: random.Random) -> tuple[str, list[str]]:
    """Return the text of a template, and its secrets."""
    secrets: list[str] = []

    def fill(found: re.Match[str]) -> str:
        if found[1] == "g":
            made = str(uuid.UUID(int=chance.getrandbits(128), version=4))
        else:
            alphabet = ALPHABETS[found[1][0]]
            word = "".join(chance.choice(LETTERS if found[1][0] in "bw" else alphabet) for _ in range(2))
            made = "".join(chance.choice(alphabet) for _ in range(int(found[1][1:]) - 2))
            made = word[0] + made + word[1]
        secrets.append(made)
        return made

    return re.sub(r"<([a-z]\d*)>", fill, template.replace("·", "").replace("\\n", "\n")), secrets


@pytest.mark.parametrize(("kind", "template"), KINDS, ids=[kind for kind, _ in KINDS])
def test_it_goes(kind: str, template: str) -> None:
    chance = random.Random(kind)
    for around in ("{}", "for the shop we use {}, since May", "> {}\n"):
        text, secrets = _made(template, chance)
        result = redact(around.format(text) if "\n" not in text else text)
        # the longest part is the secret; short ones name an account, or are the middle of it
        assert max(secrets, key=len) not in result.text, result.text
        assert all(
            secret not in result.text for secret in secrets if len(secret) >= 24 and "Google service" not in kind
        )


def test_there_are_as_many_kinds_as_is_promised() -> None:
    assert len({kind for kind, _ in KINDS}) == len(KINDS) >= 153


@pytest.mark.parametrize("size", [10_000, 40_000, 160_000])
def test_no_text_keeps_a_rule_busy(size: int) -> None:
    """One rule of each shape reads what nearly matches it, again and again."""
    shapes = {re.sub(r"[\w.\\-]{2,}", "", re.sub(r"\{[\d,]+\}", "", rule._pattern)): rule for rule in token_rules()}
    slow = []
    for rule in shapes.values():
        keyword = rule.folded[0][0]
        units = [keyword, keyword.upper(), f"{keyword} = ", f'{keyword}"a1', f"{keyword}:  ", f"{keyword}{'aB1' * 99}."]
        text = "".join((unit * (size // len(units) // len(unit) + 1)) for unit in units)[:size]
        begun = time.thread_time()
        for _ in rule.pattern.finditer(text):
            pass
        if (took := time.thread_time() - begun) > 0.1:
            slow.append((rule.kind, took))
    assert len(shapes) > 100
    assert not slow
