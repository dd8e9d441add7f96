"""How fast we are beside the raw library, on the same server, in the same run: `python -m bench`."""
