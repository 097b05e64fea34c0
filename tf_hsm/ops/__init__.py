"""The functions of the package, one file per op or family of ops."""
