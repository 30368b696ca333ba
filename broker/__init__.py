"""A Faktory server in one process, without Redis: store ◄ manager ◄ verbs ◄ server."""

if __name__ != "manyhands.broker":
    raise ImportError(f"import manyhands.broker, not {__name__}: there must be only one of it")
