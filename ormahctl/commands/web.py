"""`ormahctl web`: open the routes for programs and the page on loopback."""

from __future__ import annotations

import os
import sys
import webbrowser

import click

from ormahctl import render
from ormahctl.gateway import reach
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session

DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")
"""Variables of which one is set where a browser with windows can be started. Without them Python would start a browser in
this terminal, and wait for its end."""


@click.command(
    cls=Verb,
    short_help="Open the page in your browser.",
    example="ormahctl web\normahctl web --stay --port 8787\normahctl --json web | jq -r .token_file",
)
@click.option(
    "--port", type=click.IntRange(1024, 65_535), metavar="N", help="The port to listen on. Default: a free one."
)
@click.option(
    "--stay/--no-stay", default=None, help="Keep it open without use, and open it there again after a restart; or not."
)
@pass_session
def web(session: Session, port: int | None, stay: bool | None) -> None:
    """Open a page in the browser, and the routes for programs, at 127.0.0.1 only.

    The printed link works once and for five minutes; with --json it is only printed. Programs send the token from the
    printed file: `Authorization: Bearer TOKEN`. Page and routes are closed ten minutes after the last request, but stay
    while a page is open.
    """
    _ = session.client  # starts the daemon, or says why there is none
    wished: dict[str, object] = {name: value for name, value in (("port", port), ("stay", stay)) if value is not None}
    found = reach.order(session.socket_path, "web", wished)
    if session.json:
        render.emit(found)
        return
    render.out(f"open: {found['link']}", hang=0)
    render.out(f"programs: {found['url']} with the token in {render.line(str(found['token_file']))}", hang=0)
    windows = sys.platform == "darwin" or any(os.environ.get(name) for name in DISPLAYS)
    if not (windows and webbrowser.open(str(found["link"]))):
        render.note("no browser could be started; open the link in one on this machine, in the next five minutes")
