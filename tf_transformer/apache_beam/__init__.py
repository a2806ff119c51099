"""Translating in Apache Beam pipelines, on many machines; needs `pip install 'tf_transformer[beam]'`."""
