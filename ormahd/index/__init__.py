"""The index: disposable, derived from the vault, rebuilt whenever in doubt (DESIGN sections 3 and 9)."""
