"""The shim that git and harnesses start: `python -I -S …/ormahctl/hook.py --MODE …` (DESIGN sections 5 and 7).

It runs once a file or once a prompt, so it imports what is built into the interpreter and nothing else. The modes stand
in modules of their own beside it: a script is compiled anew each time, a module once.
"""

import sys

_MODES = {"--merge": "ormahctl.shim.merge"}


def main(words: list[str]) -> int:
    """The exit status of the mode that the first word names; 64 where there is none such."""
    name = _MODES.get(words[0]) if words else None
    if name is None:
        sys.stderr.write("hook.py is started by git, as `git config merge.ormah.driver` says\n")
        return 64
    sys.path.append(__file__.rpartition("/ormahctl/")[0])
    __import__(name)
    status: int = sys.modules[name].main(words[1:])
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
