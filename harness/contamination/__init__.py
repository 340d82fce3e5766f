"""Whether an agent saw what it must not see."""
