"""Tell which commands and files a text is about, and whether a command or file is one of them. Pure.

A text that mentions a command in passing is not about it. So a decision, a preference and a procedure are about what
they name, other memories only by a sentence that forbids, orders or warns, and an event about nothing.

A *pattern* is a list of words such as `git push --force`. Its first word is the program, and further words follow it in
this order; between them a command may have flags and their values. Its flags may stand anywhere. Words may be globs.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct

from ormahd.model.node import NodeType
from ormahd.text.tables import tables
from ormahd.text.words import FUNCTION_WORDS

_LISTS: Final = tables("bearing.toml")
READ: Final = 4_000
"""Maximum number of characters of a command, or of a memory's text, that are read."""
NAMED: Final = 24
"""Maximum number of patterns of one kind that a text gives: a text that names more is a list."""
SHORT, LONGER = 5, 4
"""Least number of letters of a name that a longer one may begin with, and the most that this may have more."""
RULES: Final = frozenset({NodeType.DECISION, NodeType.PREFERENCE, NodeType.PROCEDURE})
"""Types of memories that say what to do, and so are about what they name."""
NARRATIVE: Final = frozenset({NodeType.EVENT, NodeType.PERSON})
"""Types of memories that tell of an event or a person: about no command and no file."""
EVERYWHERE: Final = frozenset[str](_LISTS["everywhere"])
"""File names that many folders of a project contain. Such a name alone does not show which file a memory means."""
WORDS_TOO: Final = frozenset[str](_LISTS["words_too"])
"""Programs whose names are words too: alone they name no program."""
LOOKING: Final = frozenset[str](_LISTS["looking"])
"""Programs that only look. Their commands name nothing."""
WRITING: Final = frozenset[str](_LISTS["writing"])
"""Programs that change the files that they name."""
NESTED: Final = frozenset[str](_LISTS["nested"])
"""Beginnings of commands that need one more word to show what runs."""
WRAPPERS: Final = tuple(_LISTS["wrappers"])
"""Beginnings of commands that run the command that follows."""
ADDING: Final = frozenset[str](_LISTS["adding"])
"""Subcommands that bring something new into a project: what was rejected may be it."""
GIT: Final[Mapping[str, str]] = _LISTS["git"]
"""{verb of a rule: the command that it forbids}."""

_NO_COMMAND: Final = FUNCTION_WORDS - {"down", "up"}
_NEVER: Final = (
    r"(?:never|not|no|avoid|without|don'?t|cannot|mustn'?t|isn'?t|instead of|rather than|forbidden|nie|niemals|nicht|kein\w*|statt|"
    r"jamais|pas|nunca|sin)"
)
_GIT: Final = re.compile(
    rf"(?<![\w-]){_NEVER}\s+(?:\w+\s+)??(?:(?P<strong>{'|'.join(GIT)})\w*|(?P<verb>push|commit|merge)(?:es|s|ing)?"
    r"(?=$|\s+(?:directly\s+)?(?:(?:to|on|onto|into)\s+(?:the\s+)?(?P<branch>[\w/.-]+)|before|without|until|while|after)))",
    re.IGNORECASE,
)
_FORBIDS: Final = re.compile(rf"(?<![\w-]){_NEVER}(?![\w-])", re.IGNORECASE)
_ORDER: Final = (
    rf"{_NEVER}|always|must|only|should|shall|ought|needs?|ha(?:s|ve) to|unless|until|before|after|first|instead|use|run|ask|"
    r"leave|look|keep"
)
_ORDERS: Final = re.compile(rf"(?<![\w-])(?=\w)(?:{_ORDER})(?![\w-])", re.IGNORECASE)
_RULE: Final = re.compile(
    rf"(?<![\w-])(?=\w)(?:{_ORDER}|breaks?|hangs?|fails?|deletes?|removes?|removed|wipes?|empties|drops?|loses?|lost|hides?|corrupts?|crashes|costs?|"
    r"overwrites?|gives|kills?|immer|muss|erst|vor|toujours|doit|avant|siempre|debe|antes)(?![\w-])",
    re.IGNORECASE,
)
"""Matches what a sentence has that forbids, orders or warns."""
_SENTENCE: Final = re.compile(r"(?<=[.!?;])\s+|\n+")
_CLAUSE: Final = re.compile(r"[,:]\s+")
_CODE: Final = re.compile(r"`([^`\n]{2,300})`")
_FENCED: Final = re.compile(r"^ {0,3}(?:```|~~~).*?$(.*?)^ {0,3}(?:```|~~~) *$", re.MULTILINE | re.DOTALL)
_SUBCOMMAND: Final = re.compile(r"[a-z][\w:.-]*$")
_PROGRAM: Final = re.compile(r"(?:\.{0,2}/)?[a-z][\w./+-]*$")
_TOKEN: Final = re.compile(r"[^\s\"'“”`(),;!?]+")
_FLAG: Final = re.compile(r"--?[A-Za-z][\w:-]*$")
_LONE: Final = re.compile(
    rf"(?<![\w-])(?:{_NEVER}(?: (?:with|use|run|using|by|add|install|mit))?) ([a-z][\w.+-]{{1,24}})(?:,? (?:or|nor|and|oder|ou|o) ([a-z][\w.+-]{{1,24}}))?",
    re.IGNORECASE,
)
_AROUND: Final = re.compile(
    r"(?<![\w-])(?:before|after|running|run|call|vor|avant)\s+([a-z]\w*[_-][\w-]+)", re.IGNORECASE
)
_FILE: Final = re.compile(
    r"(?<![\w/:@.*+-])(?:\.{0,2}/)?(?:[\w.@*+-]+/)+[\w.@*+-]*|(?<![\w/:@*.-])\.?[\w*-]+(?:\.[\w-]+){0,5}\.[A-Za-z]\w{0,9}(?![\w/(-])"
)
_USED: Final = re.compile(
    r"(?:(?<![\w-])(?:with|by|via|see|like|from|into|than|using|run|siehe|voir)|(?:described|documented|explained) in|similar to|out of)\s+[`\"(]?$",
    re.IGNORECASE,
)
"""Matches before a file that the text only points to, or that it runs."""
_ADVISED: Final = re.compile(
    r"(?:(?<![\w-])(?:run|use|with|by|then|need|needs|via|first|locally|is|and|or|mit|avec|con)|:|->)\s*$",
    re.IGNORECASE,
)
_STOPS: Final = re.compile(
    r"\s(?:for|as|in|to|on|with|instead|at|because|and|but|für|als|pour|para)\s|[,.:;(]", re.IGNORECASE
)
_TRIED: Final = re.compile(
    r"(?<![\w-])(?:tried|used|using|evaluated|tested|considered|built|with|probiert|essayé|probado)\s+", re.IGNORECASE
)
_SHELL: Final = re.compile(r"""(?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^\s"'\\;&|()<>])+|&&|\|\||[;|&()\n]|[<>]+""")
_HEREDOC: Final = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?(.*?)^\s*\1\s*$", re.DOTALL | re.MULTILINE)
_ENDS: Final = frozenset({"&&", "||", ";", "|", "&", "(", ")", "\n"})
_ASSIGNED: Final = re.compile(r"\w+=")


class Bearing(Struct, frozen=True, omit_defaults=True):
    """What a text is about: globs of files, patterns of commands, and names of things that it rejects.

    `things` is filled for a rejected attempt and for names that a sentence forbids. Each name is a `plain_name`.
    """

    files: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    things: tuple[str, ...] = ()


# ---------------------------------------------------------------- what a text is about


def bearing(title: str | None, content: str, kind: NodeType, *, rejected: bool = False) -> Bearing:
    """Return what a memory is about. `kind`: its type. `rejected`: whether it says that something was tried and given
    up.

    Each list of the result has at most `NAMED` entries.
    """
    if kind in NARRATIVE and not rejected:
        return Bearing()
    ruling = kind in RULES or rejected
    content = content[:READ]
    commands: dict[str, None] = {}
    files: dict[str, None] = {}
    things: dict[str, None] = {}
    if kind is NodeType.PROCEDURE:
        for block in _FENCED.findall(content):
            for words in simple_commands(block):
                commands |= dict.fromkeys(_patterns(words, exact=False))
    for sentence in _SENTENCE.split(f"{title or ''}\n{_FENCED.sub('', content)}"):
        if ruling or _RULE.search(sentence):
            commands |= dict.fromkeys(_commands(sentence, advising=kind is NodeType.PROCEDURE))
            # names that it forbids as a whole ("uv instead of pip"): no subcommand follows
            avoided = []
            for found in _LONE.finditer(sentence):
                word = re.match(r"\s+([\w-]+)", sentence[found.end() :])
                if word is None or word[1].lower() in _NO_COMMAND:
                    avoided += [name.rstrip(".") for name in found.groups() if name and name not in _NO_COMMAND]
            commands |= dict.fromkeys(name for name in avoided if name.islower() and name not in WORDS_TOO | LOOKING)
            things |= dict.fromkeys(map(plain_name, avoided))
        files |= dict.fromkeys(_globs(sentence, ruling=ruling, observed=kind is NodeType.OBSERVATION))
    things |= dict.fromkeys(_things(title, content) if rejected else ())
    return Bearing(*(tuple(listed)[:NAMED] for listed in (files, commands, things)))


def _commands(sentence: str, *, advising: bool) -> Iterator[str]:
    """Yield the patterns of the commands that a sentence names, in code or in prose.

    `advising`: whether the memory is a procedure, so its commands count as advice unless the sentence forbids them.
    """
    for found in _CODE.finditer(sentence):
        before = _CLAUSE.split(sentence[: found.start()])[-1]
        advised = not _FORBIDS.search(before) and (advising or bool(_ADVISED.search(sentence[: found.start()])))
        for words in simple_commands(found[1]):
            if len(words) > 1 or "/" in words[0] or words[0].endswith(".sh"):
                yield from _patterns(words, exact=not advised)
    prose = _CODE.sub(lambda found: found[1] if " " not in found[1] else " … ", sentence)
    for clause in _CLAUSE.split(prose):
        tokens = [token.rstrip(".:") for token in _TOKEN.findall(clause)]
        for at, token in enumerate(tokens[:-1]):
            if _SUBCOMMAND.match(token) and token not in _NO_COMMAND and "/" not in token:
                yield from _in_prose(tokens[at : at + 5])
        yield from (found[1] for found in _AROUND.finditer(clause))
        flags = [token for token in tokens if token.startswith("--") and len(token) > 7 and _FLAG.match(token)]
        yield from flags
        for found in _GIT.finditer(clause) if not flags else ():
            strong = (
                command
                for verb, command in GIT.items()
                if found["strong"] and re.fullmatch(verb, found["strong"], re.IGNORECASE)
            )
            target = f"*{found['branch']}*" if found["branch"] else ""
            yield next(strong, "") or f"git {found['verb'].lower()}{target}"


def _in_prose(tokens: Sequence[str]) -> Iterator[str]:
    """Yield the patterns of the command that a sentence may name in prose: a program with its subcommand or flags.

    `tokens`: the program and at least one word after it.
    """
    program, second, *rest = tokens
    if _FLAG.match(second):
        value = rest[:1] if rest and rest[0] not in _NO_COMMAND and not rest[0].startswith("-") else []
        yield " ".join([program, second, *value])
        return
    if not _SUBCOMMAND.match(second) or second in _NO_COMMAND:
        return
    words = [program, second]
    if needs_subcommand(words):
        if not rest or not _SUBCOMMAND.match(rest[0]) or rest[0] in _NO_COMMAND:
            return
        words.append(rest.pop(0))
    flags = []
    while rest and _FLAG.match(rest[0]):
        flags.append(rest.pop(0))
    yield from (" ".join([*words, flag]) for flag in flags) if flags else (" ".join(words),)


def _patterns(words: Sequence[str], *, exact: bool) -> Iterator[str]:
    """Yield the patterns of a command that a text gives in code. `words`: the simple command.

    `exact`: whether the text is about this command with these flags only. If False, the text advises how to run the
    program, so the flags are left out. If a subcommand adds things to the project (`ADDING`), there is a pattern for
    each thing.
    """
    program, *rest = words
    if not _PROGRAM.match(program) or program in LOOKING:
        return
    subs: list[str] = []
    while rest and len(subs) < (3 if needs_subcommand([program, *subs]) else 1) and _SUBCOMMAND.match(rest[0]):
        subs.append(rest.pop(0))
    if "--" in rest:
        rest = rest[: rest.index("--")]
    if subs and subs[-1] in ADDING:
        values = [word for at, word in enumerate(rest) if word[0] != "-" and (at == 0 or rest[at - 1][0] != "-")]
        if values:
            yield from (" ".join([program, *subs, value]) for value in values)
            return
    own = any(re.search(r"[_:.]", word) for word in subs)  # a word of the project, and no usual subcommand
    flags = [(flag, rest[at + 1 : at + 2]) for at, flag in enumerate(rest) if _FLAG.match(flag)]
    if not flags or (subs and (own or not exact)):
        if subs or "/" in program or program.endswith(".sh"):
            yield " ".join([program, *subs])
        return
    for flag, value in flags:
        values = [] if subs or not value or value[0].startswith("-") or "/" in value[0] else value
        yield " ".join([program, *subs, flag, *values])


def needs_subcommand(words: Sequence[str]) -> bool:
    """Return whether the beginning of a command does not yet show what runs, so that it needs one more word.

    That is so for entries of `NESTED`, and for an interpreter with a script's file.
    """
    script = (
        len(words) == 2 and words[0].startswith(("python", "node", "bun", "deno", "ruby", "php")) and "." in words[1]
    )
    return script or words[0] in NESTED or (len(words) > 1 and " ".join(words[:2]) in NESTED and len(words) < 3)


def _globs(sentence: str, *, ruling: bool, observed: bool) -> Iterator[str]:
    """Yield globs of the files and folders that a sentence is about. `ruling`: the memory says what to do; `observed`:
    it is an observation, which is also about the file that a sentence begins with."""
    rule = _ORDERS.search(sentence) is not None
    for found in _FILE.finditer(sentence):
        name, before = found[0].rstrip("."), sentence[: found.start()]
        first = observed and len(before.split()) <= 3
        inside = before.count("`") % 2 and " " in before.rpartition("`")[2]  # an argument of a command
        wide = "/" not in name.strip("/") and (name.endswith("/") or "." not in name)
        if wide or inside or "://" in name or not re.search(r"[A-Za-z]{2}", name) or name.lower() in EVERYWHERE:
            continue
        if (ruling or rule or first) and not _USED.search(before):
            yield name.removeprefix("./")


def _things(title: str | None, content: str) -> Iterator[str]:
    """Yield the `plain_name` of each thing that was tried and rejected."""
    texts = [title or "", *(content[found.end() :] for found in _TRIED.finditer(content[:300]))]
    for text in texts:
        for word in re.findall(r"[A-Za-z][\w.+-]{2,30}", _STOPS.split(f" {text} ")[0]):
            if word.lower() not in _NO_COMMAND:
                yield plain_name(word)


def plain_name(name: str) -> str:
    """Return the ASCII letters and digits of a name, in lower case."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


# ---------------------------------------------------------------- what an action is


def simple_commands(text: str) -> list[list[str]]:
    """Return the words of each simple command in a line of a shell.

    Assignments, quotes, redirections and the folder of the program are left out. A command that another one runs
    (`sudo`, `poetry run`, `bash -c`) is listed too.
    """
    found: list[list[str]] = []
    words: list[str] = []
    tokens = _SHELL.findall(_HEREDOC.sub(" ", text[:READ]))
    for token in [*tokens, ";"]:
        if token not in _ENDS:
            words.append(token)
            continue
        _append_commands(found, words)
        words = []
    return found


def _append_commands(found: list[list[str]], words: list[str]) -> None:
    """Append the simple command of `words` to `found`, as `simple_commands` lists it; nothing if no word is left.

    If it is a shell with a script (`bash -c "…"`), the commands of the script are appended too. If it is one of
    `WRAPPERS`, so is the command that it runs.
    """
    words = [word for at, word in enumerate(words) if word[0] not in "<>" and (at == 0 or words[at - 1][0] not in "<>")]
    while words and _ASSIGNED.match(words[0]):
        words.pop(0)
    if not words:
        return
    plain = [re.sub(r"""["'\\]""", "", word) if word[:1] not in "\"'" else word[1:-1] for word in words]
    program = PurePosixPath(plain[0]).name if plain[0].startswith("/") else plain[0]
    found.append([program, *plain[1:]])
    if program in {"bash", "sh", "zsh", "dash"}:
        script = next((word for flag, word in itertools.pairwise(plain) if re.fullmatch(r"-\w*c", flag)), "")
        found += simple_commands(script)
        return
    for wrapper in WRAPPERS:
        size = len(wrapper.split())
        if " ".join([program, *plain[1:size]]) == wrapper:
            rest = plain[size:]
            while rest and rest[0].startswith("-"):
                rest.pop(0)
            _append_commands(found, rest)


def pattern_matches(pattern: str, words: Sequence[str]) -> bool:
    """Return whether the pattern `pattern` names the simple command `words`."""
    wanted = pattern.split()
    return _has_words(wanted, words) or ("*" in pattern and fnmatchcase(" ".join(words), pattern))


def _has_words(wanted: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether a simple command (`words`) has all words and flags of a pattern (`wanted`).

    A flag may stand anywhere in the command. The other words must come in the pattern's order, with nothing between
    them but flags and their values. A pattern of one flag alone matches every program with that flag.
    """
    # two flags are one: `--force`, `--force=yes`, and `-f`, its first letter
    flags = [word.partition("=")[0] for word in words[1:] if word.startswith("-")]
    for named in (named for named in wanted if named.startswith("-")):
        pairs = [(named, flag) if named.startswith("--") else (flag, named) for flag in flags]
        short = any(long.startswith("--") and len(letter) == 2 and letter[1] == long[2:3] for long, letter in pairs)
        if not short and not any(fnmatchcase(flag, named) for flag in flags):
            return False
    plain = [named for named in wanted if not named.startswith("-")]
    if len(plain) == len(wanted) - 1 and not plain:
        return True  # a flag alone
    at = 0
    for named in plain:
        while at < len(words):
            word = words[at]
            if fnmatchcase(word, named) or (at == 0 and fnmatchcase(PurePosixPath(word).name, named)):
                break
            if at == 0 or not (word.startswith("-") or words[at - 1].startswith("-")):
                return False
            at += 1
        if at == len(words):
            return False
        at += 1
    return True


def glob_matches(glob: str, path: str) -> bool:
    """Return whether a glob names the file `path`. The glob is a name, an end of the path, or a folder in it.

    `*` matches within one folder, and `**` across folders.
    """
    glob = glob.rstrip("/").removeprefix("**/")
    pattern = re.escape(glob.lstrip("/")).replace(r"\*\*/", "(?:.*/)?").replace(r"\*\*", ".*")
    pattern = pattern.replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
    start = "^/" if glob.startswith("/") else "(?:^|/)"
    folder = "(?:/|$)" if "/" in glob or "*" not in glob else "$"
    return re.search(f"{start}{pattern}{folder}", path) is not None


def changed_files(words: Sequence[str]) -> list[str]:
    """Return the files that a simple command may change, as the command names them. `words`: the command."""
    return (
        [word for word in words[1:] if not word.startswith("-") and re.search(r"[./]", word)]
        if words[0] in WRITING
        else []
    )


def added_things(words: Sequence[str]) -> list[str]:
    """Return the names of the things that a command adds to the project, in lower case.

    For example ["ioredis"] for `npm install ioredis@5`.
    """
    if not any(word in ADDING for word in words[1:3]):
        return []
    return [part for word in words[2:] for part in re.split(r"[^a-z0-9]+", word.lower()) if len(part) > 2]


def lookup_keys(name: str) -> list[str]:
    """Return the keys under which a thing is stored, so that `are_alike` names find it: its name, and the beginnings of
    the name.

    A beginning has at least `SHORT` letters, and lacks at most `LONGER`.
    """
    return [name[:size] for size in range(max(len(name) - LONGER, SHORT), len(name))] + [name]


def are_alike(first: str, second: str) -> bool:
    """Return whether two names mean one thing: they are equal, or one is the other with at most `LONGER` letters
    more."""
    short, long = sorted((first, second), key=len)
    return short == long or (len(short) >= SHORT and long.startswith(short) and len(long) - len(short) <= LONGER)
