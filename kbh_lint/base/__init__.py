"""What everything else stands on: the intermediate form, values, element types, formulas, facts, bounds."""
