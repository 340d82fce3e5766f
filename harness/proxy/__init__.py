"""The way from an agent to its model: keys, pins, caps and the record of every call."""
