"""For all tests: a terminal's signals, whoever started us."""

import signal

from hypothesis import settings

settings.register_profile("suite", max_examples=50)
settings.load_profile("suite")  # the suite is to end while somebody waits for it

# A shell without job control starts what it puts in the background with SIGINT ignored, and every process that a test
# starts would inherit that: `ormahctl logs --follow` could then not be interrupted. A handler of ours is not inherited.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
