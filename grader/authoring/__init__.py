"""What authors of problems run: derived numbers, prompts, solutions and mutants held to account."""
