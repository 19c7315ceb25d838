"""The commands: one, or a few that belong together, in each module. `ormahctl.registry` lists them."""
