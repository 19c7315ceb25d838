"""The script that git and harnesses start: `python -I -S …/ormahctl/hook.py --MODE …` (DESIGN sections 5 and 7).

It runs once for each file or prompt, so it imports only builtin modules. The modes are modules of their own in `shim/`,
because Python caches the compiled code of a module, but not that of a script.
"""

import sys

_MODES = {"--merge": "ormahctl.shim.merge", "--hook": "ormahctl.shim.prompt", "--mcp": "ormahctl.shim.pump"}


def main(words: list[str]) -> int:
    """Run the mode that `words[0]` names, such as `--hook`, and return its exit status; 64 if there is no such
    mode."""
    name = _MODES.get(words[0]) if words else None
    if name is None:
        sys.stderr.write("hook.py is started by git and by agents, as `ormahctl setup` and our merge driver say\n")
        return 64
    sys.path.append(__file__.rpartition("/ormahctl/")[0])
    try:
        __import__(name)
        status: int = sys.modules[name].main(words[1:])
    except BaseException:
        if words[0] == "--hook":
            return 0  # a broken installation must not keep a prompt from the agent
        raise
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
