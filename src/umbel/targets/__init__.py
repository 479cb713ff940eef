"""What hosts sites."""
