"""Ormah's server in Codex's `config.toml`: added as text of its own, taken out again, whatever stands beside it."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ormahctl.setup.edit import Toml
from ormahctl.setup.file import InvalidSettings, apply, reverse
from ormahd.rpc.wire import Conflict

SERVER = {"command": "/a b\\/ormahctl", "args": ["--socket", "/x", "mcp"]}
PIECES = st.sampled_from(
    ["# a comment", 'model = "x"', "", "when = 1979-05-27T07:32:00Z", "ratio = nan", 'text = """\n[[hooks.Stop]]\n"""',
     "a.b = [1,\n  2, # two\n]"]
)  # fmt: skip
TABLES = st.sampled_from(
    ["[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = 'command'\ncommand = 'beep'", "[profiles.fast]\nmodel = 'y' # z",
     "[mcp_servers.docs]\ncommand = 'docs'\nargs = [\n  'a',\n]", "[mcp_servers]", "[hooks.state]\n'a:b' = {enabled = true}"]
)  # fmt: skip


@st.composite
def files(draw: st.DrawFn) -> bytes:
    pieces = draw(st.lists(PIECES, unique=True, max_size=4)) + draw(st.lists(TABLES, unique=True, max_size=4))
    text = "\n".join(pieces) + draw(st.sampled_from(["", "\n", "\n\n"]))
    if "[mcp_servers.docs]" in text and "[mcp_servers]" in text.partition("[mcp_servers.docs]")[2]:
        text = text.replace("[mcp_servers]\n", "").replace("[mcp_servers]", "")
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"]))).encode()


@given(data=files(), later=st.sampled_from([b"", b'[hooks.state."x:stop:1:0"]\ntrusted_hash = "00"\n']))
def test_a_server_is_added_at_the_end_and_taken_out_again(data: bytes, later: bytes) -> None:
    before = Toml.parse(data)
    edits = before.put("mcp_servers", "ormah", SERVER)
    after = before.after(edits)
    assert after.data.startswith(data)
    assert after.value["mcp_servers"]["ormah"] == SERVER
    assert apply(after.data, reverse(edits)) == data
    if later and b"[hooks.state]" not in data:
        after = Toml.parse(after.data + b"\n" + later)
    left = apply(after.data, after.take("mcp_servers", "ormah"))
    assert left.replace(later, b"").rstrip() == data.rstrip()


def test_our_lines_are_renewed_where_they_stand() -> None:
    data = b"""# x
[mcp_servers.ormah] # memory
command = "/old/ormahctl" # mine
args = ["mcp"]
startup_timeout_sec = 20

[mcp_servers.ormah.tools.recall]
approval_mode = "approve"

[profiles.fast]
model = 'y'
"""
    document = Toml.parse(data)
    after = document.after(document.renew("mcp_servers", "ormah", SERVER))
    entry = dict(after.value["mcp_servers"]["ormah"])
    assert entry | SERVER == entry
    assert (entry["startup_timeout_sec"], list(entry["tools"])) == (20, ["recall"])
    assert after.data.endswith(data[data.index(b"startup") :])
    left = apply(after.data, after.take("mcp_servers", "ormah"))
    assert left == b"# x\n\n[profiles.fast]\nmodel = 'y'\n"


@pytest.mark.parametrize("data", [b'mcp_servers = {ormah = {command = "x"}}', b'[mcp_servers]\normah.command = "x"\n'])
def test_another_form_is_not_edited(data: bytes) -> None:
    with pytest.raises(Conflict, match="in a form that is not edited"):
        Toml.parse(data).take("mcp_servers", "ormah")
    assert tomllib.loads(data.decode())["mcp_servers"]["ormah"] == {"command": "x"}


@pytest.mark.parametrize(
    ("data", "place", "says"),
    [
        (b"a = 1\nb = = 2\n", "line 2, column 5", "invalid value"),
        (b"a = 1\na = 2\n", "line 2", "cannot overwrite a value"),
        (b'a = "never closed', "at end of document", ""),
        (b"a = '\xff'", "line 1, column 6", "no UTF-8"),
        (b"a = " + b"[" * 100_000, "", ""),
    ],
)
def test_what_is_no_toml_is_refused_with_its_place(data: bytes, place: str, says: str) -> None:
    with pytest.raises(InvalidSettings) as failed:
        Toml.parse(data)
    assert place in failed.value.message
    assert says in failed.value.message
