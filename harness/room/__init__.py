"""The room that an agent works in: sealed, bounded, and ended with everything in it."""
