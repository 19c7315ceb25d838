"""The wire's types, first used by many threads at once: in a process of its own, because what goes wrong there ends it."""

from __future__ import annotations

import subprocess
import sys

AT_ONCE = """
import sys, threading
from msgspec import Struct
from ormahd.rpc.codec import read_reply

sys.setswitchinterval(0.0001)  # other threads come between, as in a daemon that is asked by many

BODY = b'{"id": 1, "result": {"field_3": ["said"]}}'

def kind():
    fields = "".join(f"    field_{n}: 'list[str] | None' = None\\n" for n in range(12))
    exec(f"class Part(Struct):\\n{fields}\\nclass Made(Struct):\\n{fields}    part: 'Part | None' = None\\n", globals())
    return Made

def write(made, together, found):
    together.wait()
    found.append(read_reply(b"j", BODY, made).result.field_3)

for _ in range(50):
    made, together, found = kind(), threading.Barrier(8), []
    threads = [threading.Thread(target=write, args=(made, together, found)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [["said"]] * 8, found
"""


def test_a_type_that_many_threads_use_first_is_looked_up_once() -> None:
    done = subprocess.run([sys.executable, "-c", AT_ONCE], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
