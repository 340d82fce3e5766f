"""`kbh-lint lsp`: findings in an editor, by the Language Server Protocol."""
