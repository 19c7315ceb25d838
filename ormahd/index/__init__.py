"""The index: derived from the vault, disposable, and rebuilt whenever in doubt (DESIGN sections 3 and 9)."""
