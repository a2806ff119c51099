"""Runs a SavedModel's signature by TensorFlow's C API, in a process that never imports TensorFlow for Python."""
