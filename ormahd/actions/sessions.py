"""Search and list the archive of sessions. Full-text search finds turns, and late interaction orders the best of
them."""

from __future__ import annotations

import re
import shlex
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ormahd import api
from ormahd.actions.views import day, headline, iso, of_row
from ormahd.embedding import token_vectors
from ormahd.embedding.embedder import DocumentVectors, QueryVectors
from ormahd.errors import BadRequest
from ormahd.index.embeddings import TokenVectors
from ormahd.index.index import Index
from ormahd.model.node import SearchQuery
from ormahd.process import priority
from ormahd.search.gather import max_sim, token_weights
from ormahd.sessions.archive import Archived, SessionArchive, SessionRow
from ormahd.sessions.files import word_of
from ormahd.text.quoting import shortened
from ormahd.text.words import fold, query_terms

ID: Final = re.compile(r"[0-9A-Za-z_][0-9A-Za-z_.-]{0,199}")
"""Matches the id of a session, in the form that harnesses give it."""
BEST: Final = 100
"""Maximum number of turns that full-text search returns; late interaction then orders them."""
SURE: Final = 50
"""Minimum number of turns whose vectors are computed, however slow the machine is."""
STEP: Final = 16
"""Number of turns in one forward pass of the model: with more, a pass needs more memory and time."""
SECONDS: Final = 0.25
"""Seconds after which no further vectors are computed; turns without any stay in the order of full-text search."""
PASSAGE: Final = 600
"""Number of characters of a turn that are quoted: the part with the most words of the question."""
COMPARED: Final = 400
"""Number of characters of a turn that are compared by late interaction: longer texts take more time."""
LEAST: Final = 0.05
"""Weight in late interaction of a token that occurs in all compared texts."""
WORDS: Final = 0.1
"""Weight of the full-text score (relative to the best one) beside late interaction."""


def recall_sessions(archive: SessionArchive, index: Index, query: SearchQuery) -> api.RecallResult:
    """Return the exchanges of archived sessions that match a question, best first. Nothing counts as used.

    Raises:
        BadRequest: a filter was given that only memories have.
    """
    if any(one is not None for one in (query.types, query.tiers, query.spaces, query.tags)):
        raise BadRequest(
            "sessions have no types, tiers, spaces or tags", hint="narrow it by created_after and created_before"
        )
    found = archive.search(
        query.query, BEST, after=iso(query.created_after) or None, before=iso(query.created_before) or None
    )
    terms = query_terms(query.query)
    passages = [passage(archived.text, terms) for archived, _ in found]
    compared = [passage(archived.text, terms, COMPARED) for archived, _ in found]
    scores = _scores(archive, index, query.query, compared, [score for _, score in found])
    order = sorted(range(len(found)), key=lambda at: (-scores[at], at))
    exchanges = _exchanges(archive, [(found[at][0], scores[at], passages[at]) for at in order], query.limit, terms)
    degraded = [] if index.embedder is not None or not found else ["vectors"]
    text = _prose(query, exchanges, degraded)
    return api.RecallResult(text=text, results=[], degraded=degraded, exchanges=exchanges)


def _scores(
    archive: SessionArchive, index: Index, question: str, passages: Sequence[str], by_words: Sequence[float]
) -> list[float]:
    """Return a score for each of the `passages` of turns, in their order. `by_words`: their scores by full-text
    search.

    Passages that could not be embedded in time score below all others, in the order of full-text search.
    """
    if not passages:
        return []

    # Without a model the scores by words are all there is
    shares = np.array(by_words) / max([*by_words, 1e-9])
    embedder = index.embedder
    asked = None if embedder is None else index.embed_query(question)
    if embedder is None or asked is None:
        return [float(share) for share in shares]

    # Embed passages in the order of full-text search, until the time is up
    begun = time.monotonic()
    cache = archive.passages
    documents = cache.known(embedder.fingerprint, passages)
    rest = [at for at in range(len(passages)) if at not in documents]
    done = 0
    while done < len(rest) and (done < SURE or time.monotonic() - begun < SECONDS):
        batch = rest[done : done + STEP]
        texts = [passages[at] for at in batch]
        made = embedder.embed_documents(texts, urgent=True)
        cache.keep(embedder.fingerprint, texts, made)
        documents |= dict(zip(batch, made, strict=True))
        done += len(batch)
    if done:  # the passes leave some 60 MB allocated, and such questions are rare
        priority.give_back()

    # Combine both scores
    compared = sorted(documents)
    late = dict(zip(compared, _late(asked, [documents[at] for at in compared]), strict=True))
    return [
        float(late[at] + WORDS * shares[at]) if at in late else float(shares[at]) - 1.0 for at in range(len(passages))
    ]


def _late(asked: QueryVectors, documents: Sequence[DocumentVectors]) -> NDArray[np.float32]:
    """Return the late-interaction score of a question with each text. The fewer of the texts contain a token of the
    question, the more it weighs."""
    ids = [np.concatenate([piece.token_ids for piece in document.pieces]) for document in documents]
    codes = [np.concatenate([piece.tokens for piece in document.pieces]) for document in documents]
    have = Counter(int(token) for tokens in ids for token in np.unique(tokens))
    rarity = [np.log((len(documents) + 1) / (have[int(token)] + 0.5)) for token in asked.token_ids]
    weights = token_weights(np.maximum(np.array(rarity, np.float32), LEAST))
    with_tokens = [at for at, vectors in enumerate(codes) if len(vectors)]
    if not with_tokens:
        return np.zeros(len(documents), np.float32)
    every = np.concatenate([codes[at] for at in with_tokens])
    packed = np.frombuffer(token_vectors.pack(every), np.ubyte).reshape(len(every), -1)
    offsets = np.cumsum([0, *(len(codes[at]) for at in with_tokens)]).astype(np.int64)
    stored = TokenVectors([str(at) for at in with_tokens], offsets, packed)
    return max_sim(asked.tokens, weights, [str(at) for at in range(len(documents))], stored).rare


def passage(text: str, terms: Sequence[str], limit: int = PASSAGE) -> str:
    """Return the part of a text that has the most of `terms`: whole lines or words, about `limit` characters."""
    if len(text) <= limit:
        return text
    step = limit // 3
    folded = [fold(text[at : at + step]) for at in range(0, len(text), step)]
    counts = [{term for term in terms if term in part} for part in folded]
    best = max(range(len(counts)), key=lambda at: (len(set().union(*counts[at : at + 3])), -at))
    start, end = best * step, best * step + limit
    if start:
        start = max(text.rfind(" ", 0, start), text.rfind("\n", 0, start), start - 40) + 1
    cut = text[start:end]
    if end < len(text):
        cut = cut[: max(cut.rfind(" "), cut.rfind("\n"), len(cut) - 40)]
    return cut.strip()


def _exchanges(
    archive: SessionArchive, found: Sequence[tuple[Archived, float, str]], limit: int, terms: Sequence[str]
) -> list[api.Exchange]:
    """Return at most `limit` exchanges: those around the turns in `found`, best first, each once.

    `found`: (turn, score, the part of the turn to quote), best first.
    """
    chosen: list[tuple[Archived, float, list[api.SaidTurn]]] = []
    seen: set[int] = set()
    for best, score, part in found:
        if best.number in seen:
            continue
        around = archive.around(best)
        seen.update(near.number for near in around)
        texts = [(near.role, part if near.number == best.number else passage(near.text, terms)) for near in around]
        chosen.append((best, score, [api.SaidTurn(role=role, text=text) for role, text in texts]))
        if len(chosen) == limit:
            break
    rows = archive.sessions([best.session for best, _, _ in chosen])
    return [
        exchange(rows[best.session], texts, turn=best.place, score=round(score, 6), time=best.time)
        for best, score, texts in chosen
    ]


def exchange(row: SessionRow, texts: list[api.SaidTurn], **more: Any) -> api.Exchange:
    """Return an exchange of a session with the texts of its turns. `more`: `turn`, `score` and `time`."""
    return of_row(api.Exchange, row, session=row.id, said=texts, open=opening(row), **more)


def opening(row: SessionRow) -> str:
    """Return the command or address that opens a session in its harness, or else the command of Ormah that prints it.

    The id and the folder come from a transcript. If the id is one that no harness gives, such as one that looks like an
    option, it is not put into a harness's command.
    """
    dashes = "-- " if row.id.startswith("-") else ""
    ours = f"ormahctl show {dashes}{shlex.quote(row.id)}"
    if not ID.fullmatch(row.id):
        return ours
    within = f"cd {shlex.quote(row.cwd)} && " if row.cwd and row.cwd.startswith("/") else ""
    return {
        "claude-code": f"{within}claude --resume {row.id}",
        "codex": f"{within}codex resume {row.id}",
        "chatgpt": f"https://chatgpt.com/c/{row.id}",
        "claude-ai": f"https://claude.ai/chat/{row.id}",
    }.get(row.harness, ours)


def dialogue(one: api.Exchange) -> list[str]:
    """Return what was said in an exchange as lines for an agent, one for each side."""
    return [
        f"   {'You' if line.role == 'user' else 'Agent'}: {shortened(' '.join(line.text.split()), 400)}"
        for line in one.said
    ]


def _prose(query: SearchQuery, exchanges: Sequence[api.Exchange], degraded: Sequence[str]) -> str:
    """Return the answer as text: each exchange with its time, place and dialogue."""
    lines = [] if exchanges else [f"Nothing in the archive of sessions fits: {headline(None, query.query)}"]
    for number, one in enumerate(exchanges, 1):
        lines.append(
            f"{number}. {day(one.time) if one.time else 'at an unknown time'} | {one.cwd or one.harness} | session {one.session} turn {one.turn}"
        )
        lines += dialogue(one)
        lines.append(f"   open: {one.open}")
    if degraded:
        lines += ["", "Degraded: the model is not loaded; the order is that of words alone"]
    return "\n".join(lines)


def sessions(archive: SessionArchive, index: Index, params: api.SessionsParams) -> api.SessionsResult:
    """Return the newest sessions that match `params`. With `session_id`: the session whose id begins with it, and its
    turns.

    Raises:
        NotFound, Ambiguous: no session, or several, have an id that begins with `session_id`.
    """
    total, turns = archive.count()
    extracted = index.extracted_from()
    made = Counter(said_in.rpartition("#")[0] for said_in in extracted.values())
    if params.session_id is None:
        rows = archive.newest(params.limit, before=params.before, project=params.project, harness=params.harness)
        return api.SessionsResult(sessions=[_info(row, made) for row in rows], total=total, total_turns=turns)
    row, lines = archive.session(params.session_id)
    return api.SessionsResult(
        sessions=[_info(row, made)],
        total=total,
        total_turns=turns,
        turns=[of_row(api.SessionLine, line, turn=line.place, withdrawn=bool(line.withdrawn)) for line in lines],
        deeds=[of_row(api.SessionStep, one, files=one.files.splitlines()) for one in archive.deeds_of(row.number)],
        memories=_learned(index, row, lines, extracted),
    )


def _learned(
    index: Index, row: SessionRow, lines: Sequence[Archived], extracted: Mapping[str, str]
) -> list[api.LearnedMemory]:
    """Return the memories that were extracted from a session, in the order of its turns.

    `extracted`: memory's id -> its field `from` (`SESSION#TURN`).
    """
    places = {line.key: line.place for line in lines}
    turns = {
        node_id: places.get(key, 0)
        for node_id, (session, _, key) in ((one, said_in.rpartition("#")) for one, said_in in extracted.items())
        if session == word_of(row.id)
    }
    rows = index.notes(list(turns)).values()
    found = [of_row(api.LearnedMemory, one, node_id=one.id, turn=turns[one.id]) for one in rows]
    return sorted(found, key=lambda one: (one.turn, one.short_id))


def _info(row: SessionRow, made: Mapping[str, int]) -> api.SessionInfo:
    """Return a session as the protocol has it. `made`: {session: number of memories made from it}."""
    title = row.title or (headline(None, row.prompt) if row.prompt else None)
    return of_row(api.SessionInfo, row, title=title, open=opening(row), memories=made.get(word_of(row.id), 0))
