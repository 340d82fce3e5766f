"""TileLang."""
