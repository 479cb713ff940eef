"""The ServerApp raises after round 1."""
