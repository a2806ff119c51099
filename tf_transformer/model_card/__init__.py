"""Model cards: what a model is, what it was trained on, its scores, and what it must not be used for.

A card is one dictionary of facts, stored as JSON, and a page generated from it. The idea is from Mitchell et al., 2019.
"""
