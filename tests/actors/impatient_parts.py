"""No part at all: whoever imports this is told to leave before it has begun."""

import os
import signal

os.kill(os.getpid(), signal.Signals[os.environ["TOLD_BY"]])
CODER = None
