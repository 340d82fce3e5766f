"""What is said of a graded submission: text, page and tables."""
