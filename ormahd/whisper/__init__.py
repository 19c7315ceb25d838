"""Whisper: select the few memories that matter for a prompt, before the agent answers; or return no memory, with a
reason."""
