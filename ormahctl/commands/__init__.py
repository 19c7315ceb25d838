"""One command, or a close family, a file. `ormahctl.verbs` lists them."""
