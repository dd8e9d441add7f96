"""A module that starts a thread when it is imported, which no fork survives."""

import threading

threading.Thread(target=threading.Event().wait, name="busybody", daemon=True).start()
