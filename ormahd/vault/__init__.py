"""The vault: a folder of notes under git, and the transactions through which alone it changes (DESIGN section 5)."""
