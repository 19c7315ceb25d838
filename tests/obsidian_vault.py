"""An Obsidian vault of about 300 files as people have them, the same bytes every time.

`build(folder)` writes it and returns what is in it: the bytes of every file, the files by group, and for each note a made-up word
that stands in it and nowhere else, so that a test can ask for exactly this note.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

FIRST_DAY = date(2024, 1, 1)
TOPICS = ("beekeeping", "the greenhouse", "sourdough", "the tax return", "sailing knots", "the boiler", "a trip to Kyoto",
          "the allotment", "cello practice", "the bicycle", "the cellar", "the night train")  # fmt: skip
PEOPLE = ("Jürgen Großmann", "Änne Weiß", "田中 美咲", "鈴木 健一", "Søren Åkesson", "Zoë O'Neill", "María Núñez", "Łukasz Żak",
          "Beatrix Fröhlich", "佐藤 花子", "Tom Baker", "Priya Raman", "Omar Haddad", "Ines Köhler", "Li Wei")  # fmt: skip
BOOKS = ("Der Zauberberg", "Snow Country", "The Art of Doing Science", "雪国", "Middlemarch", "Momo", "Piranesi", "Austerlitz",
         "The Peregrine", "Stoner", "Kokoro", "Die Vermessung der Welt", "How Buildings Learn", "Invisible Cities",
         "The Makioka Sisters", "Walden", "Moby-Dick", "Effi Briest", "Silas Marner", "Seeing Like a State")  # fmt: skip
_SYLLABLES = ("ba", "du", "fe", "gi", "ko", "lu", "ma", "ne", "po", "ra", "si", "tu", "ve", "wo", "za", "ji")
_PICTURE = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489")

NOTES = ("daily", "zettel", "meeting", "book", "person", "project", "reference", "windows", "inbox")
"""The groups whose files a person would call notes."""
LEFT_OUT = ("template", "drawing", "board", "trash")
"""Groups of markdown files that are no notes: templates, drawings and boards of plug-ins, what was thrown away."""


@dataclass
class ObsidianVault:
    """What `build` wrote. Paths are posix and relative to `root`."""

    root: Path
    files: dict[str, bytes] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    """Of every note the word that stands in no other."""

    @property
    def notes(self) -> list[str]:
        return [path for group in NOTES for path in self.groups[group]]

    @property
    def left_out(self) -> list[str]:
        return [path for group in LEFT_OUT for path in self.groups[group]]

    def changed(self) -> list[str]:
        """Files whose bytes are not what was written, or that are gone."""
        return [path for path, data in self.files.items() if _bytes(self.root / path) != data]

    def add(self, group: str, path: str, text: str | bytes, *, word: str | None = None) -> None:
        assert path not in self.files, path
        self.files[path] = text if isinstance(text, bytes) else text.encode()
        self.groups.setdefault(group, []).append(path)
        if word is not None:
            self.words[path] = word


def word_for(path: str) -> str:
    """A made-up word of twelve letters that belongs to this path."""
    seed = hashlib.sha256(path.encode()).digest()
    return "".join(_SYLLABLES[byte % len(_SYLLABLES)] for byte in seed[:6])


def build(root: Path, *, repository: bool = False) -> ObsidianVault:
    """Write the vault into `root`, which is made. With `repository` it is a git repository of the person's with a commit of all of
    it, one staged change (a new file) and one that is not staged."""
    vault = ObsidianVault(root)
    for part in (
        _dailies,
        _zettels,
        _meetings,
        _books,
        _people,
        _projects,
        _reference,
        _windows,
        _inbox,
        _left_out,
        _surroundings,
    ):
        part(vault)
    at = datetime(2024, 6, 1, 12, tzinfo=UTC).timestamp()
    for count, (path, data) in enumerate(vault.files.items()):
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        os.utime(file, (at + count, at + count))
    if repository:
        _commit(vault)
    return vault


def _note(vault: ObsidianVault, group: str, path: str, head: str, body: str) -> None:
    """A note whose text names its word in a sentence of its own."""
    word = word_for(path)
    vault.add(group, path, f"{head}{body}\n\nThe keyword here is {word}.\n", word=word)


def _dailies(vault: ObsidianVault) -> None:
    for count in range(70):
        day = FIRST_DAY + timedelta(days=2 * count)
        topic = TOPICS[count % len(TOPICS)]
        heads = ("", f"---\ndate: {day}\ntags: [daily]\n---\n", f"---\ncreated: {day} 07:{count % 60:02d}\ntags:\n  - daily\n---\n",
                 f'---\ndate: "{day}"\nmood: 4\ncssclasses: wide\n---\n', f"---\ncreated: {day}T21:15:00+02:00\n---\n")  # fmt: skip
        body = (f"## Morning\n- [ ] ring [[{PEOPLE[count % len(PEOPLE)]}]] about {topic}\n- [x] water the plants\n\n"
                f"## Evening\nSpent an hour on {topic}. sleep:: {6 + count % 3}\n\n"
                f"<< [[{day - timedelta(days=1)}]] | [[{day + timedelta(days=1)}]] >>")  # fmt: skip
        _note(vault, "daily", f"Daily/{day:%Y/%m}/{day}.md", heads[count % len(heads)], body)


def _zettels(vault: ObsidianVault) -> None:
    for count in range(50):
        number = f"{datetime(2023, 1, 1, 12) + timedelta(hours=31 * count):%Y%m%d%H%M}"
        title = f"On {TOPICS[count % len(TOPICS)]}, part {count // len(TOPICS) + 1}"
        heads = (f"---\nid: {number}\ntags: [zettel, zettel/permanent]\n---\n", f'---\nid: "{number}"\naliases: [{number}]\n---\n',
                 f"---\nid: {count + 1}\ntype: zettel\n---\n", f"---\ntitle: {title!r}\nid: {number}  # unique note creator\n---\n")  # fmt: skip
        body = (
            f"# {title}\n\nA thought leads to [[{number} {title}|the next one]] and to #idea/{count % 5}. ^block{count}"
        )
        _note(vault, "zettel", f"Zettelkasten/{number} {title}.md", heads[count % len(heads)], body)


def _meetings(vault: ObsidianVault) -> None:
    for count in range(35):
        day = FIRST_DAY + timedelta(days=5 * count)
        one, other = PEOPLE[count % len(PEOPLE)], PEOPLE[(count + 4) % len(PEOPLE)]
        heads = (f"---\ntype: meeting\ndate: {day}\nattendees:\n  - \"[[{one}]]\"\n  - \"[[{other}]]\"\n---\n",
                 f"---\ntype: Meeting\nDate: {day:%d.%m.%Y}\nproject: \"[[Kestrel]]\"\n---\n",
                 f"---\ntype: [meeting, weekly]\ncreated_at: {day} 10:00:00\n---\n",
                 f"---\ntype:\ndate created: {day:%A, %B} {day.day} {day.year}, 10:05:12 am\n---\n")  # fmt: skip
        body = (f"# {TOPICS[count % len(TOPICS)].capitalize()}\n\n> [!note] Decision\n> {one} takes care of it.\n\n"
                f"- action:: {other} writes the summary\n- ![[Attachments/photo {count % 4}.png|300]]")  # fmt: skip
        _note(vault, "meeting", f"Meetings/{day} {TOPICS[count % len(TOPICS)]}.md", heads[count % len(heads)], body)


def _books(vault: ObsidianVault) -> None:
    for count, name in enumerate(BOOKS):
        heads = (f"---\ntype: book\nauthor: [{PEOPLE[count % len(PEOPLE)]!r}]\nrating: {count % 5 + 1}/5\nstatus: read\n---\n",
                 f"---\ntags: book, {'fiction' if count % 2 else 'essay'}\nconfidence: 90%\ncover: https://example.org/{count}.jpg\n---\n",
                 f"---\ntype: book\ntitle:\n  - {name}\ntier: A\n---\n")  # fmt: skip
        body = f"## Notes\n\n| page | thought |\n|---|---|\n| {count + 10} | slow and good |\n\n==Read it again.== ![[Quotes#{name}]]"
        _note(vault, "book", f"Books/{name}.md", heads[count % len(heads)], body)


def _people(vault: ObsidianVault) -> None:
    for count, name in enumerate(PEOPLE):
        head = (f"---\naliases:\n  - {name.split()[0]}\nbirthday: {date(1970 + count, count % 12 + 1, 9)}\ntags: [people/friends]\n---\n"
                if count % 3 else "")  # fmt: skip
        _note(vault, "person", f"People/{name}.md", head, f"Met {name} through {TOPICS[count % len(TOPICS)]}. #people")


def _projects(vault: ObsidianVault) -> None:
    for project in ("Kestrel", "Garten", "Umzug"):
        for count in range(15):
            topic = TOPICS[(count + len(project)) % len(TOPICS)]
            head = (f"---\nstatus: active\ntags: [project/{project.lower()}, status/open]\nstart: 2024-0{count % 9 + 1}-01\n---\n"
                    if count % 2 else "")  # fmt: skip
            body = (f"(priority:: {count % 3}) [due:: 2024-0{count % 9 + 1}-15]\n\n- [ ] plan {topic} 📅 2024-05-0{count % 9 + 1}\n"
                    f"- [[{project} {count:02d} {topic}#Next|self]]\n\n```dataview\nTABLE status FROM #project/{project.lower()}\n```")  # fmt: skip
            _note(vault, "project", f"Projects/{project}/{project} {count:02d} {topic}.md", head, body)


def _reference(vault: ObsidianVault) -> None:
    for count in range(30):
        topic = TOPICS[count % len(TOPICS)]
        body = (f"# How to look after {topic} ({count})\n\n1. Look.\n2. Ask [[{PEOPLE[count % len(PEOPLE)]}]].\n\n"
                "```python\n---\nid: 7\n---\n```\n\nFootnote[^1] and $x^2$.\n\n[^1]: %% a comment %%")  # fmt: skip
        _note(vault, "reference", f"Reference/{'Home' if count % 2 else 'Außen'}/{topic} {count:02d}.md", "", body)


def _windows(vault: ObsidianVault) -> None:
    """Files that other editors and systems saved: CRLF, a byte order mark, no line end at the end."""
    for count in range(12):
        path = f"Imported/Notiz {count:02d}.md"
        word = word_for(path)
        text = (
            f"---\ntags: import\n---\nÄltere Notiz über {TOPICS[count % len(TOPICS)]}.\n\nThe keyword here is {word}.\n"
        )
        text = text if count % 2 else text.partition("---\ntags: import\n---\n")[2]
        data = text.replace("\n", "\r\n") if count % 3 else text.rstrip("\n")
        vault.add("windows", path, ("\ufeff" if count % 4 < 2 else "") + data, word=word)


def _inbox(vault: ObsidianVault) -> None:
    heads = ("id: 42", "id: [a, b]", "id: 2024-05-01", "id:", "type: note", "type: 7", "id: 7f3a\ntype: idea", "ID: 12\nType: Idea",
             "date: 3. Mai 2024", "date: someday", "created: 1714564800", "updated: Friday, May 3rd 2024, 1:05:12 am",
             "tags: 5\ntags: [five]", "source: [web, https://example.org]", "title: {a: b}", "space: [x, y]", "global: maybe",
             "aliases: {a: 1}", "related_to: nothing in particular", "supports: 5", "edges: none", "valid_until: soon")  # fmt: skip
    for count, head in enumerate(heads):
        _note(
            vault,
            "inbox",
            f"Inbox/Quick {count:02d}.md",
            f"---\n{head}\n---\n",
            f"A quick thought on {TOPICS[count % len(TOPICS)]}.",
        )


def _left_out(vault: ObsidianVault) -> None:
    vault.add(
        "template",
        "Templates/Daily.md",
        "---\ndate: {{date}}\n---\n# {{title}}\n\nThe keyword here is templatedaily.\n",
    )
    vault.add(
        "template", "Templates/Meeting.md", '---\ntype: meeting\ndate: "{{date:YYYY-MM-DD}}"\n---\n## Attendees\n'
    )
    vault.add(
        "template", "Extras/Templater/Book.md", "---\ntype: book\ntitle: <% tp.file.title %>\n---\n<%* const x = 1 %>\n"
    )
    vault.add("template", "Extras/Layouts/My day.md", "## Morning\n\n## Evening\n")
    vault.add(
        "template",
        "Extras/Person layout.md",
        "---\naliases: []\ncreated: <% tp.date.now() %>\n---\n# <% tp.file.title %>\n",
    )
    vault.add("template", "Extras/Zettel layout.md", "---\nid: {{date}}{{time}}\ntitle: {{title}}\n---\n")
    vault.add("drawing", "Drawings/Floor plan.excalidraw.md",
              "---\nexcalidraw-plugin: parsed\ntags: [excalidraw]\n---\n==⚠  Switch to EXCALIDRAW VIEW ⚠==\n\n# Text Elements\nkitchen ^a1\n\n"
              "%%\n# Drawing\n```compressed-json\nN4IgLgngDgpiBcIYA8DGBDANgSwCYCd0B3EAGhADcZ8BnbAewDsEAmcm+gV31TkQAswYKDXgB6MQ\n```\n%%\n")  # fmt: skip
    vault.add("board", "Boards/Sprint.md",
              "---\nkanban-plugin: basic\n---\n\n## To do\n\n- [ ] buy timber\n\n## Done\n\n- [x] measure\n\n"
              "%% kanban:settings\n```\n{\"kanban-plugin\":\"basic\"}\n```\n%%\n")  # fmt: skip
    vault.add("trash", ".trash/Thrown away.md", "The keyword here is thrownaway.\n")


def _surroundings(vault: ObsidianVault) -> None:
    """Settings of Obsidian and its plug-ins, attachments, a canvas."""
    settings: Mapping[str, object] = {
        ".obsidian/app.json": {"attachmentFolderPath": "Attachments", "newLinkFormat": "shortest"},
        ".obsidian/core-plugins.json": ["file-explorer", "templates", "daily-notes"],
        ".obsidian/community-plugins.json": [
            "dataview",
            "templater-obsidian",
            "obsidian-excalidraw-plugin",
            "obsidian-kanban",
        ],
        ".obsidian/templates.json": {"folder": "Templates"},
        ".obsidian/daily-notes.json": {
            "folder": "Daily",
            "template": "Extras/Layouts/My day",
            "format": "YYYY/MM/YYYY-MM-DD",
        },
        ".obsidian/plugins/templater-obsidian/data.json": {
            "templates_folder": "Extras/Templater",
            "trigger_on_file_creation": True,
        },
        ".obsidian/plugins/dataview/data.json": {"inlineQueryPrefix": "="},
        "Map.canvas": {"nodes": [{"id": "1", "type": "text", "text": "a canvas"}], "edges": []},
    }
    for path, value in settings.items():
        vault.add("settings" if path.startswith(".") else "attachment", path, json.dumps(value, indent=2))
    for count in range(4):
        vault.add("attachment", f"Attachments/photo {count}.png", _PICTURE + bytes([count]))
    vault.add("attachment", "Attachments/Übersicht.pdf", b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")


def _commit(vault: ObsidianVault) -> None:
    root = vault.root
    run = [
        "git",
        "-C",
        str(root),
        "-c",
        "user.name=Pat Person",
        "-c",
        "user.email=pat@example.org",
        "-c",
        "commit.gpgsign=false",
    ]
    (root / ".gitignore").write_text(".obsidian/workspace*.json\n.trash/\n")
    when = {"GIT_AUTHOR_DATE": "2024-06-01T12:00:00Z", "GIT_COMMITTER_DATE": "2024-06-01T12:00:00Z"}
    for words in (
        ["init", "-q", "-b", "main"],
        ["add", "-A"],
        ["commit", "-q", "-m", "vault backup: 2024-06-01 12:00:00"],
    ):
        subprocess.run([*run, *words], check=True, env=os.environ | when)
    _note(vault, "reference", "Reference/Staged.md", "", "A page that was just staged.")
    (root / "Reference/Staged.md").write_bytes(vault.files["Reference/Staged.md"])
    subprocess.run([*run, "add", "Reference/Staged.md"], check=True)
    edited = vault.groups["daily"][0]
    vault.files[edited] += b"\nAnd one more line that is not staged.\n"
    (root / edited).write_bytes(vault.files[edited])


def _bytes(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None
