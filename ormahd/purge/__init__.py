"""Takes a memory out of the history for good."""
