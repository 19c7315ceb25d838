"""What the forms of the page ask for, one function each: it calls the daemon, and redirects to the view that shows the result.

Forms are sent by the page's script only: with the header `X-Ormah-Part`, which a form of another site cannot send.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlencode

from starlette.responses import RedirectResponse, Response

from ormahctl.commands.maintenance import outcome
from ormahctl.gateway.exchange import BODY_BYTES, STATUS, read
from ormahctl.gateway.page import views
from ormahctl.gateway.page.views import LONG_SECONDS, View, Visit
from ormahctl.gateway.page.words import changed_words
from ormahctl.render import count
from ormahd.rpc.wire import BadRequest, Conflict, OrmahError

FORM: Final = "application/x-www-form-urlencoded"
EDITED: Final[Mapping[str, Callable[[str], Any]]] = {
    **dict.fromkeys(("content", "type", "tier"), str),
    **dict.fromkeys(("title", "space"), lambda text: text.strip() or None),
    "tags": lambda text: [tag.strip() for tag in text.split(",") if tag.strip()],
    "confidence": float,
}
"""{field of the form that changes a memory: function that makes the parameter of `agent.update` of its text}."""


async def fields(visit: Visit) -> dict[str, str]:
    """Return the fields of a form. Raises BadRequest if the page's script did not send it."""
    headers = visit.request.headers
    if views.PART not in headers or headers.get("content-type", "").partition(";")[0] != FORM:
        raise BadRequest("this is no form of the page", hint="programs use the routes of /openapi.json")
    found = parse_qs((await read(visit.request, BODY_BYTES)).decode("utf-8", "replace"), keep_blank_values=True)
    return {name: values[-1].replace("\r\n", "\n") for name, values in found.items()}


def redirect(address: str) -> Response:
    """Return the response that redirects the browser to `address`."""
    return RedirectResponse(address, 303)


async def remember(visit: Visit) -> Response:
    """Store a memory, and redirect to it."""
    given = await fields(visit)
    done = await visit.ask("agent.remember", content=given.get("content", ""), space=given.get("space") or None)
    return redirect(f"/m/{done.node_id}")


async def edit(visit: Visit) -> Response:
    """Change the fields that the person edited, if the memory is still as the form showed it, and redirect to the
    memory. Otherwise show the form again, with what changed meanwhile."""
    given = await fields(visit)
    node = await visit.ask("agent.get", node_id=visit.request.path_params["node_id"], touch=False)
    own = {
        name: given[name]
        for name in EDITED
        if name in given and views.fingerprint(given[name]) != given.get(f"was_{name}")
    }
    try:
        if own:
            wished = {name: EDITED[name](text) for name, text in own.items()}
            await visit.ask("agent.update", node_id=node.id, expect=given.get("expect") or None, **wished)
    except (OrmahError, ValueError) as exc:
        error = exc if isinstance(exc, OrmahError) else BadRequest("the confidence is a number from 0 to 1")
        edited = views.as_fields(node) | own
        clash = changed_words(node.content, edited["content"]) if isinstance(exc, Conflict) else None
        return await views.editing(visit, node, edited, error=error, clash=clash, status=STATUS.get(error.code, 500))
    return redirect(f"/m/{node.id}")


async def outdated(visit: Visit) -> Response:
    """Mark a memory as outdated, or with `revoke` as valid again, and redirect to it. `other` or `by`: the id of the
    memory that replaces it."""
    given = await fields(visit)
    node_id = visit.request.path_params["node_id"]
    by = given.get("other", "").strip() or given.get("by") or None
    marked = {"revoke": True} if given.get("revoke") else {"reason": given.get("reason") or None, "by": by}
    await visit.ask("agent.outdated", node_id=node_id, **marked)
    return redirect(f"/m/{node_id}")


async def forget(visit: Visit) -> Response:
    """Forget a memory, and redirect to its page, which then shows the history."""
    await fields(visit)
    node_id = visit.request.path_params["node_id"]
    await visit.ask("agent.forget", node_id=node_id)
    return redirect(f"/m/{node_id}")


async def undo(visit: Visit) -> Response:
    """Undo one change, and redirect to its memory; or to the undo, if the change was about several memories."""
    given = await fields(visit)
    done = await visit.ask("history.undo", ops=[visit.request.path_params["op"]], force=bool(given.get("force")))
    op = done.undone[0]
    return redirect(f"/m/{op.nodes[0]}" if len(op.nodes) == 1 else f"/changes/{op.commit[:12]}")


async def resolve(visit: Visit) -> Response:
    """Approve or reject a proposal, with the title and text that the person edited, and redirect to what still waits."""
    given = await fields(visit)
    proposal = visit.request.path_params["proposal_id"]
    action, _, keep = given.get("action", "").partition(":")
    wording = {
        name: given[name]
        for name in ("title", "content")
        if not keep and given.get(name) not in (None, given.get(f"was_{name}"))
    }
    text = wording if action == "approved" else {}
    await visit.ask("agent.resolve_proposal", proposal_id=proposal, action=action, keep=keep or None, **text)
    return redirect("/waiting")


async def settle(visit: Visit) -> Response:
    """Settle a conflict of a sync: the vault's version is kept, or this machine's is restored. Redirect to what still
    waits."""
    given = await fields(visit)
    method = "admin.sync_take_back" if given.get("action") == "mine" else "admin.sync_resolve"
    settled = {conflict.path for conflict in (await visit.ask(method, name=given.get("name", ""))).settled}
    visit.shared.findings = [finding for finding in visit.shared.findings if finding.path not in settled]
    return redirect("/waiting")


async def examine(visit: Visit) -> Response:
    """Have the doctor examine the vault now, and redirect to the findings. If the form says `fix`, what needs no
    decision is mended."""
    given = await fields(visit)
    await visit.shared.examined(visit, fix=bool(given.get("fix")))
    return redirect("/waiting?kind=finding")


async def judge(visit: Visit) -> Response:
    """Store whether a memory was useful for the prompt for which it was whispered, and redirect to that prompt."""
    given = await fields(visit)
    event = visit.request.path_params["event"]
    signal = 1 if given.get("signal") == "1" else -1
    done = await visit.ask("agent.feedback", node_id=given.get("node_id", ""), signal=signal, event=event)
    word = "useful" if signal > 0 else "not useful"
    effect = f"Noted as {word} for prompts like “{done.prompt}”." if done.counted else "It was judged so before."
    return redirect(f"/whispers?judged={done.commit or ''}&effect={quote(effect)}#{event}")


async def undo_all(visit: Visit) -> Response:
    """Undo a run, or all that a job did since a time, and redirect to the list of these undos."""
    given = await fields(visit)
    wish = {name: given.get(name) or None for name in ("run", "job", "since")}
    done = await visit.ask("history.undo", LONG_SECONDS, **wish)
    refused = len({conflict.op for conflict in done.conflicts})
    left_alone = f", {refused} left alone for later edits" if refused else ""
    effect = f"{count(len(done.undone), 'change')} undone{left_alone}"
    return redirect(f"/changes?{urlencode({'run': done.run if done.undone else '', 'effect': effect})}")


async def job(visit: Visit) -> Response:
    """Run, pause or resume a job, or pause or resume all jobs, and redirect to what that changed."""
    action, name = (await fields(visit)).get("action"), visit.request.path_params["job"]
    if action == "run":
        ran = await visit.ask("admin.run_task", LONG_SECONDS, name=name)
        effect = {"effect": f"{name}: {f'failed: {ran.error}' if ran.error else outcome(ran, dry_run=False)}"}
        path, query = ("/changes", {"run": ran.run} | effect) if ran.commits else ("/health", effect)
        return redirect(f"{path}?{urlencode(query)}")
    method = "admin.pause" if action == "pause" else "admin.resume"
    await (visit.ask(f"{method}_all") if name == "all" else visit.ask(method, name=name))
    return redirect("/health")


async def purge(visit: Visit) -> Response:
    """Purge a memory, if the person has confirmed it, and show what was done."""
    if (await fields(visit)).get("sure") != "yes":
        raise BadRequest("a purge cannot be undone, so it has to be confirmed")
    done = await visit.ask("admin.purge", LONG_SECONDS, node_id=visit.request.path_params["node_id"])
    return visit.page("purge.html", would=done, node=None)


FORMS: Final[Mapping[str, View]] = {
    "/remember": remember,
    "/m/{node_id}/edit": edit,
    "/m/{node_id}/outdated": outdated,
    "/m/{node_id}/forget": forget,
    "/m/{node_id}/purge": purge,
    "/health/{job}": job,
    "/changes/undo": undo_all,
    "/changes/{op}": undo,
    "/whispers/{event}": judge,
    "/waiting/conflict": settle,
    "/waiting/finding": examine,
    "/waiting/{proposal_id}": resolve,
}
