"""A note as bytes and as a node, pure: read, written, edited, merged. FORMAT.md specifies the format."""
