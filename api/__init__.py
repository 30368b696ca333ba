"""The ingest service: takes jobs over HTTP and answers when the broker has them."""

if __name__ != "manyhands.api":
    raise ImportError(f"import manyhands.api, not {__name__}: there must be only one of it")
