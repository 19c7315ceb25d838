"""Prints archived sessions, for `ormahctl recall --sessions` and `ormahctl show`."""

from __future__ import annotations

from pathlib import PurePath

from ormahctl import render
from ormahctl.session import Session
from ormahd.api import Exchange, SessionInfo, SessionsParams, SessionsResult

SESSION_ID = 12
"""Number of characters of a session's id in the list, enough to distinguish sessions."""
QUOTED = 400
"""Width in columns of each side of an exchange."""
REFUSED = {
    "known": "known already",
    "whispered": "repeated a whisper",
    "forgotten": "taken away before",
    "unfit": "without a text that can be stored",
}
"""{reason why a statement became no memory: its words}."""
WHO = {"user": "you", "assistant": "agent"}


def list_sessions(session: Session, limit: int) -> None:
    """Print the archived sessions, newest first."""
    found = session.client.call("agent.sessions", SessionsParams(limit=limit), SessionsResult)
    if session.json:
        render.emit(found)
        return
    if not found.sessions:
        render.note("no session is archived yet; `ormahctl ingest DIR` archives what is in a folder")
        return
    rows = []
    for about in found.sessions:
        folder, title = render.line(project(about.cwd)), render.line(about.title or "-")
        row = [render.line(about.id)[:SESSION_ID], render.moment(about.last), about.harness]
        rows.append([*row, f"{about.turns:,}", f"{about.memories:,}", folder, title])
    render.table(["id", "last", "where", "turns", "memories", "project", "title"], rows, right=[3, 4])
    if found.total > len(found.sessions):
        render.note(f"{render.count(found.total, 'session')} in all (-n)")


def print_session(found: SessionsResult) -> None:
    """Print a session with its turns, and the memories made of it."""
    # where and with which agent the session was held
    about: SessionInfo = found.sessions[0]
    render.out(render.paint(render.line(about.title or about.id), "bold"))
    facts = [about.harness, render.line(about.cwd or "no project"), render.count(about.turns, "turn")]
    facts.append(f"session {render.line(about.id)}")
    render.out(render.paint(" · ".join(facts), "dim"), hang=0)
    if about.source:
        render.out(render.paint(f"from {render.line(about.source)}", "dim"), hang=0)
    render.raw(render.paint(f"open: {render.line(about.open)}", "dim"))

    # memories that were made of it
    if found.memories:
        render.out()
        render.out(f"{render.count(len(found.memories), 'memory', 'memories')} made of it:")
    for made in found.memories:
        where = f"  turn {made.turn}" if made.turn else ""
        render.out(f"  {made.short_id}  {made.type}  {render.line(made.title or '-')}{where}")

    # turns, each with what the agent then ran and edited
    for statement in found.turns:
        render.out()
        person, when = statement.role == "user", render.moment(statement.time)
        head = f"{statement.turn}. {WHO.get(statement.role, statement.role)} · {when}"
        head += " · taken back" if statement.withdrawn else ""
        render.out(render.paint(head, "bold" if person else "dim"))
        for text in statement.text.splitlines():
            render.out(f"   {render.line(text)}".rstrip(), hang=0)
        for deed in found.deeds if person else ():
            if deed.turn == statement.turn:
                what = f"$ {deed.command}" if deed.command else f"edited {', '.join(deed.files)}"
                failed = render.paint(f"  failed: {render.line(deed.error)}", "yellow") if deed.status else ""
                render.out(f"   {render.paint(render.line(what), 'dim')}{failed}", hang=2)


def project(cwd: str | None) -> str:
    """Return the name of a session's folder, or `-` if it has none."""
    return PurePath(cwd).name or cwd if cwd else "-"


def print_exchange(number: int, exchange: Exchange) -> None:
    """Print one result of `recall --sessions`: the turns, place, time, and how to open the session."""
    head = exchange.title or next((quote.text for quote in exchange.said if quote.role == "user"), exchange.session)
    render.out(f"{number}. {render.paint(render.cut(render.line(head), 100), 'bold')}")
    facts = [render.moment(exchange.time), exchange.harness, render.line(project(exchange.cwd))]
    facts.append(f"session {render.line(exchange.session)[:SESSION_ID]} turn {exchange.turn}")
    render.out("   " + render.paint(" · ".join(facts), "dim"), hang=0)
    for quote in exchange.said:
        render.out(f"   {WHO.get(quote.role, quote.role)}: {render.cut(render.line(quote.text), QUOTED)}", hang=3)
    render.raw("   " + render.paint(f"open: {render.line(exchange.open)}", "dim"))
