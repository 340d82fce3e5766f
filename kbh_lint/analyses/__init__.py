"""What a trace shows, one question a file; `shape_facts` asks them all of a graded shape, `promises` judges."""
