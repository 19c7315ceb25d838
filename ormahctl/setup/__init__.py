"""Connect agents: add hooks to the settings of Claude Code, Codex and Gemini CLI, and remove them again.

`connect.py` has the steps: read the file, plan edits, show them, write, record what was added. `harness.py` describes
the agents, `edit.py` edits JSON and TOML without other changes, `file.py` replaces files, `change.py` has the hook's
command and the records, `service.py` the files for systemd and launchd.
"""
