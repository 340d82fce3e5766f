"""Texts to the one intermediate form (`base.ir`): Python, C++ and CUDA, PTX."""
