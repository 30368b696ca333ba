"""Jobs from a Faktory server: how many to ask for, on which sockets, and how each is settled."""
