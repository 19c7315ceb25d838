"""Maintenance while nobody looks: jobs plan, the runner acts (DESIGN section 6)."""
