"""Answer from what agents did in archived sessions: how something is run, what fixed an error, what was said about a file.

Only what can be read off the archive is said: a command counts if it worked, a fix if the command that failed no longer
gave that error.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, Final

from msgspec import Struct, UnsetType

from ormahd import api
from ormahd.actions.amend import Caller, check_space
from ormahd.actions.projects import home_of, space_of
from ormahd.actions.sessions import dialogue, exchange, passage
from ormahd.actions.views import day, headline, of_row
from ormahd.errors import BadRequest
from ormahd.index.rows import GLOBAL, Filter
from ormahd.ormah import Ormah
from ormahd.sessions.archive import Archived, ArchivedDeed
from ormahd.sessions.failures import error_of, names_of, terms_of
from ormahd.text.quoting import shortened
from ormahd.text.words import query_terms, stem, stems, words

POOL: Final = 2_000
"""Maximum number of commands that are compared with a question."""
FAILURES: Final = 100
"""Maximum number of failed commands that are compared with an error."""
ENOUGH: Final = 20
"""Number of fixes, newest first, of which the best are chosen."""
FOLLOWED: Final = 60
"""Maximum number of deeds after a failure in which its fix is looked for."""
FITS: Final = 0.3
"""Minimum share of a question's words, weighted by rarity, that a command, its prompt and its session have."""
ALIKE: Final = 0.62
"""Minimum similarity of two errors that count as one."""
PHRASE: Final = 4
"""Minimum number of words of a part of an error by which it is recognised."""
ASKED: Final = 160
"""Number of characters of a prompt that are quoted."""
WEIGHTS: Final = (1.0, 0.6, 0.3)
"""Weights of a word in the command, in its prompt, in its session's title."""
IN_PART: Final = 0.8
"""Weight of a word of which the command has a part, or that is a part of a word of the command."""
PART: Final = 4
"""Minimum number of letters of such a part."""
_FOLDER: Final = re.compile(r"^cd [^&;|]*(?:&&|;) *")
_AFTER: Final = re.compile(r"(?: ?2>&1)?(?: ?\| ?(?:tail|head|cat|less)\b[^|&;]*)?$")
_BEFORE: Final = re.compile(
    r"^(?:(?:cd|export|source|\.)\s[^&;|]*(?:&&|;)\s*|\w+=\S*\s+|(?:sudo|time|nohup|exec|env)\s+)+"
)


def work(ormah: Ormah, params: api.WorkParams, caller: Caller) -> api.WorkResult:
    """Answer a question about past work from the archive of sessions: how something is done, what fixed an error, or
    why a file was edited.

    Raises:
        BadRequest: the question has no words.
    """
    query = params.query.strip()
    if not query:
        raise BadRequest("nothing is asked", hint="say what you want to run, an error, or a file")
    space = space_of(ormah, caller) if isinstance(params.space, UnsetType) else check_space(params.space)
    if params.kind == "how":
        commands = how(ormah, query, space, params.limit)
        lines = [
            f"{command.command}\n   {counted(command)}; asked: {command.asked} ({_place_of(command)})"
            for command in commands
        ]
        text = _numbered(lines) or f"No command that worked here fits: {headline(None, query)}"
        return api.WorkResult(text=text, commands=commands)
    if params.kind == "fix":
        fixes = fix(ormah, query, space, params.limit)
        lines = [
            f"{day(one.time)}: {one.error}\n   in: {one.command}\n   {fix_as_text(one)} ({_place_of(one)})"
            for one in fixes
        ]
        text = _numbered(lines) or f"No error like this was fixed here before: {headline(None, query)}"
        return api.WorkResult(text=text, fixes=fixes)
    return about_file(ormah, query, space, params.limit)


def _is_here(ormah: Ormah, space: str | None, folder: str | None, known: dict[str | None, bool]) -> bool:
    """Return whether a session's folder belongs to the project `space`; None: any project. `known`: a cache of the
    answers."""
    if folder not in known:
        home = home_of(ormah, folder) if space is not None else None
        known[folder] = space is None or (home is not None and home.space == space)
    return known[folder]


# ------------------------------------------------------------ how


def how(ormah: Ormah, query: str, space: str | None, limit: int) -> list[api.WorkedCommand]:
    """Return the commands that worked in a project and fit the question `query`, best first."""
    known: dict[str | None, bool] = {}

    # Commands of the project that share words with the question
    folders = [one for one in ormah.sessions.folders() if _is_here(ormah, space, one, known)]
    terms = query_terms(query)
    rows = ormah.sessions.commands_like(terms, folders, POOL) if folders and terms else []
    rarity = ormah.sessions.rarity(terms)
    forms = {term: stems([term]) for term in terms}

    # Of commands that differ only in their output, the run that fits best
    best: dict[str, tuple[float, ArchivedDeed]] = {}
    for row in rows:
        if row.status == 0:
            fit = _fitness(row, forms, rarity)
            command = _plain(row.command)
            if fit >= FITS and (command not in best or fit > best[command][0]):
                best[command] = fit, row

    # How often each worked and failed. What works often, and was right lately, ranks higher
    runs: dict[str, list[tuple[int, str]]] = {}
    for command, status, time in ormah.sessions.runs_of(
        sorted({row.command for row in rows if _plain(row.command) in best}), folders
    ):
        runs.setdefault(_plain(command), []).append((status, time))
    found = []
    for command, (fit, row) in best.items():
        times = [time for status, time in runs[command] if status == 0]
        worked, failed, last = len(times), len(runs[command]) - len(times), max(times)
        share = (worked + 1) / (worked + failed + 1)
        rank = fit * (0.7 + 0.3 * share) * (1 + 0.02 * min(worked, 10)), last, command
        fields: dict[str, Any] = {"worked": worked, "failed": failed, "last": last, "session": row.session_id}
        found.append((rank, of_row(api.WorkedCommand, row, asked=_request_line(row), **fields)))
    found.sort(key=lambda ranked: ranked[0], reverse=True)
    return [command for _, command in found[:limit]]


def _request_line(row: ArchivedDeed) -> str:
    """Return the beginning of the request in which a command ran, on one line."""
    return shortened(" ".join(row.asked.split()), ASKED)


def _plain(command: str) -> str:
    """Return a command without the parts that only shorten its output, and without a `cd` before it."""
    return _AFTER.sub("", _FOLDER.sub("", " ".join(command.split())))


def _fitness(row: ArchivedDeed, forms: Mapping[str, Collection[str]], rarity: Mapping[str, float]) -> float:
    """Return how well a command fits the words of a question, from 0 to 1. Parts of a command's words also count:
    `eslint` fits "lint", and `bench` fits "benchmark"."""
    names = [word for word in words(row.command) if len(word) >= PART]
    texts = [stems(words(text)) for text in (row.command, row.asked[:1_000], row.title or "")]
    score = 0.0
    for term, spellings in forms.items():
        part = any(stem(term) in name or term.startswith(name) for name in names) if len(stem(term)) >= PART else False
        weights = [weight for weight, having in zip(WEIGHTS, texts, strict=True) if not having.isdisjoint(spellings)]
        score += rarity[term] * max([*weights, IN_PART * part])
    return score / (sum(rarity.values()) or 1.0)


# ------------------------------------------------------------ fix


class _Fixed(Struct):
    similar: float
    failure: ArchivedDeed
    commands: list[str]
    files: list[str]
    worked: bool


def fix(
    ormah: Ormah, text: str, space: str | None, limit: int, *, least: float = ALIKE, but: str | None = None
) -> list[api.KnownFix]:
    """Return what fixed earlier errors that resemble the one in `text`, best first.

    A fix is what followed an error until its command no longer gave it. `text`: the error, or everything that a command
    printed. `least`: the minimum likeness of the errors. `but`: the id of a session to ignore.
    """
    # The failures with a similar error, in a cheap comparison without the rarity of words
    error = error_of(text) or next((line.strip() for line in text.splitlines() if line.strip()), "")
    terms = terms_of(error)
    rows = ormah.sessions.failures_like(terms, FAILURES) if terms else []
    rows = [row for row in rows if likeness(error, row.error, {}) >= ALIKE / 2]
    rarity = (
        ormah.sessions.rarity(sorted({*terms, *(term for row in rows for term in terms_of(row.error))})) if rows else {}
    )

    # What followed each of them
    known: dict[str | None, bool] = {}
    found: list[_Fixed] = []
    for row in rows:
        similar = likeness(error, row.error, rarity)
        if similar >= least and row.session_id != but and _is_here(ormah, space, row.cwd, known):
            one = _fixed(row, similar, ormah.sessions.done_after(row, FOLLOWED), rarity)
            # A fix may be about a name in the earlier error that the new one does not have, such as a module
            others = names_of(row.error) - names_of(error)
            done = "" if one is None else " ".join([*one.commands, *one.files]).casefold()
            if one is not None and not any(name in done for name in others):
                found.append(one)
        if len(found) >= ENOUGH:
            break

    # Best first; equal fixes once
    found.sort(key=lambda one: (round(one.similar, 1), one.worked, one.failure.time), reverse=True)
    fixes: dict[tuple[object, ...], api.KnownFix] = {}
    for one in found:
        parts: dict[str, Any] = {"commands": one.commands, "files": one.files, "worked": one.worked}
        parts |= {"asked": _request_line(one.failure), "session": one.failure.session_id}
        known_fix = of_row(api.KnownFix, one.failure, **parts)
        fixes.setdefault((*one.commands, *one.files), known_fix)
    return list(fixes.values())[:limit]


def likeness(one: str, other: str, rarity: Mapping[str, float]) -> float:
    """Return how similar the errors `one` and `other` are, from 0 to 1: the share of their words that both have,
    weighted by rarity.

    If `one` has at least `PHRASE` words, the share of its words that `other` has is enough: `one` may be a part of
    `other`.
    """
    ours, others = set(terms_of(one)), set(terms_of(other))
    both, mine, theirs = (sum(rarity.get(term, 1.0) for term in terms) for terms in (ours & others, ours, others))
    whole = 2 * both / (mine + theirs or 1.0)
    return max(whole, both / (mine or 1.0) - 0.05) if len(ours) >= PHRASE else whole


def _fixed(
    failure: ArchivedDeed, similar: float, after: Sequence[ArchivedDeed], rarity: Mapping[str, float]
) -> _Fixed | None:
    """Return the commands and edits that followed a failure until a command of its kind no longer gave its error. None
    if there are none, or if the error came again: then that later failure counts."""
    commands: list[str] = []
    files: list[str] = []
    for deed in after:
        again = bool(deed.command) and same_kind(failure.command, deed.command)
        if again and deed.status != 0 and (not deed.error or likeness(failure.error, deed.error, rarity) >= ALIKE):
            return None
        if again:
            if _plain(deed.command) != _plain(failure.command):
                commands.append(deed.command)
            return _Fixed(similar, failure, commands, files, deed.status == 0) if commands or files else None
        if deed.status == 0 and deed.command and deed.command not in commands:
            commands.append(deed.command)
        elif deed.status == 0:
            files += [file for file in deed.files.splitlines() if file not in files]
    return None


def same_kind(one: str, other: str) -> bool:
    """Return whether two commands run the same program, mostly with the same words."""
    (program, *arguments), (second, *others) = _words_of(one), _words_of(other)
    if program != second:
        return False
    few, many = sorted((set(arguments), set(others)), key=len)
    return len(few & many) > len(few) / 2 if few else not many


@lru_cache(maxsize=4096)
def _words_of(command: str) -> list[str]:
    """Return the words of a shell command, the first without its directory. Leading `cd`, `sudo` and assignments of
    variables are left out."""
    command = _BEFORE.sub("", _plain(command))
    try:
        found = shlex.split(command)
    except ValueError:
        found = command.split()
    return [PurePosixPath(found[0]).name, *found[1:]] if found else [""]


# ------------------------------------------------------------ a file


def about_file(ormah: Ormah, path: str, space: str | None, limit: int) -> api.WorkResult:
    """Return the prompts under which a file was edited, newest first, and the memories that name it. `path`: the file's
    path, or the end of it."""
    # The prompts under which the file was edited
    name = path.removeprefix("./").strip("/")
    known: dict[str | None, bool] = {}
    prompts: dict[int, ArchivedDeed] = {}
    for deed in ormah.sessions.edits_of(name, POOL) or ormah.sessions.edits_of(PurePosixPath(name).name, POOL):
        if deed.prompt is not None and _is_here(ormah, space, deed.cwd, known):
            # One path is the end of the other
            paths = [file if file.startswith("/") else f"{deed.cwd}/{file}" for file in deed.files.splitlines()]
            if any(f"/{file}".endswith(f"/{name}") or f"/{name}".endswith(file) for file in paths):
                prompts.setdefault(deed.prompt, deed)

    # Each prompt as an exchange, then the memories
    edits = list(prompts.values())[:limit]
    rows = ormah.sessions.sessions([deed.session for deed in edits])
    exchanges = []
    for deed in edits:
        prompt = Archived(deed.prompt or 0, "", deed.session, deed.turn, deed.turn, "user", deed.time, deed.asked)
        texts = [api.SaidTurn(role=near.role, text=passage(near.text, [])) for near in ormah.sessions.around(prompt)]
        exchanges.append(exchange(rows[deed.session], texts, turn=deed.turn, score=1.0, time=deed.time))
    memories = _memories_naming(ormah, name, space, limit)
    lines = [f"{day(one.time or '')} | {_place_of(one)}\n" + "\n".join(dialogue(one)) for one in exchanges]
    lines += [f"memory {memory.node_id} ({memory.type}): {memory.title}" for memory in memories]
    text = "\n\n".join(lines) or f"Nothing was said or decided about {name}, as far as the archive and the memories go."
    return api.WorkResult(text=text, exchanges=exchanges, memories=memories)


def _memories_naming(ormah: Ormah, name: str, space: str | None, limit: int) -> list[api.NamingMemory]:
    """Return memories of a project, and global ones, that name a file by its path or the end of it."""
    parts = PurePosixPath(name).parts
    spelled = [re.compile(rf"(?<![\w/.-]){re.escape('/'.join(parts[at:]))}(?![\w/-]|\.\w)") for at in range(len(parts))]
    chosen = Filter(alive_at=ormah.ranking_clock(), spaces=None if space is None else (space, GLOBAL))
    ids = [node_id for node_id, _ in ormah.index.search_text([parts[-1]], POOL, chosen)] if parts else []
    rows = [
        row
        for row in ormah.index.notes(ids).values()
        if any(one.search(f"{row.title or ''}\n{row.content}") for one in spelled)
    ]
    return [
        of_row(api.NamingMemory, row, node_id=row.id, title=headline(row.title, row.content)) for row in rows[:limit]
    ]


# ------------------------------------------------------------ as text, for agents


def _numbered(lines: Sequence[str]) -> str:
    """Return the lines numbered from 1, as one text."""
    return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))


def _place_of(one: api.WorkedCommand | api.KnownFix | api.Exchange) -> str:
    """Return the session and turn as they are printed."""
    return f"session {one.session} turn {one.turn}"


def counted(one: api.WorkedCommand) -> str:
    """Return how often a command worked and failed, and when it last worked."""
    times = "once" if one.worked == 1 else f"{one.worked} times"
    return f"worked {times}{f', failed {one.failed}' if one.failed else ''}, last on {day(one.last)}"


def fix_as_text(one: api.KnownFix) -> str:
    """Return what fixed an error, in one line."""
    parts = [f"`{command}`" for command in map(_plain, one.commands)]
    parts += [f"edited {', '.join(one.files[:3])}{' …' if len(one.files) > 3 else ''}"] if one.files else []
    return f"What {'fixed it' if one.worked else 'followed (then it failed with another error)'}: {'; '.join(parts)}"


def when(time: str, now: datetime) -> str:
    """Return a date such as `12 Nov`, with the year if it is not that of `now`."""
    found = datetime.fromisoformat(time).astimezone()
    return f"{found.day} {found:%b}" + (f" {found.year}" if found.year != now.astimezone().year else "")
