"""The command line: starts the services as processes of their own, and talks to them over HTTP."""
