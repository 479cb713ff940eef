"""The umbel command: parses, calls, shows. Data to stdout, talk to stderr."""
