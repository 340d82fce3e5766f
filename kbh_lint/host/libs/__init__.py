"""Libraries, each as far as it is followed."""
