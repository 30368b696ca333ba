"""The command line: starts the services as processes of their own."""
