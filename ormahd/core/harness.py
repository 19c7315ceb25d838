"""What a person wrote in a prompt, and what the harness put there: its tags, banners, records of commands, whole prompts.

As seen in the transcripts and sources of Claude Code, Codex CLI and Gemini CLI. Nothing is taken for the harness's that
is merely mentioned: a tag counts with its end, a banner only at the very beginning.
"""

from __future__ import annotations

import json
import re
from enum import StrEnum

from msgspec import Struct

from ormahd.core.injected import strip

READ_HEAD, READ_TAIL = 96_000, 32_000
"""Characters of a longer prompt that are looked at, from its beginning and its end: enough for the largest reminder that
a harness puts before what was typed (a project's instructions), and a pasted file of 10 MB costs no more than that."""
KEPT_HEAD, KEPT_TAIL = 8_000, 4_000
"""Characters that are kept of what the person wrote: a model reads its window's worth of both ends (2,000 characters
each), and what a prompt asks for stands at its beginning or its end."""
GAP = "\n…\n"


class Author(StrEnum):
    PERSON = "person"
    COMMAND = "command"
    """A slash command or a shell line, typed by the person and meant for the harness."""
    MACHINE = "machine"
    """A notification, a hook's, a scheduler's or another agent's text: nobody asked."""


class Prompt(Struct, frozen=True):
    """A prompt, read. `text`: what the person wrote, whoever the author is taken for."""

    text: str
    author: Author


_NOBODY = (
    r"task[-_]notification|subagent_notification|agent-(?:message|notification)|teammate-message|cross-session-message"
    r"|scheduled[-_]task|tick|turn_aborted|codex_internal_context|goal_context|ci-monitor-event|fork-boilerplate"
    r"|hook_prompt|(?:pre|post)-tool-use-hook|new-diagnostics"
)
"""Elements that are a prompt of the harness's own: with one of them at the beginning, nobody asked."""
_TYPED = r"command-(?:name|message|args|contents)|bash-input|user_shell_command|user-memory-input"
"""Records of what the person typed for the harness."""
_AROUND = (
    r"system[-_]reminder|user-prompt-submit-hook|ide_\w+|environment_(?:context|details)|(?:user_)?instructions"
    r"|permissions|collaboration_mode|(?:skills|plugins|apps)_instructions|recommended_plugins|app-context"
    r"|additional[-_]context|(?:session|project|hook|internal_model|persisted)[-_]context|context_(?:summary|window)"
    r"|(?:token|rollout)_budget|local-command-\w+|bash-std(?:out|err)|manually_attached_skills|agent_transcripts"
    r"|open_and_recently_viewed_files|skill"
)
"""What stands around a prompt, or is shown instead of one."""
_TAG = re.compile(rf"<(?P<end>/?)(?P<name>{_NOBODY}|{_TYPED}|{_AROUND})(?![\w-])[^<>\n]{{0,300}}>", re.IGNORECASE)
_NOBODY_FIRST = re.compile(rf"<(?:{_NOBODY})(?![\w-])", re.IGNORECASE)
_TYPED_NAME = re.compile(_TYPED, re.IGNORECASE)
_EVENTS = (
    r"(?:Stop|SubagentStop|PreToolUse|PostToolUse|PostToolUseFailure|UserPromptSubmit|SessionStart|SessionEnd|PreCompact"
    r"|Notification|PermissionRequest|TeammateIdle|TaskCompleted|BeforeAgent|AfterAgent|BeforeTool|AfterTool)"
)
_BANNER = re.compile(
    r"\[Request interrupted by user"
    r"|This session is being continued from a previous conversation"
    rf"|(?:{_EVENTS}(?::[^\s:]{{1,80}})? )?hook (?:feedback|success|error|blocking error|additional context):"
    rf"|{_EVENTS} operation blocked by hook"
    r"|Caveat: The messages below were generated"
    r"|\[(?:SYSTEM NOTIFICATION|ASYNC TASK|Subagent |Background (?:task|agent|command) |Scheduled task)"
    r"|(?:Another Claude session|The coordinator) sent a message[^\n<]{0,40}\n?\s*<"
    r"|Base directory for this skill:"
    r"|The following is the Codex agent history"
    r"|Read HEARTBEAT\.md\b"
    r"|Automation: [^\n]{0,200}\nAutomation ID:"
    r"|<<autonomous-loop"
    r"|System: (?:Please continue|Potential loop)",
    re.IGNORECASE,
)
_HEADINGS = re.compile(r"^# (?:AGENTS|CLAUDE|GEMINI)\.md instructions[^\n]*$", re.MULTILINE | re.IGNORECASE)
_READ_RESULT = re.compile(r"Read the output file to retrieve the result:[^\n]*")
_EDITOR = re.compile(r"# (?:Context from my IDE setup|Files mentioned by the user):")
_REQUEST = "## My request for Codex:"
_REFERENCED = ("--- Content from referenced files ---", "--- End of content ---")
_WRAPPED = re.compile(r"<(channel\s+source=|user[-_]query|user_prompt)[^<>\n]{0,300}>")
_PLACEHOLDERS = re.compile(
    r"\[Image(?: #\d+|: source: [^\]\n]{0,300})\]|\[Pasted text #\d+(?: \+\d+ lines)?\]"
    r"|\[\.\.\.Truncated text #\d+[^\]\n]{0,60}\]|<image name=[^<>\n]{0,300}>|</image>"
)
_ELEMENT = re.compile(r"<([A-Za-z]\w*[-_][\w-]*)(?:\s[^<>]{0,300})?>")
_FENCE = re.compile(r"\A```\w*\n(.*)\n```\Z", re.DOTALL)

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]{0,300}(?:\x07|\x1b\\)|[@-Z\\^_])")
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")

_SLASH = re.compile(r"/(?P<name>[a-z][\w.:-]*)(?=\s|\Z)", re.IGNORECASE)
_DIRECTORIES = frozenset(
    [
        *("applications", "bin", "boot", "dev", "etc", "home", "lib", "lib64", "library", "media", "mnt", "nix", "opt"),
        *("private", "proc", "root", "run", "sbin", "srv", "sys", "system", "tmp", "users", "usr", "var", "volumes"),
    ]
)
"""A prompt that begins with one of these after the slash begins with a path."""
_SHELL = re.compile(r"!\s*[\w./~$({\[-]")
_MEMORY = re.compile(
    r"#\s*(?!(?:define|elif|else|endif|error|if|ifdef|ifndef|include|line|pragma|region|undef)\b)[^\W\d]"
)
"""`# always use uv`: Claude Code's shortcut for its own memory; neither `#123` nor a line of C."""
_SKILL = re.compile(r"\$[a-z][\w:-]*")


def read(prompt: str) -> Prompt:
    """Read a prompt. Never raises, whatever the text; linear in its length, which is bounded first."""
    whole = len(prompt) <= READ_HEAD + READ_TAIL
    text = strip(_plain(prompt if whole else prompt[:READ_HEAD] + GAP + prompt[-READ_TAIL:])).strip()
    if _BANNER.match(text) or _NOBODY_FIRST.match(text):
        return Prompt(_kept(_without_blocks(text)[0]), Author.MACHINE)
    rest, blocks = _without_blocks(text)
    if not rest and blocks:
        typed = any(_TYPED_NAME.fullmatch(name) for name in blocks)
        return Prompt("", Author.COMMAND if typed else Author.MACHINE)
    if _is_data(rest, whole=whole):
        return Prompt(_kept(rest), Author.MACHINE)
    return Prompt(_kept(rest), Author.COMMAND if _is_command(rest) else Author.PERSON)


def _plain(text: str) -> str:
    """Without escape sequences, control characters and halves of characters."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    return _CONTROLS.sub(" ", text.replace("\r\n", "\n").replace("\r", "\n")).strip()


def _without_blocks(text: str) -> tuple[str, tuple[str, ...]]:
    """The text without what the harness put in, and the names of the elements that were taken out."""
    names: list[str] = []
    if "<" in text:
        text, names = _without_elements(text)
        if any(name.endswith("instructions") for name in names):
            text = _HEADINGS.sub("", text)
        if names:
            text = _READ_RESULT.sub("", text)
        wrapped = _WRAPPED.match(text.strip())
        if wrapped and text.strip().endswith(f"</{wrapped[1].split()[0]}>"):
            text = text.strip()[wrapped.end() :].rpartition("</")[0]
    if _EDITOR.match(text) and _REQUEST in text:
        text = text.partition(_REQUEST)[2]
    first, end = _REFERENCED
    if first in text:
        before, _, after = text.partition(first)
        text = before + after.partition(end)[2]
    return _PLACEHOLDERS.sub(" ", text).strip(), tuple(names)


def _without_elements(text: str) -> tuple[str, list[str]]:
    """One walk over the tags: an element reaches from its tag to the first end of the same name; without an end it is
    only mentioned."""
    tags = list(_TAG.finditer(text))
    last_end = {tag["name"].lower(): tag.start() for tag in tags if tag["end"]}
    parts: list[str] = []
    names: list[str] = []
    inside: str | None = None
    end = 0
    for tag in tags:
        name = tag["name"].lower()
        if inside is None and not tag["end"] and last_end.get(name, -1) > tag.start():
            parts.append(text[end : tag.start()])
            names.append(name)
            inside = name
        elif tag["end"] and inside == name:
            inside = None
            end = tag.end()
    return " ".join([*parts, text[end:]]).strip() if parts else text, names


def _is_data(text: str, *, whole: bool) -> bool:
    """True for a body that a program wrote: JSON, or one element with a name of two words, and nothing else."""
    fenced = _FENCE.match(text)
    if fenced:
        text = fenced[1].strip()
    if text[:1] in {"{", "["} and text[-1:] in {"}", "]"}:
        if not whole:
            return text.startswith(('{"', "[{", '["'))
        try:
            return isinstance(json.loads(text), dict | list)
        except (ValueError, RecursionError):
            return False
    element = _ELEMENT.match(text)
    return element is not None and text.endswith(f"</{element[1]}>")


def _is_command(text: str) -> bool:
    slash = _SLASH.match(text)
    if slash:
        return slash["name"].lower() not in _DIRECTORIES
    if "\n" not in text and not text.endswith(("?", "？")):
        return bool(_SHELL.match(text) or _MEMORY.match(text) or _SKILL.fullmatch(text))
    return bool(_SHELL.match(text)) and "\n" not in text


def _kept(text: str) -> str:
    return text if len(text) <= KEPT_HEAD + len(GAP) + KEPT_TAIL else text[:KEPT_HEAD] + GAP + text[-KEPT_TAIL:]
