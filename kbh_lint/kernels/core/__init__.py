"""What kernels of all languages share: values and where they come from, the walk, arithmetic, joins, facts."""
