"""What all tests need."""

import signal

# A shell that starts a program in the background lets it ignore interrupts, and Python then leaves them ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
