"""The job that merges several small memories about one subject into one summary."""
