"""The README, the documents and the docstrings: what they say is true, and their blocks do what they say."""
