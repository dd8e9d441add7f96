"""A module that makes an event loop when it is imported."""

import asyncio

LOOP = asyncio.new_event_loop()
