"""`python -m supervisors.cli`: the command, as a detached supervisor is started."""

from supervisors.cli import main

main()
