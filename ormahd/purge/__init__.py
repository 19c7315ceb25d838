"""Removes a memory from the history permanently."""
