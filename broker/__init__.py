"""A Faktory server in one process, without Redis: store ◄ manager ◄ verbs ◄ server."""
