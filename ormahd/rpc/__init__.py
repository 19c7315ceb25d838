"""The socket protocol: frames, encoding of calls and replies, and the server. Specification: PROTOCOL.md."""
