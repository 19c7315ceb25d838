"""The page for people, at the gateway's port on loopback: HTML made here, by the daemon's methods.

`views` calls the daemon and chooses a template, `forms` does what a form asks for, `words` turns values into text.
"""
