"""What `ormahctl/hook.py` is made of: modules that import what is built into the interpreter, and nothing else."""
