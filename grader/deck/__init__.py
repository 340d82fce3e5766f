"""A problem's own code, the cases drawn for it, and when an output is right."""
