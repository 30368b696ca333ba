"""The command line: starts the services as separate processes, and talks to them over HTTP."""

if __name__ != "manyhands.cli":
    raise ImportError(f"import manyhands.cli, not {__name__}: there must be only one of it")
