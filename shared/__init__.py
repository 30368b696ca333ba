"""What every service builds on: jobs, errors, settings, the Faktory client. Imports no other."""

if __name__ != "manyhands.shared":
    raise ImportError(f"import manyhands.shared, not {__name__}: there must be only one of it")
