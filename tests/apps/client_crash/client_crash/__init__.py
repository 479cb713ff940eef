"""The ClientApp of one partition raises; the others go on."""
