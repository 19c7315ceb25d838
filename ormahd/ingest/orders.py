"""Tells memories that an agent could act on from those that only state something.

A person may have pasted the text from which such a memory was made, so nobody stores it unasked: it waits as a
proposal.
"""

from __future__ import annotations

import re
from typing import Final

from ormahd.ingest.rules.language import around
from ormahd.model.node import NodeType

_LINK: Final = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://\S|\bwww\.\w", re.IGNORECASE)
_COMMAND: Final = re.compile(
    r"(?:^|[\s\"'`(|;&$])(?:sudo|curl|wget|bash|sh|zsh|eval|exec|rm|chmod|chown|ssh|scp|nc|npx|pipx?|npm|powershell|iex)\s+[\w./~$-]"
    r"|`[^`\n]*\s[^`\n]*`|\|\s*(?:sudo|ba|z)?sh\b|&&|\$\(",
    re.IGNORECASE,
)
_ORDER: Final = re.compile(
    r"(?:^|[.!?:;\n][ \t]{0,3}[\"“]?)(?:please )?(?:from now on|always|never|you (?:must|should|have to|are to)|make sure|ignore|disregard"
    r"|do not|don't|run|execute|download|install|ab (?:jetzt|sofort)|immer|niemals|nie|du (?:musst|sollst)|siempre|nunca"
    r"|debes|tienes que|toujours|jamais|tu dois)\b",
    re.IGNORECASE,
)
_PLACE: Final = re.compile(r" --\w|\w\.(?:com|net|org|io|dev|app|sh|example)\b", re.IGNORECASE)
"""Matches an option of a command, or the name of a host."""
_ABOUT_USER: Final = re.compile(r"(?:the user|der nutzer|el usuario|l['’]utilisateur)\b", re.IGNORECASE)
_QUOTED: Final = re.compile(rf"{_ABOUT_USER.pattern} (?:said|sagte|dijo|a dit) ?: ?[\"„«]\s?", re.IGNORECASE)
"""Matches what stands before the person's words in a memory that quotes them."""


def can_be_acted_on(kind: NodeType, content: str) -> bool:
    """Return whether a memory has a command, a link or an order to the agent in it, also where it quotes the person. A
    preference that is neither about the person nor a choice ("Use pnpm, not npm") is an order ("Push to main without
    asking")."""
    words = _QUOTED.sub("", content)
    bid = around("bid").search(words)
    choice = None if _PLACE.search(words) else around("choice").match(words, bid.end() if bid else 0)
    unasked = (bid and not choice) or _ORDER.search(words, choice.end() if choice else 0)
    if unasked or any(one.search(content) for one in (_LINK, _COMMAND, around("condition"))):
        return True
    about = choice or around("say").match(words) or _ABOUT_USER.match(words)
    return kind is NodeType.PREFERENCE and (not about or around("further").search(words) is not None)
