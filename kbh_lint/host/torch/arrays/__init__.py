"""Arrays in device memory whose package calls torch's operations by numpy's names: those of CuPy."""
