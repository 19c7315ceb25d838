"""Makes transcripts of every format by chance, each with the turns that an archive must have of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from tests.unit.ingest.reading import chat, letter, node

Expected = list[tuple[str, str, bool]]
"""The turns in order: (role, text, whether the person took it back)."""
IMAGE = {"type": "image", "source": {"type": "base64", "data": "iVBORw0KGgo="}}


class Talk:
    """What all formats share: a clock, a counter, and the expected turns."""

    def __init__(self, seed: int, session: str) -> None:
        self.chance, self.session = Random(seed), session
        self.n = 0
        self.lines: list[bytes] = []
        self.expected: list[list[Any]] = []
        self.asked = -1

    def at(self) -> str:
        self.n += 1
        moment = datetime(2026, 11, 2, 9, tzinfo=UTC) + timedelta(seconds=self.n)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def put(self, line: dict[str, Any]) -> None:
        self.lines.append(json.dumps(line).encode() + b"\n")

    def user(self, text: str) -> str:
        self.asked = len(self.expected)
        self.expected.append(["user", text, False, None])
        return text

    def agent(self, text: str, to: int | None = None) -> str:
        self.expected[self.asked if to is None else to][3] = text
        return text

    def words(self, what: str) -> str:
        return f"{what} {self.n} of {self.session}: {self.chance.choice(('why so?', 'in cents', 'größer als', 'one line' + chr(10) + 'and two'))}"

    @property
    def turns(self) -> Expected:
        found: Expected = []
        for role, text, back, answer in self.expected:
            found.append((role, text, back))
            if answer is not None:
                found.append(("assistant", answer, back))
        return found

    def play(self, steps: list[str]) -> Talk:
        for step in steps:
            getattr(self, f"do_{step}")()
        return self


class Claude(Talk):
    last: str | None = None
    starts: list[tuple[str | None, int]]

    def __init__(self, seed: int, session: str) -> None:
        super().__init__(seed, session)
        self.starts = []
        self.row("attachment", attachment={"type": "hook_additional_context", "content": ["x"]})

    def row(self, kind: str, parent: str | None = "", **more: Any) -> str:
        at = self.at()
        uuid = f"{self.session}-{self.n}"
        self.put({"parentUuid": self.last if parent == "" else parent, "isSidechain": False, "type": kind, "uuid": uuid,
                  "sessionId": self.session, "timestamp": at, "cwd": "/src/shop", "entrypoint": self.chance.choice(["cli", "sdk-ts"]), **more})  # fmt: skip
        self.last = uuid
        return uuid

    def says(self, content: Any, parent: str | None = "", **more: Any) -> str:
        return self.row("user", parent, message={"role": "user", "content": content}, **more)

    def block(self, stop: str | None, *blocks: dict[str, Any], number: str = "", **more: Any) -> str:
        return self.row("assistant", message={"id": number or f"m{self.n}", "role": "assistant", "stop_reason": stop, "content": list(blocks)}, **more)  # fmt: skip

    def call(self, name: str = "Bash") -> str:
        return self.block("tool_use", *([{"type": "text", "text": self.agent(self.words("Looking"))}] if self.asked >= 0 else []),
                          {"type": "tool_use", "id": f"t{self.n}", "name": name, "input": {}})  # fmt: skip

    def result(self, text: str = "out", parent: str | None = "", **more: Any) -> str:
        error = {"is_error": True} if "error" in more else {}
        more.pop("error", None)
        return self.says(
            [{"type": "tool_result", "tool_use_id": "t", "content": text, **error}],
            parent,
            **{"toolUseResult": text, **more},
        )

    def end(self, text: str) -> None:
        number = f"m{self.n}"
        parts = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text}]
        if self.chance.random() < 0.5:
            for part in parts:
                self.block("end_turn", part, number=number)
        else:
            self.block("end_turn", *parts)
        if self.chance.random() < 0.7:
            self.row("attachment", attachment={"type": "prompt_snapshot"})
            self.row("system", subtype="turn_duration")
        self.put({"type": "last-prompt", "sessionId": self.session})

    def answers(self) -> None:
        self.end(self.agent(self.words("Answer")))

    def do_ask(self) -> None:
        self.starts.append((self.last, len(self.expected)))
        self.says(self.user(self.words("Question")), turnOrigin="human", promptSource="typed")
        if self.chance.random() < 0.4:
            self.call()
            self.result()
        self.answers()

    def do_retry(self) -> None:
        prompt = self.says(self.user(self.words("Retried")))
        self.row("attachment", attachment={"type": "queued_command", "commandMode": "prompt", "prompt": self.user(self.words("Also")), "origin": {"kind": "human"}})  # fmt: skip
        self.answers()
        self.row("system", prompt, subtype="api_error", level="error")
        self.row("system", subtype="stop_hook_summary")

    def silent(self, content: Any, **more: Any) -> None:
        self.says(content, **more)
        self.end(self.words("To nobody"))

    def do_command(self) -> None:
        self.silent("<command-message>commit</command-message>\n<command-name>/commit</command-name>")

    def do_notice(self) -> None:
        self.silent("<task-notification><task-id>b7</task-id></task-notification>", turnOrigin="task_notification")

    def do_picture(self) -> None:
        self.silent([IMAGE])

    def do_shell(self) -> None:
        self.says("<bash-input>ls</bash-input>")
        self.silent("<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>", turnOrigin="human")

    def do_skill(self) -> None:
        text = self.words("the ports")
        self.says(
            f"<command-message>plan</command-message>\n<command-name>/plan</command-name>\n<command-args>{text}</command-args>"
        )
        self.user(f"/plan {text}")
        self.says("the skill's body", isMeta=True)
        self.answers()

    def do_aside(self) -> None:
        before = self.last
        self.row("user", before, isSidechain=True, message={"role": "user", "content": "of a sub-agent"})
        self.last = before

    def do_dialog(self) -> None:
        self.says(self.user(self.words("Ask me")))
        self.call("AskUserQuestion")
        text = self.words("yarn")
        self.user(f"> asked: Which one?\n{text}")
        self.result(f'The user answered: "Which one?"="{text}"', toolUseResult={"answers": {"Which one?": text}})
        self.answers()

    def do_refusal(self) -> None:
        self.says(self.user(self.words("Install it")))
        self.call()
        why = self.user(self.words("no, never"))
        text = f"The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\n{why}"
        self.result(text, error=True, toolUseResult=f"Error: {text}")
        self.answers()

    def do_interrupted(self) -> None:
        self.says(self.user(self.words("Run it")))
        called = self.call()
        self.row("system", called, subtype="informational")
        self.says(self.user(self.words("thanks, go on")), turnOrigin="human", promptSource="queued")
        text = "The user doesn't want to proceed with this tool use. The tool use was rejected."
        self.result(text, called, error=True, toolUseResult=f"Error: {text}")
        self.says("[Request interrupted by user for tool use]")
        self.answers()

    def do_compact(self) -> None:
        self.boundary(self.last)

    def do_up_to_here(self) -> None:
        self.boundary(self.starts[-1][0] if self.starts else self.last)

    def boundary(self, before: str | None) -> None:
        self.row("system", None, subtype="compact_boundary", logicalParentUuid=before)
        self.says("This session is being continued from a previous conversation", isCompactSummary=True)
        self.starts.clear()

    def do_windows(self) -> None:
        """Two windows of one session, each with a prompt of its own below the same line."""
        before = self.last
        tails, at = [], []
        for name in ("One", "Two"):
            tails.append(self.says(self.user(self.words(name)), before))
            at.append(self.asked)
        for name, tail, to in zip(("One", "Two"), tails, at, strict=True):
            self.last = tail
            self.end(self.agent(self.words(f"To {name}"), to))

    def do_rewind(self) -> None:
        if self.starts:
            self.last, place = self.starts[self.chance.randrange(len(self.starts))]
            self.starts = [one for one in self.starts if one[1] < place]
            for turn in self.expected[place:]:
                turn[2] = True
            self.do_ask()

    def do_long(self) -> None:
        """A prompt that is too long to be read, and its answer: a rewind to before it takes back nothing after it."""
        self.starts.clear()
        self.says("x" * 300_000)
        self.end(self.words("To what is too long"))


class Codex(Talk):
    events = True

    def __init__(self, seed: int, session: str) -> None:
        super().__init__(seed, session)
        self.paginated = self.chance.random() < 0.5
        self.line("session_meta", id=session, cwd="/src/shop", timestamp="2026-11-02T09:00:00Z", source="cli")
        self.prompts: list[list[int]] = []

    def line(self, kind: str, **payload: Any) -> None:
        self.put({"timestamp": self.at(), "type": kind, "payload": payload})

    def event(self, kind: str, **more: Any) -> None:
        self.line("event_msg", type=kind, **more)

    def message(self, role: str, text: str, **more: Any) -> None:
        kind = "output_text" if role == "assistant" else "input_text"
        self.line("response_item", type="message", role=role, content=[{"type": kind, "text": text}], **more)

    def begin(self) -> None:
        self.turn = f"turn-{self.session}-{self.n}"
        self.event("task_started", turn_id=self.turn)
        self.line("turn_context", turn_id=self.turn, cwd="/src/shop")
        self.prompts.append([])

    def prompt(self, text: str) -> None:
        self.message("developer", "x")
        self.message("user", self.user(text))
        self.prompts[-1].append(self.asked)
        if self.paginated:
            self.event("item_completed", item={"type": "UserMessage", "content": [{"type": "text", "text": text}]})
        elif self.events:
            self.event("user_message", message=text)

    def reply(self, text: str, **more: Any) -> None:
        if self.paginated:
            self.event(
                "item_completed", item={"type": "AgentMessage", "content": [{"type": "Text", "text": text}], **more}
            )
        elif self.events:
            self.event("agent_message", message=text, **more)
        self.message("assistant", text, **more)

    def end(self, text: str | None = None) -> None:
        self.event("task_complete", turn_id=self.turn, last_agent_message=text)

    def do_ask(self) -> None:
        self.begin()
        self.prompt(self.words("Question"))
        if self.chance.random() < 0.4:
            self.reply("Looking", phase="commentary")
            self.line("response_item", type="function_call", name="exec_command", arguments="{}", call_id=f"c{self.n}")
        if self.chance.random() < 0.3:
            self.prompt(self.words("Meanwhile"))
        text = self.agent(self.words("Answer"))
        self.reply(text)
        self.end(text)

    def do_compact(self) -> None:
        self.begin()
        self.message("assistant", "Summary of the conversation.")
        self.line(
            "compacted", message="Summary", replacement_history=[{"type": "message", "role": "user", "content": "old"}]
        )
        self.event("item_completed", item={"type": "ContextCompaction"})
        self.end()

    def do_shell(self) -> None:
        self.begin()
        self.message("user", "<user_shell_command>\n<command>ls</command>\n</user_shell_command>")
        self.end()

    def do_picture(self) -> None:
        self.begin()
        self.line("response_item", type="message", role="user", content=[{"type": "input_image", "image_url": "data:"}])
        self.reply("A picture")
        self.end("A picture")

    def do_aborted(self) -> None:
        self.begin()
        self.prompt(self.words("Stopped"))
        self.reply("Half of")
        self.event("turn_aborted", reason="interrupted")

    def do_dialog(self) -> None:
        self.begin()
        self.prompt(self.words("Ask me"))
        call = f"c{self.n}"
        asked = {"questions": [{"id": "q", "question": "Which one?"}]}
        self.line(
            "response_item", type="function_call", name="request_user_input", arguments=json.dumps(asked), call_id=call
        )
        text = self.words("yarn")
        self.line(
            "response_item",
            type="function_call_output",
            call_id=call,
            output=json.dumps({"answers": {"q": {"answers": [text]}}}),
        )
        self.user(f"> asked: Which one?\n{text}")
        self.prompts[-1].append(self.asked)
        answer = self.agent(self.words("Answer"))
        self.reply(answer)
        self.end(answer)

    def do_back(self) -> None:
        number = self.chance.randint(1, 2)
        self.event("thread_rolled_back", num_turns=number)
        while number and self.prompts:
            places = self.prompts.pop()
            number -= bool(places)
            for place in places:
                self.expected[place][2] = True


class Rollout(Codex):
    """A rollout without events, of 2025."""

    events = False

    def __init__(self, seed: int, session: str) -> None:
        super().__init__(seed, session)
        self.paginated = False

    def event(self, kind: str, **more: Any) -> None:
        if kind != "task_complete":
            super().event(kind, **more)


class Gemini(Talk):
    def __init__(self, seed: int, session: str) -> None:
        super().__init__(seed, session)
        self.ids: list[tuple[str, str, Any, int]] = []
        self.head()

    def head(self) -> None:
        self.put(
            {
                "sessionId": self.session,
                "projectHash": "a" * 64,
                "startTime": "2026-11-02T09:00:00.000Z",
                "kind": "main",
            }
        )
        self.listed([])

    def listed(self, more: list[dict[str, Any]]) -> None:
        first = {
            "id": "ctx",
            "timestamp": self.at(),
            "type": "user",
            "content": [{"text": "<session_context>\nThis is the Gemini CLI."}],
        }
        self.put({"$set": {"messages": [first, *more]}})

    def message(self, kind: str, content: Any, place: int = -1, **more: Any) -> None:
        at = self.at()
        line = {"id": f"i{self.n}", "timestamp": at, "type": kind, "content": content, **more}
        self.put(line)
        if self.chance.random() < 0.5 and kind == "gemini":
            self.put(line | {"tokens": {"total": 9}})
        self.put({"$set": {"lastUpdated": at}})
        self.ids.append((line["id"], kind, content, place))

    def prompt(self, text: str) -> None:
        self.message("user", [{"text": self.user(text)}], self.asked + 1 if self.asked < 0 else self.asked)

    def answers(self) -> None:
        self.message("gemini", self.agent(self.words("Answer")), self.asked, tokens={"total": 5})

    def do_ask(self) -> None:
        self.prompt(self.words(self.chance.choice(["Question", "/src/app.py fails, see", "?why"])))
        if self.chance.random() < 0.4:
            self.message("gemini", self.agent(self.words("Looking")), self.asked, toolCalls=[{"id": "t", "name": "ls"}])
            self.message("user", [{"functionResponse": {"name": "ls", "response": {}}}], self.asked)
        self.answers()

    def do_picture(self) -> None:
        self.message("user", [{"inlineData": {"mimeType": "image/png", "data": "iVBOR"}}])
        self.message("gemini", "A picture", tokens={"total": 5})

    def do_hooked(self) -> None:
        text = self.user(self.words("Hooked"))
        parts = [{"text": text}, {"text": "<hook_context>x</hook_context>"}]
        self.message("user", parts, self.asked, displayContent=[{"text": text}])
        self.answers()

    def do_compress(self) -> None:
        kept = self.ids[-3:]
        kept = kept[next((at for at, one in enumerate(kept) if one[1] == "user"), len(kept)) :]
        new = [(f"k{self.n}-{at}", *one[1:]) for at, one in enumerate(kept)]
        self.listed([
            {"id": f"s{self.n}", "timestamp": self.at(), "type": "user", "content": [{"text": "<state_snapshot>\nUse bun.\n</state_snapshot>"}]},
            {"id": f"g{self.n}", "timestamp": self.at(), "type": "gemini", "content": [{"text": "Got it. Thanks for the additional context!"}]},
            *({"id": number, "timestamp": self.at(), "type": kind, "content": [{"text": content}] if kind == "gemini" else content} for number, kind, content, _ in new),
        ])  # fmt: skip
        self.ids = new

    def do_resume(self) -> None:
        self.head()
        self.put({"$set": {"sessionId": self.session}})
        self.listed(
            [
                {"id": number, "timestamp": self.at(), "type": kind, "content": content}
                for number, kind, content, _ in self.ids
            ]
        )

    def do_rewind(self) -> None:
        places = [
            at
            for at, one in enumerate(self.ids)
            if one[1] == "user" and one[3] >= 0 and "functionResponse" not in one[2][0]
        ]
        if places:
            at = self.chance.choice(places)
            self.put({"$rewindTo": self.ids[at][0]})
            for place in {one[3] for one in self.ids[at:]} - {-1}:
                self.expected[place][2] = True
            self.ids = self.ids[:at]


STEPS: dict[str, tuple[Callable[[int, str], Talk], str]] = {
    "claude": (Claude, "ask ask retry command notice picture shell skill aside dialog refusal interrupted compact up_to_here windows rewind long"),
    "codex": (Codex, "ask ask compact shell picture aborted dialog back"),
    "rollout": (Rollout, "ask ask compact aborted"),
    "gemini": (Gemini, "ask ask picture hooked compress resume rewind"),
}  # fmt: skip


def made(name: str, seed: int) -> Talk:
    """A transcript of a format: a first question, some steps by chance, and a last question."""
    of, steps = STEPS[name]
    talk = of(seed, f"{name}-{seed}")
    return talk.play(["ask", *talk.chance.choices(steps.split(), k=12), "ask"])


def export(name: str, count: int) -> tuple[list[bytes], Expected]:
    """An export of a chat site as it was with each number of exchanges, and its turns; every third prompt is a picture."""
    texts = [(f"question {at} of {name}" * (at % 3 != 2), f"answer {at} of {name}") for at in range(count)]
    expected = [one for user, agent in texts if user for one in (("user", user, False), ("assistant", agent, False))]
    versions = []
    for end in range(1, count + 1):
        some = texts[:end]
        if name == "chatgpt":
            nodes, before = {"root": node("root", None, ["u0"])}, "root"
            for at, (user, agent) in enumerate(some):
                nodes[f"u{at}"] = node(f"u{at}", before, [f"a{at}"], "user", user)
                nodes[f"a{at}"] = node(f"a{at}", f"u{at}", [f"u{at + 1}"], "assistant", agent)
                before = f"a{at}"
            versions.append(json.dumps([chat(conversation_id=name, mapping=nodes, current_node=before)]).encode())
        elif name == "claude-ai":
            letters = [one for at, (user, agent) in enumerate(some) for one in (
                letter(f"u{at}", "human", user, None, at), letter(f"a{at}", "assistant", agent, None, at))]  # fmt: skip
            versions.append(json.dumps([{"uuid": name, "name": "T", "chat_messages": letters}]).encode())
    return versions, expected
