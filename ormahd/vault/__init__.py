"""The truth: a folder of notes under git, and the one door through which it changes (DESIGN section 5)."""
