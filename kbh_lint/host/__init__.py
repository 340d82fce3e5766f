"""The interpreter of a submission's Python and of the C++ that it calls: `run.Run` is one run along one path.

Folders by what they mean, the lowest first: `values`, `torch`, `datamodel`, `effects`, `python`, `gpu`, `cpp`, `libs`,
`explore`. What is below reaches what is above through the run.
"""
