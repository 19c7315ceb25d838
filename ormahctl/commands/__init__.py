"""One command, or a close family, a file. `ormahctl.registry` lists them."""
