"""Tests of `tf_transformer.session`."""
