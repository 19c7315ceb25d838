"""Answer the hooks of harnesses: decode an `h` frame, run the action of its event, and build the output of the hook.

The body is harness, event, directory and `ORMAH_SPACE`, each ended by a NUL, then the JSON that the harness wrote
(DESIGN section 7; the events of each harness: REFERENCE part G). The directory is the hook's working directory, or
`project=` and the folder in which the session began, if the harness gives it.

Harnesses cut strings in the middle of a character, write NaN or begin with a byte order mark, so their JSON is read
leniently. Only the prompt must have the right type; any other field of a wrong type counts as missing.

The output is JSON or nothing. Claude Code, Codex and Gemini CLI accept the same: `hookSpecificOutput` with the event's
name and `additionalContext`, and beside it `systemMessage` with the receipt, a line that the person sees; Codex rejects
any further key. Without output each harness continues as usual. Hooks fail open: a frame that cannot be decoded gets an
empty reply and one log line at debug level.
"""

from __future__ import annotations

import json
import logging
import re
import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ormahd.actions.amend import clean_name
from ormahd.actions.lookup import is_by_a_person
from ormahd.actions.projects import home_of
from ormahd.actions.where import as_lines, last_work
from ormahd.api import CHECK_SESSION
from ormahd.errors import BadRequest, OrmahError
from ormahd.index.rows import NodeRow
from ormahd.ingest.capture import Capture
from ormahd.ingest.readers.gemini import last_compression
from ormahd.judge.own_sessions import is_own_session
from ormahd.model.node import NoteGuard
from ormahd.process import own_files
from ormahd.rpc import failures
from ormahd.rpc.connection import Channel, log_request
from ormahd.state import whispers
from ormahd.state.sessions import begin, is_excluded, key_of, was_told
from ormahd.text.harness import Commands
from ormahd.text.quoting import one_line
from ormahd.vault.spaces import project_folder
from ormahd.whisper import at_hand
from ormahd.whisper.analyse import early_silence
from ormahd.whisper.greet import Greeting, greet
from ormahd.whisper.pipeline import UNCOUNTED, Whisper
from ormahd.whisper.render import MARK, notice
from ormahd.whisper.review import is_used
from ormahd.whisper.types import Asked, Display


class HookAct(Enum):
    """What an event of a harness means for Ormah."""

    PROMPT = "prompt"
    """A prompt was submitted, and the agent has not answered yet."""
    START = "start"
    """A session started, was resumed, or continues with an emptied context."""
    TOOL = "tool"
    """The agent is about to use a tool."""
    FAILED = "failed"
    """The agent has used a tool; it may have failed."""
    TRANSCRIPT = "transcript"
    """The transcript has grown, and may be ingested."""
    STATUS = "status"
    """A line for the person is asked for: what the session was told."""


GEMINI: Final = "gemini"
_OF_ALL: Final = {"SessionStart": HookAct.START, "SessionEnd": HookAct.TRANSCRIPT}
_CLAUDE: Final = {
    **_OF_ALL,
    "UserPromptSubmit": HookAct.PROMPT,
    "Stop": HookAct.TRANSCRIPT,
}
HARNESSES: Final[Mapping[str, Mapping[str, HookAct]]] = {
    "claude-code": {
        **_CLAUDE,
        "PreToolUse": HookAct.TOOL,
        "PostToolUseFailure": HookAct.FAILED,
        "StatusLine": HookAct.STATUS,
    },
    "codex": {**_CLAUDE, "PreToolUse": HookAct.TOOL, "PostToolUse": HookAct.FAILED},
    # Its PreCompress comes before every request of the model, whether anything is compressed or not
    GEMINI: {
        **_OF_ALL,
        "BeforeAgent": HookAct.PROMPT,
        "AfterAgent": HookAct.TRANSCRIPT,
        "BeforeTool": HookAct.TOOL,
        "AfterTool": HookAct.FAILED,
    },
}
"""{harness: {event: its meaning}}. Claude Code and Codex use the same names of events, Gemini CLI has its own."""

NAME_CHARACTERS: Final = 1_000
"""Maximum length of a session's id or a space. A longer id is ignored, a longer space is cut."""
PATH_CHARACTERS: Final = 4_096
GUARDS: Final = 500
"""Number of notes of which it is remembered whether a person wrote their guard."""
COMMAND_CHARACTERS: Final = 100_000
MAX_FILES: Final = 50
"""Maximum number of files of one patch that are looked at."""
_PATCH: Final = "*** Begin Patch"
_PATCHED: Final = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (\S.*?)\s*$", re.MULTILINE)


class Event(Struct, frozen=True):
    """One event of a session, as a harness's hook sent it. A field that the harness did not send is None or empty."""

    harness: str
    name: str
    act: HookAct
    prompt: str = ""
    session_id: str | None = None
    cwds: tuple[str, ...] = ()
    """The session's working directory as the harness says, then that of the hook's process; either may be missing."""
    project: str | None = None
    """The folder in which the session began, if the harness gives it."""
    space: str | None = None
    """The value of the environment variable `ORMAH_SPACE`."""
    transcript: str | None = None
    source: str | None = None
    """The cause of a START event: startup, resume, clear or compact."""
    ending: str = ""
    """The agent's last answer, if the harness gives it: the transcript may not have it yet."""
    files: tuple[str, ...] = ()
    """The files that the tool is about to edit."""
    command: str | None = None
    """The shell command that the tool is about to run."""
    printed: str = ""
    """What the tool printed, if it was a command that failed."""
    of_sub_agent: bool = False
    """Whether the event comes from a sub-agent, whose prompt was written by another agent."""
    channel: Channel | None = None
    """The connection of the hook's process; None: the event was stored while no daemon ran."""

    def disconnected(self) -> bool:
        """Return whether the hook's process has ended meanwhile. Then the memories of the reply are not recorded as
        shown."""
        return self.channel is not None and self.channel.disconnected()


_PROJECT: Final = "project="


def read(body: bytes) -> Event:
    """Decode the body of a hook's frame.

    Raises:
        BadRequest: the body has another form, the harness or event is unknown, or the JSON is invalid. The message quotes no
            text of the JSON.
    """
    parts = body.split(b"\0", 4)
    if len(parts) != 5:
        raise BadRequest("a hook's frame has harness, event, directory and space, each before a NUL")
    harness, name, cwd, space = (_decoded(part) for part in parts[:4])
    act = HARNESSES.get(harness, {}).get(name)
    if act is None:
        raise BadRequest(f"no harness {harness[:40]!r} with an event {name[:40]!r}")
    try:
        fields = json.loads(parts[4].decode("utf-8-sig", "replace"), strict=False)
    except (ValueError, RecursionError) as exc:
        why = exc.msg if isinstance(exc, json.JSONDecodeError) else type(exc).__name__
        raise BadRequest(f"what {harness} says of {name} cannot be read: {why}") from None
    if not isinstance(fields, dict):
        raise BadRequest(f"what {harness} says of {name} is no JSON object")

    # The fields, each checked, because another program wrote them
    prompt, tool = fields.get("prompt"), fields.get("tool_input")
    ending = fields.get("last_assistant_message", fields.get("prompt_response"))  # the latter: Gemini CLI
    if act is HookAct.PROMPT and not isinstance(prompt, str):
        raise BadRequest(f"{harness} says no prompt with {name}")
    tool = tool if isinstance(tool, dict) else {}
    command = _text(tool.get("command"), COMMAND_CHARACTERS) or ""
    patched = _PATCHED.findall(command) if _PATCH in command else []  # Codex sends patches as commands, or in them
    file = _text(tool.get("file_path", tool.get("notebook_path")), PATH_CHARACTERS)
    project = cwd.removeprefix(_PROJECT) if cwd.startswith(_PROJECT) else ""
    return Event(
        harness=harness,
        name=name,
        act=act,
        prompt=_without_surrogates(prompt) if isinstance(prompt, str) else "",
        session_id=_text(fields.get("session_id"), NAME_CHARACTERS),
        cwds=tuple(filter(None, (_text(fields.get("cwd"), PATH_CHARACTERS), "" if project else cwd))),
        project=_text(project, PATH_CHARACTERS),
        space=" ".join(space.split())[:NAME_CHARACTERS] or None,
        transcript=_text(fields.get("transcript_path"), PATH_CHARACTERS),
        source=_text(fields.get("source"), NAME_CHARACTERS),
        ending=_without_surrogates(ending) if isinstance(ending, str) else "",
        files=(file,) if file else tuple(patched[:MAX_FILES]),
        command=None if command.startswith(_PATCH) else command or None,
        printed=_without_surrogates(failures.printed(fields)) if act is HookAct.FAILED else "",
        of_sub_agent=bool(fields.get("agent_id")),
    )


def _decoded(part: bytes) -> str:
    """Return the text of UTF-8 bytes; "" if they are invalid, because such a name or path cannot be stored."""
    try:
        return part.decode()
    except UnicodeDecodeError:
        return ""


def _text(value: Any, longest: int) -> str | None:
    """Return a field's text with lone surrogates replaced. None if it is no text, blank, too long, or contains NUL."""
    if not isinstance(value, str) or not value.strip() or len(value) > longest or "\0" in value:
        return None
    return _without_surrogates(value)


def _without_surrogates(text: str) -> str:
    """Return `text` with "?" in place of surrogates, which cannot be encoded in UTF-8."""
    return text.encode("utf-8", "replace").decode()


NAMED: Final = 3
TITLE: Final = 60
"""A receipt names at most `NAMED` memories, each by at most `TITLE` characters of its title."""
MAX_BYTES: Final = 9_600
"""Maximum size of the injected text, in bytes of UTF-8.

Claude Code cuts at 10,000 characters, Codex at 2,500 tokens, which it estimates as 10,000 bytes.
"""


def context(event: str, text: str, receipt: str = "") -> bytes:
    """Return the hook output that adds `text` to the agent's context; b"" if `text` is empty. `receipt`: a line that the
    harness shows to the person; "" for none."""
    if not text:
        return b""
    output: dict[str, Any] = {"hookSpecificOutput": {"hookEventName": event, "additionalContext": fitting(text)}}
    if receipt:
        output["systemMessage"] = receipt
    return json.dumps(output, ensure_ascii=False, separators=(",", ":")).encode()


def receipt_of(number: int, titles: Sequence[str | None]) -> str:
    """Return the line for the person that says how many memories the agent got (`number`) and names the first of
    `titles`; "" if there are none."""
    named = [one_line(title or "untitled", TITLE) for title in titles[:NAMED]] + ["…"] * (len(titles) > NAMED)
    what = f"{number} {'memory' if number == 1 else 'memories'} told"
    return f"Ormah: {what} ({'; '.join(named)})" if named else f"Ormah: {what}" if number else ""


def guarded(event: Event, row: NodeRow, text: str) -> bytes:
    """Return the hook output with which the harness refuses the tool, or asks the person. It quotes the guard's memory
    `row`. b"" if the harness cannot ask.

    `text`: also added to the agent's context.
    """
    guard, why = row.guard, fitting(at_hand.guard_reason(row))
    if event.harness == GEMINI:
        output: dict[str, Any] = {"decision": guard, "reason": why, "systemMessage": why}
    elif event.harness == "codex" and guard is not NoteGuard.DENY:
        return b""
    else:
        answer = {"hookEventName": event.name, "permissionDecision": guard, "permissionDecisionReason": why}
        output = {"hookSpecificOutput": {**answer, **({"additionalContext": fitting(text)} if text else {})}}
    return json.dumps(output, ensure_ascii=False, separators=(",", ":")).encode()


def fitting(text: str) -> str:
    """Return the first lines of `text` that fit into MAX_BYTES. If the last line is Ormah's end mark, it is kept."""
    text = text.encode("utf-8", "replace").decode()
    if len(text.encode()) <= MAX_BYTES:
        return text
    body, _, last = text.rpartition("\n")
    if not last.startswith(MARK):
        body, last = text, ""
    room = MAX_BYTES - len(last.encode()) - 1
    return body.encode()[:room].decode("utf-8", "ignore").rpartition("\n")[0] + "\n" + last


def joined(text: str, line: str) -> str:
    """Return `text` with `line` added, before Ormah's end mark if the text has one. If `text` is empty, return the line
    and an end mark."""
    if not text:
        return f"{line}\n{MARK} -->"
    body, _, last = text.rpartition("\n")
    return f"{body}\n{line}\n{last}" if last.startswith(MARK) else f"{text}\n{line}"


log = logging.getLogger("ormahd.hooks")

RENEWED: Final = frozenset({"startup", "clear"})
"""Sources of a START event after which the context is empty, even if the session's id is known."""
LOST: Final = "compact"
STARTED: Final = "startup"
"""The source of a START event for a new session; its folder is the one where the session began."""
RESUMED: Final = "resume"
STOPPED: Final = "stopped"
"""Mark of a session that was told where the project's last session stopped."""


def nudge(commands: Commands) -> str:
    """Return the reminder to store memories, shown every `nudge_interval` prompts.

    It states facts, because harnesses treat commands in injected text as an attack (REFERENCE G).
    """
    return notice(
        "what this session has brought to light and a later one will want to know (decisions and why, corrections, preferences, "
        f"what took long to find out) is kept by {commands.remember}. {commands.feedback} records that a whispered memory "
        "helped, -1 in place of +1 that it did not; E stands in the last line of its whisper."
    )


class Hooks:
    """Answers the hooks of harnesses: whispers memories (from one `Whisper`), and passes transcripts to ingestion.
    Thread-safe.

    `capture` gets the transcripts that have grown; None: they are not read.
    """

    def __init__(self, whisper: Whisper, capture: Capture | None = None) -> None:
        self._whisper = whisper
        self._ormah = whisper.ormah
        self._settings = whisper.settings
        self._capture = capture
        self._acts = at_hand.ActTable(whisper.ormah.index)
        self._guarded: dict[tuple[str, str], bool] = {}

    def answer(self, body: bytes, channel: Channel | None = None) -> bytes:
        """Return the bytes that the hook's process prints; b"" for nothing. `channel`: see `Event`."""
        begun = time.perf_counter()
        try:
            event = replace(read(body), channel=channel)
        except BadRequest as exc:
            log.debug("a hook was left without an answer: %s", exc.message)
            return b""
        output, outcome = b"", "sub_agent"
        if event.session_id == CHECK_SESSION:
            output, outcome = context(event.name, "Ormah hears this agent."), "check"
        elif is_own_session(transcript=event.transcript, text=event.prompt) or any(
            is_own_session(cwd=place) for place in (*event.cwds, *([event.project] if event.project else []))
        ):
            outcome = "judge"  # the session is one that Ormah runs as its judge
        # an agent writes the prompts of a sub-agent, and it shares the session id of its parent; guards hold for it too
        elif not event.of_sub_agent or event.act is HookAct.TOOL:
            output, outcome = self._handle(event)
        log_request(event.harness, f"hook {event.name}", (time.perf_counter() - begun) * 1000, outcome)
        return output

    def answer_spooled(self, folder: Path) -> None:
        """Answer the events that hooks stored in `folder` while no daemon ran. The file of each is removed once its
        transcript was read."""
        for file in sorted(folder.iterdir()) if folder.is_dir() else ():
            try:
                if not file.name.endswith(".part"):
                    self.answer(own_files.read(file))
                    if self._capture is not None:
                        self._capture.read_queued()
                own_files.remove(file)
            except OSError as error:
                log.warning("an event that a hook left could not be read: %s", error)

    def _handle(self, event: Event) -> tuple[bytes, str]:
        """Handle an event. Return the bytes to print, and the outcome in one word for the log."""
        if event.act in {HookAct.PROMPT, HookAct.START}:
            answer = self._on_prompt(event) if event.act is HookAct.PROMPT else self._on_start(event)
            threading.Thread(target=self._read_ahead, args=(self._space(event),), name="acts", daemon=True).start()
            return answer
        if event.act is HookAct.TOOL:
            return self._on_tool(event)
        if event.act is HookAct.FAILED:
            return self._on_failure(event)
        if event.act is HookAct.STATUS:
            return self._status(event).encode(), "ok"
        self._pass_transcript(event)
        self._record_used(event)
        return b"", "ok"

    def _on_prompt(self, event: Event) -> tuple[bytes, str]:
        """Answer an event with a prompt: whisper memories. Return the output, and the outcome for the log."""
        greeting: str = ""
        greeted: Mapping[str, Display] = {}
        # in Gemini CLI the output of SessionStart is lost by /clear and by resuming, so the greeting goes with a prompt
        if event.harness == GEMINI and event.session_id is not None and early_silence(event.prompt) not in UNCOUNTED:
            mark = f"greeting {last_compression(event.transcript)}"
            if mark not in self._whisper.sessions.before(event.session_id).named:
                self._whisper.sessions.compacted(event.session_id)
                greeting, greeted = self._greeting(event, {mark: "title"})

        # The whisper
        space, session, agent = self._space(event), key_of(event.session_id), f"agent:{event.harness}"
        asked = Asked(
            event.prompt,
            space,
            session,
            agent,
            event.disconnected,
            unkept=self._is_unkept(event),
            cwd=self._place(event),
        )
        found = self._whisper.whisper(asked)

        # Every few prompts a reminder follows
        text = found.text
        if found.silence not in UNCOUNTED and event.session_id is not None:
            prompts, interval = self._whisper.sessions.before(event.session_id).prompts, self._settings.nudge_interval
            if interval > 0 and prompts > 0 and prompts % interval == 0:
                text = joined(text, nudge(self._whisper.wiring.of(event.harness)))
            self._pass_transcript(event)

        # The greeting and the whisper together; the receipt counts the memories of both
        memories = [*found.nodes, *([found.exploring] if found.exploring else [])]
        count, titles = len(greeted) + len(memories), [memory.title for memory in memories]
        both = "\n\n".join(filter(None, (greeting, text)))
        return context(event.name, both, self._receipt(count, titles)), found.silence or "injected"

    def _on_start(self, event: Event) -> tuple[bytes, str]:
        """Answer the start of a session: list the memories of its project. Return the output, and the outcome for the
        log."""
        sessions, session_id = self._whisper.sessions, event.session_id
        if event.source in RENEWED:
            sessions.ended(session_id)
        if event.source in RENEWED or event.source == LOST:
            sessions.compacted(session_id)
        self._record_start(event)
        if event.harness == GEMINI:
            return b"", "with_a_prompt"
        text, listed = self._greeting(event, {})
        return context(event.name, text, self._receipt(len(listed), ())), "injected" if text else "known"

    def _last_work_lines(self, event: Event) -> list[str]:
        """Return lines about where work stopped in the project's last session: once a day, and for this session itself
        after a compaction."""
        place = self._place(event)
        folder, key = project_folder(place), key_of(event.session_id)
        if folder is None or key is None or event.source == RESUMED:
            return []
        today = self._ormah.clock().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
        try:
            if event.source == LOST:
                return as_lines(last_work(self._ormah, place, of=key))
            if not was_told(self._ormah.state, STOPPED, str(folder), today):
                return as_lines(last_work(self._ormah, place, but=key))
        except (OrmahError, sqlite3.Error) as exc:  # the memories of the greeting must come all the same
            log.warning("where the last session stopped is not told: %s", exc)
        return []

    def _receipt(self, number: int, titles: Sequence[str | None]) -> str:
        """Return the line that tells the person how many memories the agent got; empty if the setting is off."""
        return receipt_of(number, titles) if self._settings.receipt else ""

    def _status(self, event: Event) -> str:
        """Return a line about what the session was shown, for a harness's status line."""
        before = self._whisper.sessions.before(event.session_id)
        number = sum(":" in key for key in before.known | before.named)  # the others are no memories
        last = whispers.last_of_session(self._ormah.state, key_of(event.session_id) or "")
        memories = whispers.shown_memories(self._ormah.state, [last.event]).get(last.event, ()) if last else ()
        rows = self._ormah.index.notes([memory.node_id for memory in memories])
        return receipt_of(number, [row.title for row in rows.values()]) or "Ormah: nothing told yet"

    def _greeting(self, event: Event, also: Mapping[str, Display]) -> tuple[str, Mapping[str, Display]]:
        """Return (the greeting, what it shows), without memories that the session's context contains. Record what it
        shows, and `also`. Both are empty if whispers are off."""
        sessions, session_id = self._whisper.sessions, event.session_id
        space = self._space(event)
        if self._is_silent(space):
            return "", {}
        stopped = self._last_work_lines(event)
        before = sessions.before(session_id)
        greeting = greet(
            self._ormah,
            space=space,
            known=before.known | before.named,
            commands=self._whisper.wiring.of(event.harness),
            stopped=stopped,
            cwd=self._place(event),
        )
        if not event.disconnected():
            marks: dict[str, Display] = {STOPPED: "title"} if stopped else {}
            sessions.add_memories(session_id, {**greeting.displays, **also, **marks})
        return greeting.text, greeting.displays

    def _on_tool(self, event: Event) -> tuple[bytes, str]:
        """Answer an event before a tool: show memories about its file or command. Return the output, and the outcome in
        one word.

        An event without a session id gets no memories, because each memory is shown only once in a session. A guard
        applies each time. Gemini CLI passes no text on before a tool.
        """
        begun = time.perf_counter()
        act = at_hand.action(event.command, event.files)
        if not (act and self._settings.tools):
            return b"", "nothing_named" if self._settings.tools else "off"
        space = self._space(event)
        matches = self._acts.matches(act, space)
        if not matches:
            return b"", "nothing_known"

        # Memories that the session has not been shown, and the first guard that a person set
        silent = self._is_silent(space) or event.session_id is None or event.of_sub_agent
        before = self._whisper.sessions.before(event.session_id)
        found = at_hand.compose(
            self._ormah,
            matches,
            known=before.known | before.named,
            commands=self._whisper.wiring.of(event.harness),
            space=space,
            cwd=self._place(event),
        )
        guard = next((row for row in found.guards if self._is_by_a_person(row)), None)
        refused = guard is not None and guard.guard is NoteGuard.DENY  # the reason tells it
        greeting = Greeting() if silent or refused or event.harness == GEMINI else found.greeting
        if greeting.displays and not event.disconnected():
            self._whisper.sessions.add_memories(event.session_id, greeting.displays)
        output = guarded(event, guard, greeting.text) if guard is not None else b""

        # The memories are logged as a whisper for what the agent was about to do
        ids = [
            *([guard.id] if guard is not None and output else []),
            *(key.partition(":")[0] for key in greeting.displays),
        ]
        if ids and not event.disconnected():
            action = f"before: {event.command or ', '.join(event.files)}"
            whispers.record(
                self._ormah.state,
                prompt="" if self._is_unkept(event) else action,
                outcome=whispers.SPOKEN,
                milliseconds=(time.perf_counter() - begun) * 1000,
                vector=None,
                model=None,
                candidates=[whispers.Considered(node_id, 1.0, 1.0, "full") for node_id in dict.fromkeys(ids)],
                space=space,
                session_id=key_of(event.session_id),
                agent=f"agent:{event.harness}",
            )
        if guard is not None and output:
            return output, f"guard_{guard.acts.guard}"
        receipt = self._receipt(len(greeting.displays), ())
        return context(event.name, greeting.text, receipt), "injected" if greeting.text else "nothing_new"

    def _read_ahead(self, space: str | None) -> None:
        """Read what memories say of tools into caches, because the hook before a tool has little time."""
        try:
            self._acts.of(None)
            self._acts.of(space)
            for row in self._ormah.index.notes(self._ormah.index.ids_with_act("guard")).values():
                self._is_by_a_person(row)
        except (OrmahError, sqlite3.Error) as exc:  # the hook of a tool reads it then
            log.debug("what memories say of actions was not read ahead: %s", exc)

    def _is_by_a_person(self, row: NodeRow) -> bool:
        """Return `is_by_a_person`, cached for each version of a note."""
        key = (row.id, row.digest)
        if key not in self._guarded:
            # another dict, because other threads may read the present one; only the last GUARDS entries are kept
            self._guarded = {**dict(list(self._guarded.items())[-GUARDS:]), key: is_by_a_person(self._ormah, row)}
        return self._guarded[key]

    def _on_failure(self, event: Event) -> tuple[bytes, str]:
        """Answer an event after a failed command: say what fixed its error before, once in a session. Return the
        output, and the outcome in one word."""
        if not event.printed or event.session_id is None or not self._settings.tools:
            return b"", "worked" if not event.printed else "off"
        space = self._space(event)
        if self._is_silent(space):
            return b"", "off"
        before = self._whisper.sessions.before(event.session_id)
        text, marks = failures.known_fix(
            self._ormah,
            event.printed,
            space=space,
            session=key_of(event.session_id),
            known=before.known | before.named,
        )
        if marks and not event.disconnected():
            self._whisper.sessions.add_memories(event.session_id, marks)
        return context(event.name, text), "injected" if text else "nothing_known"

    def _record_used(self, event: Event) -> None:
        """Record which of the memories shown for the session's last prompt the agent's reply uses. They count as used."""
        logged = whispers.last_of_session(self._ormah.state, key_of(event.session_id) or "") if event.ending else None
        if logged is None:
            return
        memories = whispers.shown_memories(self._ormah.state, [logged.event]).get(logged.event, ())
        rows = self._ormah.index.notes([memory.node_id for memory in memories if not memory.heeded])
        used = [
            row.id for row in rows.values() if is_used(f"{row.title or ''}\n{row.content}", logged.prompt, event.ending)
        ]
        whispers.mark_heeded(self._ormah.state, logged.event, used)
        counted = [node_id for node_id in used if whispers.claim_use(self._ormah.state, logged.event, node_id)]
        self._ormah.state.touch(counted, how="feedback", session_id=logged.session_id, at=self._ormah.ranking_clock())

    def _is_silent(self, space: str | None) -> bool:
        """Return whether whispers are off, altogether or in this space."""
        settings = self._settings
        return not settings.enabled or ("global" if space is None else space) in settings.silent_spaces

    def _place(self, event: Event) -> str | None:
        """Return the folder in which the event's session began."""
        return event.project or self._record_start(event)

    def _pass_transcript(self, event: Event) -> None:
        """Pass the event's transcript to ingestion."""
        if self._capture is not None:
            self._capture.report(event.transcript, event.ending, event.act is HookAct.PROMPT)

    def _space(self, event: Event) -> str | None:
        """Return the space from `ORMAH_SPACE`, else that of the project in which the session began; None: global.

        The agent's present directory does not matter once the session's first one is known.
        """
        began = self._record_start(event)
        if event.space is not None:
            return None if event.space.casefold() == "global" else clean_name(self._ormah, event.space, [])
        found = home_of(self._ormah, event.project or began)
        return None if found is None else found.space

    def _record_start(self, event: Event) -> str | None:
        """Return the folder in which the session began. If the state does not have it yet, record the event's folder as
        it."""
        place = event.project or next(iter(event.cwds), None)
        session = key_of(event.session_id)
        if place is None or session is None:
            return place
        anew = event.act is HookAct.START and event.source == STARTED
        return begin(self._ormah.state, session, place, self._ormah.clock(), anew=anew)

    def _is_unkept(self, event: Event) -> bool:
        """Return whether the session began in a folder of `sessions.exclude`, or now works in one."""
        excluded = self._ormah.settings.sessions.exclude
        if not excluded:
            return False
        places = {*event.cwds, event.project, self._record_start(event)} - {None}
        return any(is_excluded(place, excluded) for place in places if place is not None)
