"""The worker service: its slots and its processes."""
