"""The job that connects memories that are near in meaning."""
