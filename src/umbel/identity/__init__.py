"""Who is who in a federation: its CA, its servers, its sites' keys, its people's tokens.

Nothing here reads a clock or opens a socket: the time is an argument, the only effects are
private files. What several processes may make at once is made once.
"""
