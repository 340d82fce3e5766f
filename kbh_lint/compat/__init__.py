"""Stand-ins for other projects' checks."""
