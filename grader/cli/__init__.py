"""The commands of `kbh` that grade, show and keep problems. Each is imported when it is called."""
