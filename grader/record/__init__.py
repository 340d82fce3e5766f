"""What is kept of a grading: the cell, the bundle, and how the run that made a submission is known."""
