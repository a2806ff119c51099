"""The kinds of attention in a model: what attends to what."""

# Encoder self-attention, decoder self-attention, encoder-decoder attention.
KINDS = ("encoder", "decoder", "cross")
