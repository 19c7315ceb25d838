"""Pure values and rules: no disk, no clock, no network. Everything above imports this, this imports nothing above."""
