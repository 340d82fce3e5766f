"""A model that plays a part from a file: an upstream on loopback which speaks every dialect and fails on demand."""
