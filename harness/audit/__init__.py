"""`kbh audit`: reads a published archive, lints its solutions, and holds its annotations against the result."""
