"""Problems of the deck for those who write and check them: commands, derived numbers, stored evidence."""
