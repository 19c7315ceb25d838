"""The job that merges duplicate memories."""
