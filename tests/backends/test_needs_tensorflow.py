"""What only TensorFlow can do says so on another backend; the command takes TensorFlow by itself (tests/cli)."""


def test_what_needs_tensorflow_says_so(found):
    needs = "needs Keras's TensorFlow backend, but this process uses jax: set the environment variable KERAS_BACKEND"
    assert found["told/translator"].startswith(f"a Translator {needs}")
    assert found["told/training"].startswith(f"training from a recipe {needs}")
