"""Starting values that sites can agree on: from labels, from shared centres, by a search, or given."""
