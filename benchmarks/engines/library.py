"""The library that the server is built on, without a server: many texts in batches, and one text a call."""

from __future__ import annotations

import time

from protocol import begin, requests


def main() -> None:
    options, answer = begin()
    from tf_transformer.terminal import quiet_tensorflow

    with quiet_tensorflow(streams=True):
        import tensorflow as tf

        from tf_transformer.translation import load_translate, translate_texts

    translate = load_translate(options["model"])
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
