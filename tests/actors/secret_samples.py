"""Secrets with everything in them that some program prints in another way than it is."""

AWKWARD = (
    "plain-planted-secret-1",
    'planted "quoted" secret',
    "planted 'apostrophe' secret",
    "planted 'both\" quotes",
    "planted\\back\\slash",
    "planted\nin two lines",
    "planted\ttab and \x1f control",
    "planted-ümlaut-€-🔑",
    "planted/with spaces+and%percent",
    "planted\udce9 no UTF-8",
    "planted-at-the-end-\\",
    ".*planted(regular[expression",
)
"""In each of them is the word "planted", however it is printed."""
