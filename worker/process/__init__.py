"""One worker process, a child of the supervisor."""
