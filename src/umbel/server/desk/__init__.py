"""The desk: answers, inside a hub, for the one federation that runs there.

It listens on a Unix socket behind the gate, which knows who may ask. `python -m umbel.server.desk`.
"""
