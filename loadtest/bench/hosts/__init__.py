"""`bench-hosts`: worker services on one to three hosts, and politeness beside none."""
