"""Kernels at the arguments of a launch, by three domains over one walk (`core.walker`): where data comes from (`core`,
`languages`), addresses (`extents`), numbers (`numeric`).
"""
