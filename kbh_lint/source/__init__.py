"""Which files are submissions, which problem and target they are for, and where each character was written."""
