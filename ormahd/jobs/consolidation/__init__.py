"""Makes one memory of several small ones on one thing."""
