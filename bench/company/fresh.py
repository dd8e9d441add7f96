"""A fresh interpreter that imports what the company's zygote has imported, says so, and ends."""

import bench.company.parts  # noqa: F401 -- with what agents will import
import supervisors.processes.zygote  # noqa: F401 -- with all that an actor's process is made of

print("ready", flush=True)
