"""The worker service: takes jobs from a server and runs their handlers."""

if __name__ != "manyhands.worker":
    raise ImportError(f"import manyhands.worker, not {__name__}: there must be only one of it")
