"""Where crawls are kept: the protocol of a store, and its kinds."""
