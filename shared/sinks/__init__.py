"""What the writers and the readers of records both know of a sink: its URL, and its manifest."""
