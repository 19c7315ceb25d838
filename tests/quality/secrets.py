"""Secrets told in prose: how many are found, and how many clean sentences are touched.

`python -m tests.quality.secrets dev|held --misses` prints the figures. Each template of `secrets_planted.tsv` is filled with two
made-up secrets; clean are `secrets_clean.txt` and what the memories of the other sets of this folder say. Which half a text belongs
to is decided by a hash of it; held ones are looked at when a change is done, never while it is made.
"""

from __future__ import annotations

import random
import sys
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from ormahd.text.secrets import redact
from tests.tables import rows

HERE = Path(__file__).parent
WORDS = rows(__file__, "words")
LETTERS = rows(__file__, "letters")
STEMS = ["Sunflower", "hunter", "Kranich", "maple", "Otter", "thunder", "Winter", "pickle", "Zebra", "lantern"]


class Figures(Struct, frozen=True):
    """`found` of `planted` secrets are gone without a trace; `touched` of `clean` sentences are not what they were."""

    planted: int
    found: int
    clean: int
    touched: int
    misses: list[str]
    false: list[str]


def measure(half: str) -> Figures:
    planted = [case for case in planted_cases() if _half(case[0]) == half]
    clean = [text for text in clean_texts() if _half(text) == half]
    misses = [text for text, secrets in planted if any(secret in redact(text).text for secret in secrets)]
    false = [text for text in clean if redact(text).found]
    return Figures(len(planted), len(planted) - len(misses), len(clean), len(false), misses, false)


def planted_cases() -> list[tuple[str, list[str]]]:
    """`(text, the secrets in it)`."""
    found = []
    for number, line in enumerate(_lines("secrets_planted.tsv")):
        kind, _, template = line.partition("\t")
        for turn in range(2):
            chance = random.Random(number * 2 + turn)
            said, secrets = _secret(kind, chance)
            found.append((template.replace("\\n", "\n").replace("{}", said), secrets))
    return found


def clean_texts() -> list[str]:
    texts = list(_lines("secrets_clean.txt"))
    for name in ("memory", "affinity", "conflicts", "intents", "corpus/dev-memories", "corpus/held-memories"):
        for line in _lines(f"{name}.tsv"):
            texts += [cell for cell in line.split("\t") if cell.count(" ") >= 3]
    return list(dict.fromkeys(texts))


def _lines(name: str) -> list[str]:
    lines = (HERE / name).read_text("utf-8").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("# ")]


def _half(text: str) -> str:
    return "dev" if sha256(text.encode()).digest()[0] % 2 else "held"


def _secret(kind: str, chance: random.Random) -> tuple[str, list[str]]:
    digits = lambda many: "".join(chance.choice("0123456789") for _ in range(many))  # noqa: E731
    if kind == "p":
        made = chance.choice([f"{chance.choice(STEMS)}!{digits(4)}", f"{chance.choice(STEMS).lower()}{digits(2)}secret{digits(2)}",
                              f"{chance.choice(STEMS)}{digits(4)}!", f"x{digits(2)}-Kq{digits(2)}_vB", f"{chance.choice(STEMS)}#{digits(3)}"])  # fmt: skip
        return made, [made]
    if kind == "k":
        made = "".join(chance.choice("0123456789abcdef") for _ in range(chance.choice((20, 32, 40))))
        made = chance.choice([made, f"{made[:12].upper()}x{made[12:]}"])
        return made, [made]
    if kind == "l":
        made = chance.choice(LETTERS)
        return made, [made]
    if kind in "hs":
        made = ("-" if kind == "h" else " ").join(chance.sample(WORDS, 4))
        return made, [made]
    if kind == "n":
        made = digits(chance.choice((4, 4, 6)))
        return made, [made]
    if kind == "r":
        codes = ["".join(chance.choice("23456789abcdefgh") for _ in range(4)) + "7-" + digits(4) for _ in range(4)]
        return chance.choice([", ", "\n", " "]).join(codes), codes
    if kind == "c":
        body = chance.choice(["45391488", "52703311", "44850012"]) + digits(7)
        made = body + _luhn(body)
        return chance.choice([made, " ".join(made[at : at + 4] for at in range(0, 16, 4))]), [made[-8:], made[-4:]]
    if kind == "i":
        account = digits(18)
        check = 98 - int("".join(str(int(char, 36)) for char in account + "DE00")) % 97
        made = f"DE{check:02}{account}"
        return chance.choice([made, " ".join(made[at : at + 4] for at in range(0, len(made), 4))]), [made[-6:]]
    said = " ".join(chance.sample(WORDS, 12))
    return said, [said.split(" ", 1)[1]]


def _luhn(body: str) -> str:
    total = 0
    for place, digit in enumerate(reversed(body)):
        value = int(digit) * (2 if place % 2 == 0 else 1)
        total += value - 9 if value > 9 else value
    return str(-total % 10)


def main(half: str, *, misses: bool) -> None:
    found = measure(half)
    print(f"{half}: found {found.found} of {found.planted} ({found.found / found.planted:.1%}), "
          f"touched {found.touched} of {found.clean} clean ({found.touched / found.clean:.2%})")  # fmt: skip
    for text in [*found.misses, *found.false] if misses else []:
        print(f"  {'missed' if text in found.misses else 'false '}  {text!r} -> {redact(text).text!r}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "dev", misses="--misses" in sys.argv)
