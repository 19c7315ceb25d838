"""Whisper: the few memories that matter for a prompt, before the agent answers, or silence with a reason."""
