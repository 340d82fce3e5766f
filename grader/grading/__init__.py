"""One submission from request to cell: snapshot, lint, build, trial, silicon, verdict, bundle."""
