"""Reporters: each turns a Report into text. They are imported only when asked for; `formats` is the list of them."""
