"""ormahctl: how people, hooks and agents reach ormahd."""
