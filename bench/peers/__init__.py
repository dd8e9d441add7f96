"""Other systems that make steps durable, each in a process of its own with the packages of the extra `bench`."""
