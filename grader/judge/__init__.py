"""The judge's side of a submission's processes: the plan, the trial, the turn on the device, and what was seen."""
