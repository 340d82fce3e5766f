"""What C++ means wherever it is interpreted, over the types of any domain: overloads, templates, specialisations."""
