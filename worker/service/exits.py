"""Exit codes of a worker process, and how its supervisor reads them. Pure."""

import signal

CLEAN = 0
UNCLEAN = 1
# Trying again cannot help: a wrong setting or a wrong password (EX_CONFIG of sysexits.h).
POINTLESS = 78
# Clean, and not started again: it was stopped through the server's web page.
STOPPED_BY_SERVER = 79


def describe_exit(code: int) -> str:
    """As a log shows it: a number, or the signal by its name."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
