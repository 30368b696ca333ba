"""The ingest service: takes jobs over HTTP and answers when the broker has them."""
