"""A module that opens a connection when it is imported."""

import socket

LISTENER = socket.socket()
