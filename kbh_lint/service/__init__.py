"""From paths to reports: the Python API, one run over many files, its workers and its stored results."""
