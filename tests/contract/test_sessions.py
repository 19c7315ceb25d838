"""The archive of sessions: every turn once, whatever becomes of transcripts, files and index; found by words; purged for good."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from backports.zstd import ZstdCompressor
from hypothesis import given, settings
from hypothesis import strategies as st

from ormahd import paths
from ormahd.actions.sessions import recall_sessions
from ormahd.api import IngestPathParams
from ormahd.errors import Ambiguous, BadRequest, NotFound, Unavailable
from ormahd.ingest import capture as capture_module
from ormahd.ingest.bring_in import archive, ingest
from ormahd.ingest.capture import Capture
from ormahd.ingest.documents.finding import find_files
from ormahd.judge.own_sessions import MARK
from ormahd.model.node import NodeType, SearchQuery
from ormahd.ormah import Ormah
from tests.contract.archiving import SHOP, answered, archived, asked, bring, done, found, opened, ran, show, written
from tests.examples import examples
from tests.house import wait_until

# ------------------------------------------------------------ every turn once


def test_turns_are_archived_once_and_found(ormah: Ormah, tmp_path: Path) -> None:
    file = written(tmp_path / "t.jsonl", *SHOP)
    first = bring(ormah, file)
    assert (first.added, first.sessions, first.formats) == (4, 1, ["claude-code"])
    assert bring(ormah, file).status == "unchanged"
    os.utime(file)
    again = bring(ormah, file)
    assert (again.status, again.added, again.known) == ("read", 0, 4)
    assert archived(ormah) == [
        ("s1", text) for text in ("Use cents everywhere.", "Cents it is.", "Round half even.", "Done.")
    ]
    ormah.warm()
    assert found(ormah, "what did we say about rounding half")[0] == "Round half even. / Done."
    assert found(ormah, "zebra") == []
    mode = paths.sessions_dir(ormah.vault.id).stat().st_mode & 0o777
    assert mode == 0o700
    assert {file.stat().st_mode & 0o777 for file in paths.sessions_dir(ormah.vault.id).rglob("*.jsonl")} == {0o600}


@pytest.mark.parametrize(
    ("title", "prompt", "shown"),
    [
        (None, "Use cents everywhere.", "Use cents everywhere."), ("Rounding", "Use cents everywhere.", "Rounding"),
        (None, "\n\n  Use   cents\nand round.", "Use cents"), (None, "word " * 99, f"{'word ' * 14}…"),
    ],
)  # fmt: skip
def test_without_a_title_the_first_prompt_names_a_session(
    ormah: Ormah, tmp_path: Path, title: str | None, prompt: str, shown: str
) -> None:
    named = [{"type": "custom-title", "customTitle": title, "sessionId": "s1"}] if title else []
    bring(ormah, written(tmp_path / "t.jsonl", asked(0, prompt), answered(0, "Done."), asked(1, "And then?"), *named))
    assert [(one.title or "").replace(" …", "…") for one in show(ormah, limit=5).sessions] == [shown.replace(" …", "…")]


def test_the_index_may_go_and_a_torn_line_costs_nothing(tmp_path: Path) -> None:
    file = written(tmp_path / "t.jsonl", *SHOP[:2])
    with opened(tmp_path) as ormah:
        bring(ormah, file)
        (kept,) = paths.sessions_dir(ormah.vault.id).rglob("*.jsonl")
        index = ormah.index.directory / "sessions.sqlite3"
    with kept.open("ab") as torn:
        torn.write(b'{"key":"half-writ')
    for damage in (index.unlink, lambda: index.write_bytes(b"no database" * 1000)):
        damage()
        for beside in ("-wal", "-shm"):
            index.with_name(index.name + beside).unlink(missing_ok=True)
        with opened(tmp_path) as ormah:
            assert found(ormah, "cents everywhere") == ["Use cents everywhere. / Cents it is."]
    with opened(tmp_path) as ormah:
        bring(ormah, written(file, *SHOP))
        assert len(archived(ormah)) == 4
        assert len(show(ormah, session_id="s1").turns) == 4


def test_what_reached_the_file_but_not_the_index_is_there_after_a_restart(tmp_path: Path) -> None:
    file = written(tmp_path / "t.jsonl", *SHOP[:2])
    with opened(tmp_path) as ormah:
        bring(ormah, file)
        before = (ormah.index.directory / "sessions.sqlite3").read_bytes()
        place = ormah.index.directory / "sessions.sqlite3"
    before = place.read_bytes()
    with opened(tmp_path) as ormah:
        bring(ormah, written(file, *SHOP))
    place.write_bytes(before)  # as if the machine had died between the two
    for beside in ("-wal", "-shm"):
        place.with_name(place.name + beside).unlink(missing_ok=True)
    with opened(tmp_path) as ormah:
        assert found(ormah, "round half even") == ["Round half even. / Done."]
        os.utime(file)
        assert bring(ormah, file).added == 0
        assert len(archived(ormah)) == 4


def test_an_archived_file_that_a_person_deleted_is_read_again(ormah: Ormah, tmp_path: Path) -> None:
    file = written(tmp_path / "t.jsonl", *SHOP)
    bring(ormah, file)
    ormah.sessions.close()
    next(paths.sessions_dir(ormah.vault.id).rglob("*.jsonl")).unlink()
    assert found(ormah, "cents") == []
    assert bring(ormah, file).added == 4


def test_an_archived_file_that_is_deleted_while_it_grows_is_whole_again(ormah: Ormah, tmp_path: Path) -> None:
    file = written(tmp_path / "t.jsonl", *SHOP)
    bring(ormah, file)
    kept = next(paths.sessions_dir(ormah.vault.id).rglob("*.jsonl"))
    before = kept.read_bytes()
    kept.unlink()
    for _ in range(2):  # the first reading may only notice it
        with suppress(Unavailable):
            bring(ormah, written(file, *SHOP, asked(2, "And in euros?"), answered(2, "Rounded to cents.")))
    assert kept.read_bytes().startswith(before)
    ormah.sessions.close()
    assert len(archived(ormah)) == 6


STEPS = st.lists(
    st.sampled_from(["grow", "shrink", "back", "compact", "rename", "fork", "read", "restart", "lose the index"]), max_size=14
)  # fmt: skip
LIVE = st.lists(
    st.sampled_from(["grow", "grow", "read", "rewind", "shrink", "back", "compact", "rename", "fork"]), max_size=14
)


@given(STEPS)
@settings(max_examples=examples(30))
def test_any_order_of_events_gives_the_same_turns(steps: list[str]) -> None:
    """Whatever happens to transcripts between two reads, every turn that was there at a read is archived once."""
    with TemporaryDirectory() as name:
        home = Path(name)
        (home / "t").mkdir()
        world = _World(home / "t")
        steps = ["grow", "read", *steps, "read"]
        while steps:
            with opened(home) as ormah:
                while steps and steps[0] not in {"restart", "lose the index"}:
                    world.do(steps.pop(0), ormah)
                index = ormah.index.directory
                texts = [text for _, text in archived(ormah)]
                assert sorted(texts) == sorted(world.expected)
                assert {row[1:] for row in done(ormah)} == world.done
                assert len(done(ormah)) == len(world.done)
                rows = ormah.sessions.commands_like(["make"], ["/src/shop"], 1_000)
                assert sorted((one.asked, one.command) for one in rows) == sorted(world.done)
            if steps and steps.pop(0) == "lose the index":
                for file in index.glob("sessions.sqlite3*"):
                    file.unlink()


class _World:
    """Transcripts of one session and its forks, and what must have been archived of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: list[tuple[Path, list[dict[str, Any]]]] = [(folder / "0.jsonl", [])]
        self.saved: list[dict[str, Any]] = []
        self.made = 0
        self.expected: set[str] = set()
        self.done: set[tuple[str, str]] = set()

    def do(self, step: str, ormah: Ormah) -> None:
        at = self.made % len(self.files)
        file, lines = self.files[at]
        self.made += 1
        if step == "grow":
            parent = lines[-1]["uuid"] if lines else None
            session = f"s{at}"
            user = asked(self.made, f"question {self.made}", session=session) | {
                "uuid": f"u{self.made}",
                "parentUuid": parent,
            }
            reply = answered(self.made, f"answer {self.made}", session=session) | {"parentUuid": f"r{self.made}"}
            lines = [*lines, user, *ran(self.made, f"make {self.made}", session=session), reply]
        elif step == "shrink":
            self.saved, lines = lines, lines[: len(lines) // 8 * 4]
        elif step == "back":
            lines = self.saved if self.saved and at == 0 else lines
        elif step == "rewind" and len(lines) > 2:
            back = lines[len(lines) // 8 * 4 - 1] if len(lines) > 7 else lines[3]
            user = asked(self.made, f"instead {self.made}", session=f"s{at}")
            lines = [*lines, user | {"uuid": f"u{self.made}", "parentUuid": back["uuid"]}]
        elif step == "compact":
            lines = [*lines[len(lines) // 8 * 4 :]]
            if lines:
                lines[0] = {**lines[0], "parentUuid": "gone"}
        elif step == "rename":
            file.unlink(missing_ok=True)
            file = self.folder / f"renamed-{self.made}.jsonl"
        elif step == "fork" and lines:
            fork = self.folder / f"fork-{self.made}.jsonl"
            copy = [line | {"sessionId": f"s{len(self.files)}"} for line in lines]
            self.files.append((fork, copy))
            written(fork, *copy)
        elif step == "read":
            for path, rows in self.files:
                if path.exists():
                    bring(ormah, path)
                    self.expected |= {_text(row) for row in rows} - {""}
                    prompt = ""
                    for row in rows:
                        prompt = row["message"]["content"] if isinstance(row["message"]["content"], str) else prompt
                        self.done |= {(prompt, command) for command in _commands(row)}
        self.files[at] = file, lines
        written(file, *lines)


def _text(row: dict[str, Any]) -> str:
    content = row["message"]["content"]
    return content if isinstance(content, str) else content[0].get("text", "")


def _commands(row: dict[str, Any]) -> list[str]:
    return [
        part["input"]["command"] for part in row["message"]["content"] if isinstance(part, dict) and "input" in part
    ]


def test_a_rewound_branch_is_kept_and_not_found(ormah: Ormah, tmp_path: Path) -> None:
    file = written(tmp_path / "t.jsonl", *SHOP)
    bring(ormah, file)
    instead = asked(1, "Round up.") | {"uuid": "n1"}
    more = answered(1, "Up.") | {"uuid": "n2", "parentUuid": "n1"}
    more["message"]["id"] = "other"
    done = bring(ormah, written(file, *SHOP, instead, more))
    assert (done.added, done.withdrawn) == (2, 2)
    assert [text for _, text in archived(ormah)] == ["Use cents everywhere.", "Cents it is.", "Round up.", "Up."]
    assert archived(ormah, withdrawn=True) == [("s1", "Round half even."), ("s1", "Done.")]
    assert found(ormah, "round half even") == ["Round up. / Up."]
    assert [(one.text, one.withdrawn) for one in show(ormah, session_id="s1").turns][2:4] == [
        ("Round half even.", True),
        ("Done.", True),
    ]


def test_a_rewind_in_a_fork_leaves_the_session_that_it_comes_from(ormah: Ormah, tmp_path: Path) -> None:
    bring(ormah, written(tmp_path / "s1.jsonl", *SHOP))
    fork = [line | {"sessionId": "s2"} for line in SHOP]
    instead = asked(1, "Round up.", session="s2") | {"uuid": "n1"}
    done = bring(ormah, written(tmp_path / "s2.jsonl", *fork, instead))
    assert (done.added, done.withdrawn) == (1, 0)
    assert len(archived(ormah)) == len(SHOP) + 1
    again = asked(1, "Round down.", session="s2") | {"uuid": "n2"}
    assert bring(ormah, written(tmp_path / "s2.jsonl", *fork, instead, again)).withdrawn == 1
    assert [text for session, text in archived(ormah) if session == "s2"] == ["Round down."]


def test_an_open_answer_waits(ormah: Ormah, tmp_path: Path) -> None:
    growing = answered(1, "I am at it")
    growing["message"]["stop_reason"] = None
    file = written(tmp_path / "t.jsonl", *SHOP[:3], growing)
    first = bring(ormah, file)
    assert (first.added, first.open) == (3, 1)
    done = bring(ormah, written(file, *SHOP[:3], growing, asked(2, "and now?")))
    assert (done.added, done.open) == (2, 0)
    os.utime(written(file, *SHOP[:3], growing), (0, 0))
    assert bring(ormah, file).open == 0, "nobody writes it any more"


# ------------------------------------------------------------ files of all kinds


def test_all_files_of_a_folder_are_read(ormah: Ormah, tmp_path: Path) -> None:
    folder = tmp_path / "all"
    (folder / "s1" / "subagents").mkdir(parents=True)
    written(folder / "s1.jsonl", *SHOP)
    written(
        folder / "fork.jsonl", *(line | {"sessionId": "s2"} for line in SHOP), asked(2, "In the fork.", session="s2")
    )
    written(folder / "s1" / "subagents" / "agent-1.jsonl", asked(0, "never"))
    talk = {
        "uuid": "k1",
        "name": "Garden",
        "chat_messages": [{"uuid": "p1", "sender": "human", "text": "I prefer metric units."}],
    }
    with zipfile.ZipFile(folder / "data.zip", "w") as box:
        box.writestr("data/conversations.json", json.dumps([talk]))
        box.writestr("data/users.json", "[]")
        box.writestr("__MACOSX/conversations.json", json.dumps([talk]))
    rollout = [{"type": "session_meta", "payload": {"id": "r1", "cwd": "/src/a"}, "timestamp": "2026-10-05T08:00:00Z"},
               {"type": "event_msg", "payload": {"type": "user_message", "message": "Use tabs."}, "timestamp": "2026-10-05T08:00:00Z"}]  # fmt: skip
    packed = ZstdCompressor().compress(
        b"".join(json.dumps(line).encode() + b"\n" for line in rollout), ZstdCompressor.FLUSH_FRAME
    )
    (folder / "r.jsonl.zst").write_bytes(packed)
    (folder / "cut.jsonl.zst").write_bytes(packed[:10])
    (folder / "broken.zip").write_bytes(b"PK\x03\x04" + b"x" * 50)
    (folder / "package.json").write_text('{"name": "x"}')
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "link.jsonl").symlink_to(folder / "s1.jsonl")
    came = [bring(ormah, Path(one)) for one in find_files(ormah, IngestPathParams(path=str(folder))).files]
    assert {Path(one.path).name: one.status for one in came} == {
        "s1.jsonl": "read", "fork.jsonl": "read", "data.zip": "read", "r.jsonl.zst": "read", "cut.jsonl.zst": "failed",
        "broken.zip": "failed",
        "package.json": "unknown",
    }  # fmt: skip
    texts = sorted(text for _, text in archived(ormah))
    assert texts == sorted(
        [
            "Use cents everywhere.",
            "Cents it is.",
            "Round half even.",
            "Done.",
            "In the fork.",
            "I prefer metric units.",
            "Use tabs.",
        ]
    )
    assert sum(one.added for one in came) == 7


def test_what_is_left_out(tmp_path: Path) -> None:
    with opened(tmp_path, exclude="/src/secret,~/private*") as ormah:
        for number, cwd in enumerate(
            ["/src/secret", "/src/secret/deep", f"{tmp_path}/private-x/a", str(tmp_path / "vault")]
        ):
            file = written(tmp_path / f"{number}.jsonl", *(line | {"cwd": cwd} for line in SHOP))
            assert bring(ormah, file).excluded == 4, cwd
        assert archived(ormah) == []
        assert (
            bring(ormah, written(tmp_path / "ok.jsonl", *(line | {"cwd": "/src/secretary"} for line in SHOP))).added
            == 4
        )
    with opened(tmp_path) as ormah:
        assert bring(ormah, tmp_path / "0.jsonl").known == 4, (
            "a setting that changes is obeyed: what was left out was not ticked off"
        )
    with opened(tmp_path, keep="false") as ormah, pytest.raises(BadRequest, match=r"sessions\.keep is off"):
        bring(ormah, file)


def test_a_session_of_an_excluded_folder_is_left_out_whole(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    with opened(tmp_path, exclude=f"{tmp_path}/secret") as ormah:
        for number, (first, second) in enumerate(
            [("secret", "elsewhere"), ("secret", None), ("link", "link/deep"), ("x/../secret", "secret/.")]
        ):
            begun, went_on = f"{tmp_path}/{first}", second and f"{tmp_path}/{second}"
            lines = [
                asked(0, "The code name is Ostrich."),
                answered(0, "Ostrich."),
                asked(1, "And Quail."),
                answered(1, "Quail."),
            ]
            file = written(
                tmp_path / f"{number}.jsonl",
                *(line | {"cwd": begun if at < 2 else went_on} for at, line in enumerate(lines)),
            )
            assert bring(ormah, file).excluded == 4, (first, second)
        told = written(tmp_path / "told.jsonl", asked(0, "The code name is Teal.", cwd=f"{tmp_path}/secret"))
        assert archive(ormah, told, ending="Teal it is.").out.added == 0
        assert archived(ormah) == []
    (tmp_path / "b").mkdir()
    with opened(tmp_path / "b", exclude=f"{tmp_path}/link") as ormah:
        assert bring(ormah, tmp_path / "0.jsonl").excluded == 4, "a folder may be named by a link to it"


def test_the_command_that_opens_a_session_is_harmless_whatever_the_transcript_says(
    ormah: Ormah, tmp_path: Path
) -> None:
    for session, cwd, command in [
        ("6f1d-ab", "/src/my shop", "cd '/src/my shop' && claude --resume 6f1d-ab"),
        ("--dangerously-skip-permissions", "/src", "ormahctl show -- --dangerously-skip-permissions"),
        ("x; rm -rf ~", "/src", "ormahctl show 'x; rm -rf ~'"),
        ("6f1d-cd", "-P", "claude --resume 6f1d-cd"),
    ]:
        bring(ormah, written(tmp_path / "t.jsonl", asked(0, f"In {session}.", session=session, cwd=cwd)))
        assert show(ormah, session_id=session).sessions[0].open == command


def test_errors_name_the_thing(ormah: Ormah, tmp_path: Path) -> None:
    for bad in ("relative", str(tmp_path / "missing")):
        with pytest.raises(BadRequest, match=bad):
            ingest(ormah, bad, progress=lambda *_: None)
    assert bring(ormah, written(tmp_path / "0.jsonl")).error == "it is empty"
    bring(ormah, written(tmp_path / "1.jsonl", *SHOP))
    bring(ormah, written(tmp_path / "2.jsonl", asked(0, "other", session="s22")))
    for bad in ("x", "s%", ""):
        with pytest.raises(NotFound):
            show(ormah, session_id=bad)
    with pytest.raises(Ambiguous, match="s1, s22"):
        show(ormah, session_id="s")
    assert show(ormah, session_id="s2").sessions[0].id == "s22"
    with pytest.raises(BadRequest, match="no types"):
        recall_sessions(ormah.sessions, ormah.index, SearchQuery(query="x", types=[NodeType.FACT]))
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert archive(ormah, fifo).out.status == "failed"
    chats = tmp_path / "shop" / "chats"
    chats.mkdir(parents=True)
    os.mkfifo(chats.parent / ".project_root")
    assert bring(ormah, written(chats / "session.jsonl", *SHOP)).turns == 4, "a pipe beside it is not waited for"


def test_odd_session_ids_stay_inside_the_archive(ormah: Ormah, tmp_path: Path) -> None:
    for number, session in enumerate(["../../evil", "a/b", ".hidden", "x" * 300, "日本", "s.part"]):
        bring(ormah, written(tmp_path / f"{number}.jsonl", asked(number, f"text {number}", session=session)))
    root = paths.sessions_dir(ormah.vault.id)
    assert len(archived(ormah)) == 6
    assert {file.parent for file in root.rglob("*.jsonl")} == {root / "claude-code"}
    assert show(ormah, session_id="../../evil").turns[0].text == "text 0"


def test_secrets_do_not_reach_the_archive(ormah: Ormah, tmp_path: Path) -> None:
    secret = "ghp_" + "aB3dE5fG7h" * 4
    export = [
        {
            "uuid": "k",
            "name": f"about {secret}",
            "chat_messages": [{"uuid": "p", "sender": "human", "text": f"my token is {secret}"}],
        }
    ]
    file = tmp_path / "c.json"
    file.write_text(json.dumps(export))
    assert sum(bring(ormah, file).redacted.values()) == 2
    ormah.sessions.close()
    for place in (paths.sessions_dir(ormah.vault.id), ormah.index.directory):
        assert not [one for one in place.rglob("*") if one.is_file() and secret.encode() in one.read_bytes()]


# ------------------------------------------------------------ while a session goes on


@contextmanager
def capturing(ormah: Ormah) -> Iterator[Capture]:
    found = Capture(ormah)
    found.start()
    try:
        yield found
    finally:
        assert found.stop(120)


@pytest.mark.parametrize("stop", [None, "tool_use"])
@pytest.mark.parametrize("interim", ["", "Let me look."])
def test_an_answer_that_the_file_lacks_is_archived_as_the_hook_told_it(
    tmp_path: Path, interim: str, stop: str | None
) -> None:
    growing, final = answered(1, interim), answered(1, "Done, as told.")
    growing["message"]["stop_reason"] = stop
    final["message"]["id"] = "final"
    final["timestamp"] = "2026-11-02T09:00:03.900Z"
    file = written(tmp_path / "t.jsonl", *SHOP[:3], growing)
    with opened(tmp_path, now=datetime(2026, 11, 2, 9, 0, 3, 800_000, tzinfo=UTC)) as ormah:
        with capturing(ormah) as capture:
            capture.report(str(file), "Done.")
            wait_until(lambda: ("s1", "Done.") in archived(ormah), "the answer of the hook")
        later = bring(ormah, written(file, *SHOP[:3], growing, final, asked(2, "Again?"), answered(2, "Done.")))
        assert (later.added, later.known) == (2, 4), "the same words to another prompt are another turn"
        assert [text for _, text in archived(ormah)][-3:] == ["Done, as told.", "Again?", "Done."]


def test_a_prompt_that_is_never_answered_is_archived(
    ormah: Ormah, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent was killed while it worked: no hook tells an end."""
    monkeypatch.setattr(capture_module, "REST", 0.5)
    file = tmp_path / "t.jsonl"
    with capturing(ormah) as capture:
        capture.report(str(file), later=True)
        written(file, *SHOP[:3])
        wait_until(lambda: len(archived(ormah)) == 3, "the prompt")


def test_an_open_answer_is_looked_at_again_when_the_session_rests(
    ormah: Ormah, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_module, "REST", 0.1)
    growing = answered(1, "Done.")
    growing["message"]["stop_reason"] = None
    file = written(tmp_path / "t.jsonl", *SHOP[:3], growing)
    with capturing(ormah) as capture:
        capture.report(str(file))  # no hook told an answer, and no event follows
        wait_until(lambda: len(archived(ormah)) == 3, "what is closed")
        monkeypatch.setattr("ormahd.ingest.bring_in.REST", 0.1)
        wait_until(lambda: len(archived(ormah)) == 4, "the answer, once nobody writes it any more")


def test_a_hook_without_a_file_is_no_failure(ormah: Ormah, tmp_path: Path) -> None:
    with capturing(ormah) as capture:
        for path in (None, str(tmp_path / "missing.jsonl"), "relative.jsonl", str(tmp_path)):
            capture.report(path, "Done.")
        capture.report(str(written(tmp_path / "t.jsonl", *SHOP)), "")
        wait_until(lambda: len(archived(ormah)) == 4, "the file that is there")


def test_sessions_of_the_judge_are_not_archived(ormah: Ormah, tmp_path: Path) -> None:
    prompt = f"{MARK}\nWhich of these two say the same?"
    file = written(tmp_path / "t.jsonl", asked(0, prompt), answered(0, "the second"))
    assert bring(ormah, file).excluded == 2
    folder = str(ormah.state.path.parent / "judge")
    file = written(tmp_path / "u.jsonl", *(line | {"cwd": folder, "sessionId": "s2"} for line in SHOP))
    assert bring(ormah, file).excluded == 4
    assert archived(ormah) == []
