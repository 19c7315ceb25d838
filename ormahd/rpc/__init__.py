"""The wire: what may be asked over the socket, how it is framed, who answers. Specification: PROTOCOL.md."""
