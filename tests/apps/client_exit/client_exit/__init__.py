"""The ClientApp of one partition ends its process without a word."""
