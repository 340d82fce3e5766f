"""What crosses between the judge and a candidate: frames, memory, and the form of outputs. Imports nothing of ours."""
