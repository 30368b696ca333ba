"""A fetched page: its text and links, and the job that carries it to the parse stage."""
