"""The library that the server is built on, without a server: many texts in batches, and one text a call."""

from __future__ import annotations

import time
from pathlib import Path

from protocol import begin, requests


def main() -> None:
    options, answer = begin()
    from tf_transformer.terminal.process import quiet_tensorflow

    with quiet_tensorflow(streams=True):
        import tensorflow as tf

        from tf_transformer.translation.loading import load_saved_model
        from tf_transformer.translation.texts import translate_texts

    loaded = load_saved_model(Path(options["model"]))
    signatures = loaded.signatures
    if "warm_up" in signatures:
        signatures["warm_up"](rows=tf.constant([1, 1, 1]), lengths=tf.constant([16, 32, 64]))

    def translate(texts: tf.Tensor) -> dict[str, tf.Tensor]:
        return signatures["translate"](text=tf.convert_to_tensor(texts))

    texts = options["texts"]
    answer(texts=len(texts))
    for request in requests():
        began = time.perf_counter()
        if request["pass"] == "many":
            translations = list(translate_texts(translate, texts, options["batch_size"], options["streams"]))
            answer(rate=len(translations) / (time.perf_counter() - began))
            continue
        milliseconds = []
        while time.perf_counter() < began + request["seconds"]:
            called = time.perf_counter()
            output = translate(tf.constant([texts[len(milliseconds) % len(texts)]]))
            output["translation"].numpy()
            milliseconds.append(1000 * (time.perf_counter() - called))
        answer(milliseconds=milliseconds)


if __name__ == "__main__":
    main()
