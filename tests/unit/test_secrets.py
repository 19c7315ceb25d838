"""Secrets: what is taken out, what stays, and that no text can keep the search busy. All of them are made up."""

from __future__ import annotations

import base64
import json
import random
import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ormahd.text.secrets import MARGIN, WINDOW, Secret, redact
from tests.tables import rows

T = TypeVar("T")

A = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9"
"""Letters and digits to fill tokens with; every token below is put together here, so that no scanner takes this
file for a leak."""
HEX = "0123456789abcdef"
BODY = "\n".join((A * 3)[:64] for _ in range(6))


def jwt() -> str:
    parts = (b'{"alg":"HS256","typ":"JWT"}', b'{"sub":"1234567890","name":"John"}', bytes(range(32)))
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


def pem(kind: str) -> str:
    return f"-----BEGIN {kind}-----\n{BODY}\nab==\n-----END {kind}-----"


TOKENS = {
    "AWS Access Key": "AKIA" + "ABCDEFGH12345678",
    "GitHub Token": "ghp_" + (A * 2)[:36],
    "github fine-grained": "github" + "_pat_11" + (A * 3)[:60],
    "OpenAI": "sk-" + A[:20] + "T3Blbk" + "FJ" + A[:20],
    "OpenAI project": "sk-" + "proj-" + A + "_" + A,
    "Anthropic": "sk-" + "ant-api03-" + A * 3 + "-AA",
    "Google": "AIza" + "Sy" + (A * 2)[:33],
    "Google OAuth": "ya29" + "." + A,
    "Slack bot": "xoxb" + "-123456789012-1234567890123-" + A[:24],
    "Slack app": "xapp" + "-1-A0123456789-1234567890123-" + HEX * 4,
    "Slack hook": "https://hooks." + "slack.com/services/T00000000/B00000000/" + A[:24],
    "Stripe live": "sk_" + "live_" + A[:24],
    "Stripe long": "rk_" + "live_" + (A * 4)[:99],
    "Stripe test": "sk_" + "test_" + A[:24],
    "npm": "npm" + "_" + (A * 2)[:36],
    "PyPI": "pypi" + "-AgEIcHlwaS5vcmc" + A * 4,
    "GitLab": "glpat" + "-" + A[:20],
    "SendGrid": "SG" + "." + A[:22] + "." + (A * 2)[:43],
    "Telegram": "123456789" + ":" + (A * 2)[:35],
    "Discord": "M" + A[:24] + "." + A[:6] + "." + A[:27],
    "Hugging Face": "hf" + "_" + (A * 2)[:34],
    "Hugging Face, letters": "hf" + "_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH",
    "Mailchimp": HEX * 2 + "-us12",
    "Square": "sq0" + "csp-" + (A * 2)[:43],
    "Azure": "AccountKey=" + (A * 4)[:86] + "==",
    "age": "AGE-SECRET" + "-KEY-1" + ("Q" * 29 + "3" * 29),
    "JWT": jwt(),
}


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS.keys())
@pytest.mark.parametrize(
    "around", ["{}", "the key is {}.", "a: ({})", "x={}\ny", '{{"k": "{}"}}', "export K='{}'", "クキ{}"]
)
def test_tokens_go_whole(token: str, around: str) -> None:
    text = around.format(token)
    result = redact(text)
    assert result.found
    for part in range(0, len(token) - 12, 4):
        assert token[part : part + 12] not in result.text
    assert result.text.startswith(around.partition("{}")[0][:2].replace("{{", "{"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *rows(__file__, "the_value_goes_and_its_name_stays"),
        ("AWS_SECRET_ACCESS_KEY=" + (A * 2)[:40], "AWS_SECRET_ACCESS_KEY=[redacted: aws-secret-key]"),
        ("secret=" + A * 200 + " x", "secret=[redacted: Secret] x"),
        (f"Authorization: Bearer {A}", "Authorization: Bearer [redacted: Authorization]"),
        (f"a bearer {A} token", "a bearer [redacted: Authorization] token"),
        (
            "seed phrase: " + " ".join(["apple", "river", "candle", "orbit"] * 3),
            "seed phrase: [redacted: Recovery Phrase]",
        ),
        ("//registry.npmjs.org/:_authToken=" + "1b" * 18, "//registry.npmjs.org/:_authToken=[redacted: npm-token]"),
    ],
)
def test_the_value_goes_and_its_name_stays(text: str, expected: str) -> None:
    assert redact(text).text == expected


@pytest.mark.parametrize(
    "text",
    [
        *rows(__file__, "what_is_no_secret_stays"),
        "![](data:image/png;base64," + base64.b64encode(random.Random(7).randbytes(30_000)).decode() + ")",
        "-----BEGIN CERTIFICATE-----\n" + BODY + "\n-----END CERTIFICATE-----",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text).text == text
    assert redact(text).found == ()


@pytest.mark.parametrize(
    "kind", ["RSA PRIVATE KEY", "PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"]
)
@pytest.mark.parametrize(
    "form", [str, lambda key: key.replace("\n", "\\n"), lambda key: "> " + key.replace("\n", "\n> ")]
)
def test_private_keys_go_with_their_body(kind: str, form: object) -> None:
    key = form(pem(kind))  # type: ignore[operator]
    assert redact(f"before\n{key}\nafter").text.endswith("[redacted: Private Key]\nafter")
    assert A not in redact(key).text


def test_a_key_cut_short_goes_too() -> None:
    cut = pem("RSA PRIVATE KEY")[:200]
    assert redact(f"{cut}\n\nThe rest is prose.").text == "[redacted: Private Key]\n\nThe rest is prose."
    two = pem("EC PRIVATE KEY")[:120] + "\n" + pem("EC PRIVATE KEY")
    assert redact(two).text == "[redacted: Private Key]\n[redacted: Private Key]"


def test_putty_keys() -> None:
    text = f"PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 6\n{BODY}\nPrivate-MAC: 00"
    assert (
        redact(text).text
        == "PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 6\n[redacted: Private Key]\nPrivate-MAC: 00"
    )


def test_a_token_right_behind_a_key_is_found_on_its_own_line() -> None:
    key = pem("EC PRIVATE KEY")
    text = f"{key}{TOKENS['npm']}\n{key}\npassword: hunter2secret99"
    lines = key.count("\n")
    assert [finding.line for finding in redact(text).found] == [1, lines + 1, lines + 2, 2 * lines + 3]


def test_findings_name_kind_and_line_of_the_text_as_given() -> None:
    text = f"one\n{pem('RSA PRIVATE KEY')}\npassword: hunter2secret99, {TOKENS['npm']}\n"
    lines = pem("x").count("\n") + 1
    assert redact(text).found == (
        Secret("Private Key", 2),
        Secret("Password", 2 + lines),
        Secret("npm-access-token", 2 + lines),
    )


FRAGMENTS = [*TOKENS.values(), *"=:'\"@/ \n-_.`*\\", "password", "token=", " is ", "Bearer ", "://u:", "hunter2secret99",
             "Authorization: ", pem("RSA PRIVATE KEY"), "-----BEGIN PRIVATE KEY-----\n", BODY, "[redacted: "]  # fmt: skip


@given(st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=6), max_size=12).map("".join))
def test_redacting_twice_changes_nothing(text: str) -> None:
    once = redact(text)
    assert redact(once.text) == type(once)(once.text, ())


@given(st.text(alphabet="abcdefghij klmnop\nqrstuvwxyz.,ÄЖ猫", max_size=300))
def test_prose_stays(text: str) -> None:
    assert redact(text).text == text


HOSTILE = ["eyJ", "eyJa.", "sk-", "//", "key  ", "a ", "password", "password=", "token=a.a", "token=A_", "token='",
           "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\nAAAA", "glagent-", "AKIAABCDEFGHIJKLMNOP-",
           "password a b ", "password for a ", "password is ", "password: abcdefg", "password = a-", "password 'abc-def-", "密码", "login ", "login a: b/", "recovery codes: ab12", "x is the ", "mysql -p", "4539 ", "DE12 ",
           "pin: ", "password:\n", "://a:", "aws key'", "Authorization: ", "cookie=a=", "cookie: a=abcdefg1; ", " AKC", "\\n", "=", "a", "-", " ", "\n", "xapp-1-", "1:"]  # fmt: skip


@pytest.mark.timeout(60)
@pytest.mark.parametrize("unit", HOSTILE)
def test_no_text_keeps_it_busy(unit: str) -> None:
    """Linear work: a fraction of a second. Quadratic work on as much text would take minutes."""
    redact(unit * (40_000 // len(unit)))


def test_threads_agree() -> None:
    text = "\n".join(TOKENS.values())
    results: list[str] = []
    threads = [threading.Thread(target=lambda: results.append(redact(text).text)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(results)) == 1


LONG_TEXTS = {
    "a password": ("the password is Xk9!vTq2#mLp", "Password"),
    "a token": ("ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", "github-pat"),
    "an assignment": ("api_key = 'q8Zr4Tn1Vb7Yw3Xs9Kd2'", "Secret"),
    "a password of an address": ("postgres://ada:Xk9vTq2mLp77@db.internal/prod", "Basic Auth Credentials"),
    "a key": ("-----BEGIN RSA PRIVATE KEY-----\n" + "\n".join(["MIIEpAIBAAKCAQEA7bq0Vn4kC2yZ" * 2] * 20) + "\n-----END RSA PRIVATE KEY-----", "Private Key"),
    "a huge key": ("-----BEGIN PRIVATE KEY-----\n" + "\n".join(["MIIEpAIBAAKCAQEA7bq0Vn4kC2yZ" * 2] * 900) + "\n-----END PRIVATE KEY-----", "Private Key"),
    "a header": ("Authorization: Bearer q8Zr4Tn1Vb7Yw3Xs9Kd2q8Zr4Tn1", "Authorization"),
    "a card": ("the card is 4556 7375 8689 9855", "Card Number"),
    "an IBAN": ("pay to DE02120300000000202051", "IBAN"),
}  # fmt: skip


@pytest.mark.parametrize(("secret", "kind"), LONG_TEXTS.values(), ids=LONG_TEXTS)
def test_a_secret_is_found_wherever_it_lies_in_a_long_text(secret: str, kind: str) -> None:
    filler = "The quay crane is oiled at dawn.\n" * 1_300
    short = redact(f"{secret}\n")
    assert [one.kind for one in short.found] == [kind]
    for at in (WINDOW - MARGIN, WINDOW - len(secret) - 35, WINDOW - len(secret) // 2, WINDOW, WINDOW + MARGIN):
        before = filler[:at].rpartition("\n")[0] + "\n"
        found = redact(f"{before}{secret}\n{filler[:12_000]}")
        assert [(one.kind, one.line) for one in found.found] == [(kind, before.count("\n") + short.found[0].line)], at
        assert found.text == f"{before}{short.text}{filler[:12_000]}"


LARGE_TEXTS = {
    "prose": "The quay crane is oiled at dawn. ",
    "one line of code": "function(a,b){return a[b]||{}};",
    "blanks": " ",
    "Chinese": "渡轮在黎明时分离开港口。",
    "an image": base64.b64encode(bytes(range(256))).decode(),
    "a table": "| key | value | password |\n",
    "one word": "password ",
    "nested quotes": "> > - **[[a]]** [x](y.md)\n",
    "beginnings of tokens": "eyJ",
    "what looks like one token": "eyJa.",
}


@pytest.mark.parametrize("unit", LARGE_TEXTS.values(), ids=LARGE_TEXTS)
def test_others_go_on_before_each_pattern_of_each_window(unit: str) -> None:
    steps: list[int] = []

    def pace(given: Iterable[T]) -> Iterator[T]:
        for step in given:
            steps.append(1)
            yield step

    redact("", pace=pace)
    patterns = len(steps)
    assert patterns > 10
    steps.clear()
    text = unit * (2 * (WINDOW + MARGIN) // len(unit))
    assert redact(text, pace=pace).text == text
    assert len(steps) >= patterns * -(-len(text) // WINDOW)


def test_a_token_that_is_longer_than_a_window_goes_as_a_whole() -> None:
    token = (
        "eyJhbGciOiJIUzI1NiJ9."
        + base64.urlsafe_b64encode(json.dumps({"sub": "x" * 60_000}).encode()).decode().rstrip("=")
        + ".c2ln" * 9
    )
    text = "The quay crane is oiled at dawn.\n" * 900 + f"token {token}\n" + "It is oiled at dusk.\n" * 900
    assert "eHh4eHh4" not in redact(text).text
