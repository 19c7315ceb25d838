"""Make `ormahd/text/betterleaks.txt` from the default configuration of Betterleaks (a TOML file, MIT).

`python -m tests.bench.secret_tokens CONFIG.toml VERSION LICENSE > ormahd/text/betterleaks.txt`. Left out are rules that a
note needs otherwise (passwords, headers, private keys), rules of identifiers and addresses, and those that Betterleaks
itself reports only beside another.
"""

from __future__ import annotations

import re
import sys
import tomllib
from hashlib import sha256
from pathlib import Path

LEFT_OUT = re.compile(
    r"generic-.*|curl-auth-.*|private-key|kubernetes-secret-yaml|jwt|jwt-base64|gcp-(?:application|service).*|.*-connection-string"
    r"|.*-(?:id|url|host|address)(?:\.\d)?|.*-pub(?:lic)?-.*|box-api-access-token|aiven-auth-token|hashicorp-tf-password|nuget-config-password"
)
FOLLOWED = re.compile(re.escape(r"""(?:\\?['"\x60]|[\s;]|\\[nr]|$)""") + r"|\(\?:\[\^[^\]]*\]\|\\z\)")
"""What must follow a token: in prose that may be any sign."""
ASSIGNED = r"(?:=|>|:{1,3}=|"


def line(rule: dict[str, object]) -> str | None:
    """`id <tab> least entropy <tab> keywords, by | <tab> pattern`; the secret is the pattern's first group, or all of it."""
    name, pattern = str(rule["id"]), str(rule.get("regex", ""))
    if not pattern or rule.get("skipReport") or LEFT_OUT.fullmatch(name):
        return None
    end = r"(?![A-Za-z0-9_-])" if ASSIGNED in pattern else ""
    pattern = FOLLOWED.sub(lambda _: end, pattern).replace(r"\x60", "`")
    pattern = re.sub(r"\(\?P<\w+>", "(?:", pattern).replace("[[:alnum:]]", "[A-Za-z0-9]")
    pattern = re.sub(
        r"\((\[[^\]]*\]\{\d+\}-)\)\{", r"(?:\1){", pattern
    )  # a repeated group is none that holds the secret
    pattern = re.sub(r"(?<=[\])\w])\{(\d+),\}", r"{\1,4096}", pattern)
    while inner := re.search(r"(?<!^)\(\?i\)", pattern):
        close = _close(pattern, inner.end())
        pattern = f"{pattern[: inner.start()]}(?i:{pattern[inner.end() : close]}){pattern[close:]}"
    re.compile(pattern, re.ASCII)
    entropy = re.search(r"entropy\(finding\[\"secret\"\]\) <=? ([\d.]+)", str(rule.get("filter", "")))
    keywords = "|".join(rule["keywords"])  # type: ignore[arg-type]
    return "\t".join([re.sub(r"\.\d$", "", name), entropy[1] if entropy else "0", keywords, pattern])


def _close(pattern: str, at: int) -> int:
    """Return where the group ends that `at` is in."""
    depth = 0
    for found in re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|[()]").finditer(pattern, at):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if depth < 0:
            return found.start()
    return len(pattern)


if __name__ == "__main__":
    source, version, license_file = sys.argv[1:]
    content = Path(source).read_bytes()
    print(f"# Rules of Betterleaks {version} (https://github.com/betterleaks/betterleaks), for Python's re.")
    print(
        "# One a line: id, least entropy in bits a character, keywords, pattern; made by tests/bench/secret_tokens.py."
    )
    print(f"# sha256 of the default configuration that they were made of: {sha256(content).hexdigest()}\n#")
    for text in Path(license_file).read_text().splitlines():
        print(f"# {text}".rstrip())
    for found in filter(None, map(line, tomllib.loads(content.decode())["rules"])):
        print(found)
