"""Connect agents: add Ormah's hooks and MCP server to their settings, and remove them again.

`connect.py` plans the change of a settings file, `harness.py` describes the agents, `edit.py` edits JSON and TOML
without other changes, and `file.py` replaces files. `change.py` has the hook's command and the records of what was
added, `service.py` the files for systemd and launchd.
"""
