"""A module that starts a thread of which Python's `threading` knows nothing, as one of C's would."""

import _thread
import threading

_thread.start_new_thread(threading.Event().wait, ())
