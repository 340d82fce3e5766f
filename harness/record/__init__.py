"""What is kept of a run: its record, its events, the calls of models, and the folder that holds them."""
