"""The command line's side of the package: its process, what it is given, and what it prints."""
