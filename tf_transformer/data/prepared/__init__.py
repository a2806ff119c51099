"""Sentence pairs tokenised once, in a folder, and batches of them in an order that follows from the seed."""
