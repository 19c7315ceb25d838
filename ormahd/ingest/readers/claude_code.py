"""Reads Claude Code's transcripts: `~/.claude/projects/**.jsonl`, whose lines form a tree.

Each line belongs to the last thing above it that the agent answers: a prompt of the person, a prompt typed while Claude
worked, what the person said in a dialog; or something that is no turn, such as a command, a picture or a notice. The
answer is the text of the last message that belongs to a prompt; a message may be spread over several lines.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from msgspec import Struct, field

from ormahd.ingest.readers.deeds import FAILED, DeedPlace, ToolCall, add_deed, call_of, status_of
from ormahd.ingest.readers.lines import objects
from ormahd.ingest.readers.turns import Reading, SessionTurn, answer_turn
from ormahd.ingest.readers.values import between, clean_text, dialog_answer, iso_time, key_of, text_at, texts_of, typed

NAME: Final = "claude-code"

CONVERSATION: Final = frozenset({"user", "assistant", "system", "attachment"})
MAX_LINES: Final = 200_000
"""Maximum number of lines of which it is remembered where they belong: those that were read last."""
_END: Final = frozenset({"end_turn", "stop_sequence", "max_tokens", "refusal"})
"""Values of `stop_reason` after which an answer is complete."""
_PEOPLE: Final = (None, "human", "sdk")
"""Origins of a prompt that a person wrote; "sdk": in an editor or on the command line."""
_INJECTED: Final = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly")
_INTERRUPTED: Final = "[Request interrupted by user"
_MARKUP: Final = ("<command-", "<local-command-", "<bash-")
"""Beginnings of the records of commands."""
_REFUSED: Final = "The user doesn't want to "
CALLS: Final = 1_000
"""Maximum number of tool calls that wait for their results."""
_REASON, _AFTER_REASON = "the user said:\n", "\n\nNote: The user's next message may contain"
"""What stands before and after the words that the person typed when refusing a tool or a plan."""


class _Asked(Struct):
    """Something in a line that the agent answers. `text`: its words; "" if it is no turn. `prompt`: whether the person
    typed it as a prompt. `beside`: whether the person said it while the agent worked. `cut`: whether it is an
    interruption."""

    text: str = ""
    prompt: bool = False
    beside: bool = False
    cut: bool = False


class _Node(Struct, eq=False):
    """Something that the agent answers, with the lines that belong to it. `at`: the number of its own line; `last`: that
    of the last line below it. `above`: the node to which its own line belongs; `parent`: uuid of its parent line.
    `key`: the key of the turn, "" if it is no turn. `parts`, `message`, `time`, `cwd`, `ended`: of its answer."""

    at: int
    session: str
    above: _Node | None = None
    parent: str = ""
    key: str = ""
    asked: _Asked = field(default_factory=_Asked)
    last: int = 0
    heir: _Node | None = None
    """The node of what the person said while the agent worked. Later messages answer that."""
    parts: list[str] = field(default_factory=list)
    message: str = ""
    time: str | None = None
    cwd: str | None = None
    ended: bool = False
    calling: bool = False
    """Whether the agent's last line called a tool."""


class _Tree(Struct):
    """The state of reading one transcript. `line`: number of the last line; `damaged`: `reading.damaged` at that
    line."""

    reading: Reading
    line: int = 0
    damaged: int = 0
    owners: dict[str, _Node] = field(default_factory=dict)
    """uuid of a line -> the node to which it belongs."""
    nodes: deque[_Node] = field(default_factory=lambda: deque(maxlen=MAX_LINES))
    now: _Node | None = None
    """The last node, except interruptions."""
    waiting: list[_Node] = field(default_factory=list)
    """Nodes with an answer that was not yielded yet."""
    calls: dict[str, tuple[ToolCall, _Node, str | None]] = field(default_factory=dict)
    """Id of a tool call without a result -> (what it does, where it belongs, when it began)."""

    def read_line(self, line: dict[str, Any]) -> Iterator[SessionTurn]:
        """Read a line. Yield the turns that are complete with it."""
        # Find the node to which the line belongs.
        self.line += 1
        uuid = text_at(line, "uuid")
        parent = text_at(line, "parentUuid") or text_at(line, "logicalParentUuid") or ""
        above = self.owners.get(parent)
        node = above or self._node_without_parent(line, parent)

        # A line of the agent belongs to that node. Something that the agent answers becomes a node of its own.
        if line["type"] == "user":
            self._record_deeds(line)
        if line["type"] == "assistant":
            self._read_answer(line, node)
        elif (asked := _asked_in(line)) is not None and (asked.text or asked.prompt or asked.cut or not _calls(node)):
            yield from self.pending_answers(closed=True)
            if parent == "" and "parentUuid" not in line:
                parent = uuid or ""
            node = _Node(self.line, text_at(line, "sessionId") or self.reading.name, above, parent, asked=asked)
            node.cwd = text_at(line, "cwd") or self.reading.cwd
            self.nodes.append(node)
            if asked.text:
                time = iso_time(line.get("timestamp"))
                node.key = key_of("user", time or uuid, asked.text)
                yield SessionTurn("user", asked.text, time, node.session, node.key, node.cwd)
            if asked.beside and above is not None:
                above.heir = node
            self.now = self.now if asked.cut else node
            asked.text = ""

        # Remember to which node the line's children belong.
        if node is not None:
            node.last = self.line
            if uuid is not None:
                self.owners[uuid] = node
                if len(self.owners) > MAX_LINES:
                    del self.owners[next(iter(self.owners))]

    def _node_without_parent(self, line: dict[str, Any], parent: str) -> _Node | None:
        """Return the node to which a line belongs whose parent is not known, or None. `parent`: the uuid that the line
        names, or "".

        It is the last node. But after a line that could not be read, which may have been a prompt, it is a new node
        that is no turn, unless a tool's result is expected.
        """
        lost = parent != "" and self.reading.damaged > self.damaged
        self.damaged = self.reading.damaged
        if lost and not _calls(self.now):
            self.now = _Node(self.line, text_at(line, "sessionId") or self.reading.name)
        return self.now

    def _read_answer(self, line: dict[str, Any], node: _Node | None) -> None:
        """Read a line of the agent: its text becomes a part of the answer at `node`, and its tool calls wait for their
        results."""
        message = line.get("message")
        if (
            not isinstance(message, dict)
            or line.get("isApiErrorMessage") is True
            or message.get("model") == "<synthetic>"
        ):
            return

        # The answer belongs to what the person said last.
        node = self.now if node is None or node.asked.cut else node
        while node is not None and node.heir is not None:
            node.heir = node.heir.heir or node.heir  # shortens the path for the next line
            node = node.heir
        if node is None:
            return

        # Tool calls wait for their results.
        content, stop = message.get("content"), message.get("stop_reason")
        node.calling = stop == "tool_use" or _has_part(content, "tool_use")
        for part in content if node.calling and isinstance(content, list) else ():
            is_call = text_at(part, "type") == "tool_use"
            call = call_of(text_at(part, "name") or "", part.get("input")) if is_call else None
            if call is not None:
                self.calls[text_at(part, "id") or ""] = call, node, iso_time(line.get("timestamp"))
                if len(self.calls) > CALLS:
                    del self.calls[next(iter(self.calls))]

        # The text is a part of the answer. A new message replaces the parts of the message before.
        text = clean_text(texts_of(content, ("text",)))
        number = text_at(message, "id") or text_at(line, "uuid") or ""
        if text and node.key:
            if node.message != number or not number:
                node.message, node.parts, node.time, node.ended = number, [], iso_time(line.get("timestamp")), False
                node.cwd = text_at(line, "cwd") or node.cwd
            if text not in node.parts:
                node.parts.append(text)
            if node not in self.waiting:
                self.waiting.append(node)
        node.ended = node.ended or stop in _END

    def _record_deeds(self, line: dict[str, Any]) -> None:
        """Record the deeds of the tool calls whose results are in a line. A call that the person refused is no deed."""
        message = line.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        for part in content if isinstance(content, list) else ():
            number = text_at(part, "tool_use_id") or ""
            if number in self.calls:
                call, node, time = self.calls.pop(number)
                text = texts_of(part.get("content"), ("text",))
                if part.get("is_error") is not True:
                    status = 0
                elif text.startswith((_REFUSED, _INTERRUPTED)):
                    continue
                else:
                    status = status_of(text[:20]) or FAILED
                at = DeedPlace(node.key, node.session, node.cwd, time)
                add_deed(self.reading, call, number, at, status=status, text=text)

    def pending_answers(self, *, closed: bool) -> Iterator[SessionTurn]:
        """Yield the answers that were not yielded yet."""
        for node in self.waiting:
            text, node.parts = "\n\n".join(node.parts), []
            yield answer_turn(node.key, text, node.time, node.session, node.cwd, closed=closed or node.ended)
        self.waiting.clear()

    def withdrawn(self) -> dict[str, str]:
        """Return {key: session} of the turns that a rewind took back.

        A prompt was taken back if a later prompt of the person has the same parent, and no line below the earlier one
        comes after the later one. What is below a prompt that was taken back was taken back too.
        """
        # The newest prompt below each parent, and the last line below each node.
        newest: dict[tuple[str, str], int] = {}
        for node in reversed(self.nodes):
            if node.above is not None:
                node.above.last = max(node.above.last, node.last)
            if node.asked.prompt and not node.asked.beside:
                newest.setdefault((node.session, node.parent), node.at)

        # `back`: the nodes that were taken back. A turn that also has another node was not taken back.
        back: set[int] = set()
        found: dict[str, str] = {}
        live: set[str] = set()
        for node in self.nodes:
            beside = newest.get((node.session, node.parent), 0) if node.asked.prompt else 0
            if beside > node.last or (node.above is not None and id(node.above) in back):
                back.add(id(node))
                found |= {node.key: node.session, key_of("answer", node.key): node.session}
            else:
                live |= {node.key, key_of("answer", node.key)}
        return {key: session for key, session in found.items() if key not in live}


def read(stream: BinaryIO, reading: Reading) -> Iterator[SessionTurn]:
    """Yield the turns of a transcript in the order of its lines."""
    tree = _Tree(reading)
    for line in objects(stream, reading):
        kind = line.get("type")
        if not isinstance(kind, str) or kind not in CONVERSATION:
            title = text_at(line, "customTitle") or text_at(line, "aiTitle")
            session = text_at(line, "sessionId") or reading.name
            if title and session and not (kind == "ai-title" and session in reading.titles):  # the person's comes first
                reading.titles[session] = title
        elif line.get("isSidechain") is not True:
            yield from tree.read_line(line)
    yield from tree.pending_answers(closed=reading.rested)
    reading.withdrawn |= tree.withdrawn()


def _calls(node: _Node | None) -> bool:
    """Return whether a tool's result is expected at this node."""
    return node is not None and node.calling


def _has_part(content: Any, kind: str) -> bool:
    """Return whether a message's content has a part of the type `kind`."""
    return isinstance(content, list) and any(text_at(part, "type") == kind for part in content)


def _asked_in(line: dict[str, Any]) -> _Asked | None:
    """Return what the agent answers in a line; None if nothing in the line is to be answered."""
    if line["type"] == "attachment":
        text = typed(_queued_prompt(line), NAME)
        return _Asked(text, beside=True) if text else None
    if line["type"] != "user" or any(line.get(name) is True for name in _INJECTED):
        return None
    message, origin = line.get("message"), line.get("origin")
    content = message.get("content") if isinstance(message, dict) else None
    if _has_part(content, "tool_result") or line.get("toolUseResult") is not None:
        text = clean_text(_dialog_text(line.get("toolUseResult"), content))
        return _Asked(text, beside=True) if text else None
    text = texts_of(content, ("text",))
    if text.startswith(_INTERRUPTED) or line.get("interruptedMessageId"):
        return _Asked(cut=True)
    kind = origin.get("kind") if isinstance(origin, dict) else None
    if line.get("turnOrigin") not in _PEOPLE or kind not in _PEOPLE:
        return _Asked()
    if text.lstrip().startswith(_MARKUP):  # a slash command is what the person wrote if it has arguments
        given = clean_text(between(text, "<command-args>", "</command-args>"))
        text = f"{between(text, '<command-name>', '</command-name>')} {given}".strip() if given else ""
    else:
        text = typed(text, NAME)
    return _Asked(text, prompt=bool(text) or _has_part(content, "image"), beside=line.get("promptSource") == "queued")


def _queued_prompt(line: dict[str, Any]) -> str:
    """Return the text of an attachment if it is a prompt that a person typed while Claude worked; "" otherwise."""
    found = line.get("attachment")
    if not isinstance(found, dict) or found.get("type") != "queued_command":
        return ""
    origin = found.get("origin")
    human = origin.get("kind") == "human" if isinstance(origin, dict) else found.get("humanTurn", True)
    return texts_of(found.get("prompt"), ("text",)) if human and found.get("commandMode", "prompt") == "prompt" else ""


def _dialog_text(result: Any, content: Any) -> str:
    """Return what the person said in a dialog: the answers to questions of the agent, or the reason for which a tool or
    a plan was refused; "" if nothing. `result`, `content`: of the line with the tool's result."""
    if isinstance(result, dict) and isinstance(result.get("answers"), dict):
        return "\n\n".join(
            dialog_answer(question, "\n".join(filter(None, (text, text_at(result, "annotations", question, "notes")))))
            for question, text in result["answers"].items()
            if isinstance(text, str) and text.strip()
        )
    for part in content if isinstance(content, list) else ():
        refused = isinstance(part, dict) and part.get("is_error") is True
        text = texts_of(part.get("content"), ("text",)) if refused else ""
        if text.startswith(_REFUSED):
            return text.partition(_REASON)[2].partition(_AFTER_REASON)[0]
    return ""
