"""Maintenance jobs: each job plans changes, and the runner applies them (DESIGN section 6)."""
