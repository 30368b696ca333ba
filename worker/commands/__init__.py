"""The command line of `manyhands worker` and its subcommands."""
