"""The bus on containerised NATS, one node and three: run by `make test-containers` (see docs/containers.md)."""
