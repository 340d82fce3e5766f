"""What plain values do, as Python's data model says: order, equality, iteration, items, operators, texts."""
