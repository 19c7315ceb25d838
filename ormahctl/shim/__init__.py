"""The modes of `ormahctl/hook.py`. These modules import only what is built into the interpreter."""
