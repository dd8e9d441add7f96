"""Asking Claude: the only place that knows the SDK, with its keys, its limits and its bill."""
