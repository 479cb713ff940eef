"""What happened: events and logs of runs, from the files that the executors write."""
