"""Connecting agents: our hooks in the settings of Claude Code, Codex and Gemini CLI, put in and taken out again.

`connect.py` is the sentence: read the file, plan edits, show, write, remember what was added. The harnesses stand in
`harness.py`, what we write in `entry.py`, lossless editing in `json_edit.py` and `toml_edit.py`, the disk in `file.py`.
"""
