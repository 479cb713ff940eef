"""What may be wrong on this machine: facts are gathered at the edge, then judged by pure checks."""
