"""The ClientApp imports a package that nobody has."""
