"""Where the stores of a launch reach, and what it reads more than once."""
