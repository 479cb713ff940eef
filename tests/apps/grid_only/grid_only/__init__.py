"""No strategy: messages are sent and received by hand."""
