"""PTX, in texts of inline assembly."""
