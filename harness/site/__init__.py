"""The board: a folder of static pages that says what an archive holds, and opens from the disk."""
